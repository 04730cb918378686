package value

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/operation"
)

// Line numbers those who increment elements one after the other, each on what the one before has made: the clients of a
// data center. 0 is of those who do not know what the one before has made; they set the sum.
type Line uint64

// sum is what a line has added to an element, in one cell: of several of a line the newest counts. So what is added
// does not have to be known elsewhere to be added up, and counts once however often it comes.
type sum struct {
	line Line
	// began is the write with which the line began to add up. Whoever sets the element, or removes it, ends what began
	// at or below that.
	began causal.Version
	at    causal.Version // the write that has set the cell
	// The line has added total - start. total is what the line has shown, so a number that one line adds to is exactly
	// what its clients were told, however it was rounded.
	start, total string
}

// compare orders the cells of a line by what counts.
func (s *sum) compare(o *sum) int {
	if c := s.began.Compare(o.began); c != 0 {
		return c
	}
	return s.at.Compare(o.at)
}

// joinSums returns the newest cell of each line, of those that began above v.
func joinSums(k Kind, a, b []sum, v causal.Version) []sum {
	switch {
	case len(a)+len(b) == 0:
		return nil
	case k == HyperLogLog:
		return joinRaised(a, b, v)
	}
	all := slices.DeleteFunc(slices.Concat(a, b), func(s sum) bool { return !v.Less(s.began) })
	slices.SortFunc(all, func(s, o sum) int {
		if c := cmp.Compare(s.line, o.line); c != 0 {
			return c
		}
		return o.compare(&s)
	})
	all = slices.CompactFunc(all, func(s, o sum) bool { return s.line == o.line })
	if len(all) == 0 {
		return nil
	}
	return all
}

// endSums returns the cells but for those that began at or below the horizon of a collection that has none of their
// line: there they were ended, and that was collected.
func endSums(k Kind, sums, others []sum, collected causal.HLC) []sum {
	if len(sums) == 0 || collected == 0 {
		return sums
	}
	return slices.DeleteFunc(slices.Clone(sums), func(s sum) bool {
		return s.began.HLC <= collected && !slices.ContainsFunc(others, func(o sum) bool {
			return o.line == s.line && (k != HyperLogLog || o.at == s.at)
		})
	})
}

// isAlive reports whether the element is there: it was added, or something was added to it since it was removed.
func (r *row) isAlive() bool { return !r.dead || len(r.sums) > 0 }

// isBare reports whether the row says nothing of the element but what was added to it.
func (r *row) isBare() bool { return r.dead && r.at.IsZero() }

// newest returns the newest write of the row that has added the element, or to it.
func (r *row) newest() causal.Version { return r.newestFrom(r.at) }

// seen returns what a removal of the element names.
func (r *row) seen() causal.Version { return r.newestFrom(r.since()) }

func (r *row) newestFrom(v causal.Version) causal.Version {
	for i := range r.sums {
		v = maxVersion(v, r.sums[i].at)
	}
	return v
}

// sumOf returns the cell of a line, or nil.
func (r *row) sumOf(line Line) *sum {
	for i := range r.sums {
		if r.sums[i].line == line {
			return &r.sums[i]
		}
	}
	return nil
}

// set returns what the element was set to before lines have added to it; nothing: it was not there.
func (r *row) set() string {
	if r.dead {
		return ""
	}
	return r.payload
}

// text returns the payload of the element: of a number to which lines have added, the sum.
func (r *row) text() string {
	switch {
	case len(r.sums) == 0:
		return r.payload
	case r.kind == HyperLogLog:
		all := registersIn(r.sums)
		return string(all[:])
	case len(r.sums) == 1 && r.sums[0].start == r.set():
		return r.sums[0].total
	}
	return addUp(r.kind, r.set(), r.sums)
}

// addUp returns a number and all that lines have added to it. What is no number remains as it is.
func addUp(k Kind, set string, sums []sum) string {
	if k == SortedSet {
		score := Score(set)
		for i := range sums {
			score = addScores(score, Score(sums[i].total)-Score(sums[i].start))
		}
		return ScorePayload(score)
	}
	n, ok := numberOf(set)
	if !ok {
		return set
	}
	for i := range sums {
		total, _ := numberOf(sums[i].total)
		start, _ := numberOf(sums[i].start)
		n = n.Add(total).Sub(start)
	}
	return n.String()
}

// addScores adds scores. As where Redis combines sorted sets, opposite infinities are 0.
func addScores(a, b float64) float64 {
	if sum := a + b; !math.IsNaN(sum) {
		return sum
	}
	return 0
}

// ScoreBytes is what the payload of a member of a sorted set takes.
const ScoreBytes = 8

// ScorePayload returns the payload of a member of a sorted set with a score. As in Redis, it has no negative zero.
func ScorePayload(score float64) string {
	return string(binary.BigEndian.AppendUint64(nil, math.Float64bits(score+0)))
}

// Score is the inverse of ScorePayload. The score of no payload is 0.
func Score(payload string) float64 {
	if len(payload) != ScoreBytes {
		return 0
	}
	return math.Float64frombits(binary.BigEndian.Uint64([]byte(payload)))
}

// numberOf returns the number that a text is; nothing is 0.
func numberOf(text string) (operation.Decimal, bool) {
	if text == "" {
		return operation.Decimal{}, true
	}
	return operation.ParseDecimal(text)
}

// isSummable reports whether cells may be of an element of a kind: lines add to numbers.
func isSummable(k Kind, sums []sum) bool {
	for i := range sums {
		switch s := &sums[i]; {
		case s.line == 0 || i > 0 && sums[i-1].line >= s.line:
			return false
		case k == SortedSet:
			if len(s.total) != ScoreBytes || len(s.start) != 0 && len(s.start) != ScoreBytes {
				return false
			}
		case k == Hash, k == Text:
			_, isStart := numberOf(s.start)
			if _, isTotal := numberOf(s.total); !isTotal || !isStart {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// next returns the cell of a line when an element with a row gets a new sum.
func (r *row) next(line Line, total string) sum {
	s := sum{line: line, began: self, at: self, total: total}
	shown := ""
	if r.isAlive() {
		shown = r.text()
	}
	own := r.sumOf(line)
	switch {
	case own == nil:
		s.start = shown
	case shown == own.total:
		s.began, s.start = own.began, own.start
	default: // what all others have made
		s.began, s.start = own.began, addUp(r.kind, shown, []sum{{start: own.total, total: own.start}})
	}
	return s
}
