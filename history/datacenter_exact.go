package history

import (
	"cmp"
	"hash/maphash"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// exact searches for an order of the operations on a key in a data center that explains their replies.
//
// Writes that float, which may take effect at any time after their start or never, are not put in order by the search,
// which would try each subset of them at each place. They change nothing until a reply tells of them, so one takes
// effect just before an operation whose reply the value so far does not explain. Each does once.
type exact struct {
	ops      []*access
	floating []floatingWrite
	// byContent are the floating writes that a reply may tell apart, in the order of their starts. Those whose value no
	// reply tells of are all under unobserved: one is as good as the other. Classes are all lists of byContent.
	byContent map[content][]int
	classes   [][]int
}

// floatingWrite is a write that may take effect at any time after its start, or never.
type floatingWrite struct {
	content content
	start   int64
}

// unobserved stands for all values that no reply tells of, and anyContent for one that is not known.
var (
	unobserved = content{present: true, text: "\x00unobserved"}
	anyContent = content{present: true, any: true}
)

// state is what the search knows between two operations.
type state struct {
	content content
	used    string // a bit for each floating write
}

// checkExact checks that a data center has executed the commands on a key as one Redis does.
func (r *DataCenterReport) checkExact(h History, k *keyAccesses, dc string, o DataCenterOptions, deadline time.Time) {
	p := &r.Exact
	p.Keys++
	s, left := newExact(k, dc)
	p.NotJudged += left
	p.Judged += len(s.ops)
	within := time.Now().Add(min(o.KeyTime, time.Until(deadline)))
	switch s.decide(s.ops, within) {
	case porcupine.Unknown:
		p.Undecided = append(p.Undecided, shown(k.name)+" in "+dc)
	case porcupine.Illegal:
		if len(p.Violations) == o.MaxViolations {
			p.Total++
			return
		}
		text, ops := s.explain(h, time.Now().Add(min(o.KeyTime, time.Until(deadline))))
		p.add(NotOneRedis, o, shown(k.name)+" in "+dc+": "+text, ops...)
	}
}

// newExact prepares the search for a key in a data center. It also returns how many operations are left out.
func newExact(k *keyAccesses, dc string) (s *exact, left int) {
	s = &exact{byContent: map[content][]int{}}
	foreign := map[content]bool{}
	for i := range k.accesses {
		a := &k.accesses[i]
		wrote, writes := a.wrote()
		switch {
		case a.dc != dc:
			if writes {
				s.floating = append(s.floating, floatingWrite{wrote, a.start})
				foreign[wrote] = true
			}
		case !a.answered && a.does == keep:
		case !a.answered && a.when == always && a.does != appendTo && a.does != add:
			s.floating = append(s.floating, floatingWrite{wrote, a.start})
		default:
			s.ops = append(s.ops, a)
		}
	}
	s.ops = slices.DeleteFunc(s.ops, func(a *access) bool {
		found := content{present: !a.isNil, text: a.reply}
		skip := a.inFlight && a.does == keep && !a.isUpdate && a.asks == whole &&
			(foreign[found] || foreign[anyContent])
		if skip {
			left++
		}
		return skip
	})
	slices.SortStableFunc(s.floating, func(a, b floatingWrite) int { return cmp.Compare(a.start, b.start) })
	s.classify()
	return s, left
}

// classify sorts the floating writes by what replies tell of them.
func (s *exact) classify() {
	told := map[content]bool{}
	all := false // replies tell of more than whole values
	for _, a := range s.ops {
		all = all || a.asks == length || a.dependsOnFound()
		switch {
		case a.answered && a.asks == whole:
			told[content{present: !a.isNil, text: a.reply}] = true
		case a.answered && a.asks == number:
			told[a.addend()] = true
		}
	}
	for i, f := range s.floating {
		c := f.content
		if c.present && !c.any && !all && !told[c] {
			c = unobserved
		}
		s.byContent[c] = append(s.byContent[c], i)
	}
	for _, class := range s.byContent {
		s.classes = append(s.classes, class)
	}
	slices.SortFunc(s.classes, func(a, b []int) int { return cmp.Compare(a[0], b[0]) })
}

// addend returns the number that a command which adds has found, as its reply says.
func (a *access) addend() content {
	sum, err := strconv.ParseInt(a.reply, 10, 64)
	if err != nil {
		return content{}
	}
	return content{present: true, text: strconv.FormatInt(sum-a.delta, 10)}
}

// maxSearchBytes bounds the memory of a search, roughly.
const maxSearchBytes = 256 << 20

// run is one search.
type run struct {
	*exact
	perState, bytes int
	exhausted       bool
}

// decide reports whether there is an order of operations that explains their replies.
func (s *exact) decide(ops []*access, deadline time.Time) porcupine.CheckResult {
	left := time.Until(deadline)
	if left <= 0 {
		return porcupine.Unknown
	}
	r := &run{exact: s, perState: len(ops)/8 + len(s.floating)/8 + 200}
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{state{used: strings.Repeat("\x00", (len(s.floating)+7)/8)}} },
		Step: func(at, input, _ any) []any { return r.step(at.(state), input.(*access)) },
		Hash: func(at any) uint64 { return hash(at.(state)) },
	}
	history := make([]porcupine.Operation, len(ops))
	for i, a := range ops {
		history[i] = porcupine.Operation{Input: a, Call: a.start, Return: a.end}
	}
	result := porcupine.CheckOperationsTimeout(model.ToModel(), history, left)
	if result == porcupine.Illegal && r.exhausted {
		return porcupine.Unknown
	}
	return result
}

// step returns the states in which an operation may leave the key: none if nothing explains its reply.
func (r *run) step(at state, a *access) (next []any) {
	if r.exhausted || r.latestStart(at.used) > a.end {
		return nil
	}
	left, ok := a.execute(at.content)
	if ok {
		next = append(next, state{left, at.used})
	}
	if !ok || a.dependsOnFound() {
		for _, class := range r.candidates(a) {
			i := r.firstUnused(class, at.used, a.end)
			if i < 0 {
				continue
			}
			if left, ok := a.execute(r.floating[i].content); ok {
				next = append(next, state{left, with(at.used, i)})
			}
		}
	}
	r.bytes += len(next) * r.perState
	r.exhausted = r.bytes > maxSearchBytes
	return next
}

// candidates returns the floating writes, in their classes, whose values may explain the reply to an operation.
func (s *exact) candidates(a *access) [][]int {
	switch {
	case a.answered && a.asks == whole:
		return [][]int{s.byContent[content{present: !a.isNil, text: a.reply}], s.byContent[anyContent]}
	case a.answered && a.asks == number:
		return [][]int{s.byContent[a.addend()], s.byContent[content{}], s.byContent[anyContent]}
	}
	return s.classes
}

// firstUnused returns the floating write of a class that started first and has not taken effect, if it started by a
// time; -1: none. It is the one that leaves most to the operations behind.
func (s *exact) firstUnused(class []int, used string, by int64) int {
	for _, i := range class {
		if used[i/8]&(1<<(i%8)) == 0 {
			if s.floating[i].start <= by {
				return i
			}
			break
		}
	}
	return -1
}

// latestStart returns when the last one of the writes started that have taken effect: what comes next in the order did
// not end before.
func (s *exact) latestStart(used string) int64 {
	for i := len(used) - 1; i >= 0; i-- {
		if used[i] != 0 {
			return s.floating[i*8+bits.Len8(used[i])-1].start
		}
	}
	return math.MinInt64
}

// with adds a floating write to those that have taken effect.
func with(used string, i int) string {
	b := []byte(used)
	b[i/8] |= 1 << (i % 8)
	return string(b)
}

var hashSeed = maphash.MakeSeed()

func hash(at state) uint64 { return maphash.Comparable(hashSeed, at) }
