package drill

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/causalstore/causalstore/controllers/drill/record"
	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/lab/canary"
)

// judge collects what canaries saw, and says what it proves. Times of canaries are moved to the clock of the judge: by
// the least difference between a report's time and its arrival, so by at most one round trip too much.
type judge struct {
	history history.History
	by      []CanaryID                   // of each operation
	samples map[CanaryID][]canary.Sample // on their own clocks
	offsets map[CanaryID]int64
	seen    map[CanaryID]canary.Report // the last report of each canary, without its history
	// reported are the incarnations of canaries that have reported all that they did.
	reported map[string]bool
	checker  history.Checker
}

func newJudge() *judge {
	return &judge{samples: map[CanaryID][]canary.Sample{}, offsets: map[CanaryID]int64{},
		seen: map[CanaryID]canary.Report{}, reported: map[string]bool{}}
}

// add takes a report that arrived at a time.
func (j *judge) add(id CanaryID, r canary.Report, arrived time.Time) error {
	ops, err := history.ReadAll(strings.NewReader(r.History))
	if err != nil {
		return fmt.Errorf("read the history of the canary of %s: %w", id, err)
	}
	offset := arrived.UnixNano() - r.Now
	if before, ok := j.offsets[id]; !ok || offset < before {
		j.offsets[id] = offset
	}
	j.history, j.by = append(j.history, ops...), append(j.by, slices.Repeat([]CanaryID{id}, len(ops))...)
	j.samples[id] = append(j.samples[id], r.Samples...)
	if r.Stopped {
		j.reported[cmp.Or(r.Next.Incarnation, r.DataCenter)] = true
	}
	r.History, r.Samples = "", nil
	j.seen[id] = r
	return nil
}

// unreported returns the writes that only reads of others show: those of canaries that were stopped by the faults, or
// are gone, with what they had not reported. Their codes prove that canaries of the run have made them. Nothing else is
// known of them: whether they were acknowledged, and what their sessions had read just before. So each is a write of
// unknown outcome in a process of its own, after what its session is known to have done before.
func (j *judge) unreported(h history.History) (writes history.History) {
	type cell struct{ key, value string }
	known, sessions, ends, latest := map[cell]bool{}, map[string]string{}, map[string]int64{}, int64(0)
	for i := range h {
		op := &h[i]
		if op.Kind == history.Put {
			known[cell{op.Key, op.Value}] = true
		}
		process := cmp.Or(op.Process, op.Session)
		sessions[process], ends[process], latest = op.Session, op.End, max(latest, op.End)
	}
	add := func(key, value string, missing bool) {
		w, ok := canary.WriterOf(value)
		if missing || !ok || known[cell{key, value}] || j.reported[w.Incarnation] {
			return
		}
		known[cell{key, value}] = true
		writes = append(writes, history.Op{Kind: history.Put, Key: key, Value: value,
			Session: cmp.Or(sessions[w.Process], w.Process), Process: value, Unknown: true,
			Start: ends[w.Process] + 1, End: latest + 1})
	}
	for i := range h {
		switch op := &h[i]; {
		case !op.OK:
		case op.Kind == history.Get:
			add(op.Key, op.Value, op.Missing)
		default:
			for _, r := range op.Reads {
				add(r.Key, r.Value, r.Missing)
			}
		}
	}
	return writes
}

// check runs the causal checker on everything so far.
func (j *judge) check() history.Report { return j.checker.Check(j.history, history.Options{}) }

// brokenSoFar returns a violation that nothing which is still to be reported can explain. Canaries are asked one after
// the other, and report a write when it has ended: what another canary has read may be a write that is not known here
// yet. That it never was is judged at the end.
func (j *judge) brokenSoFar() (history.Violation, bool) {
	for _, v := range j.check().Violations { // some of each kind are explained
		if v.Kind != history.ThinAir {
			return v, true
		}
	}
	return history.Violation{}, false
}

// checkFinally runs it with final reads, and with what only reads show.
func (j *judge) checkFinally(final history.History) history.Report {
	h := slices.Concat(j.history, final)
	return j.checker.Check(append(h, j.unreported(h)...), history.Options{})
}

// forged are values that no canary has written.
func (j *judge) forged() (all []string) {
	for id, samples := range j.samples {
		for _, s := range samples {
			if s.Kind == canary.Forged {
				all = append(all, id.String()+": "+s.Text)
			}
		}
	}
	slices.Sort(all)
	return all
}

// at is a time of a canary on the judge's clock.
func (j *judge) at(id CanaryID, ns int64) time.Time { return time.Unix(0, ns+j.offsets[id]) }

// outcomes counts the operations of data centers that are not hit which ended since a time, and those that failed.
func (j *judge) outcomes(since time.Time, hit []string) (operations, failed int) {
	for i := len(j.history) - 1; i >= 0; i-- {
		op := &j.history[i]
		if slices.Contains(hit, op.DC) || j.at(j.by[i], op.End).Before(since) {
			continue
		}
		if operations++; !op.OK {
			failed++
		}
	}
	return operations, failed
}

// histogram holds latencies from a microsecond to ten minutes.
func histogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, 600_000_000, 3) }

const perMillisecond = 1000.0

func milliseconds(d time.Duration) float64 {
	return math.Round(float64(d.Microseconds())) / perMillisecond
}

// measures are the figures of each canary in each phase. An operation belongs to the phase in which it began.
func (j *judge) measures(phases []record.Phase, hit []string, stopped func(CanaryID) bool) (all []record.Measure) {
	for _, id := range j.canaries() {
		for _, p := range phases {
			m := j.measure(p, id)
			m.Hit, m.Stopped = slices.Contains(hit, id.DataCenter), stopped(id)
			all = append(all, m)
		}
	}
	return all
}

// canaries are those that have reported.
func (j *judge) canaries() (all []CanaryID) {
	return slices.SortedFunc(maps.Keys(j.seen), func(a, b CanaryID) int {
		return cmp.Or(cmp.Compare(a.DataCenter, b.DataCenter), cmp.Compare(a.Through, b.Through))
	})
}

func (j *judge) measure(p record.Phase, id CanaryID) record.Measure {
	m := record.Measure{Phase: p.Name, DataCenter: id.DataCenter, Through: id.Through}
	latencies := histogram()
	var successes, complete []time.Time
	for i := range j.history {
		op := &j.history[i]
		if j.by[i] != id {
			continue
		}
		start, end := j.at(id, op.Start), j.at(id, op.End)
		if op.OK && !end.Before(p.From) && end.Before(p.To) {
			successes = append(successes, end)
		}
		if start.Before(p.From) || !start.Before(p.To) {
			continue
		}
		m.Operations++
		switch {
		case op.OK:
			_ = latencies.RecordValue(max(end.Sub(start).Microseconds(), 1)) // above ten minutes no client waits
		case op.Unknown:
			m.Unknown++
			m.Failed++
		default:
			m.Failed++
		}
	}
	for _, s := range j.samples[id] {
		start, end := j.at(id, s.Start), j.at(id, s.End)
		if s.Kind != canary.Complete {
			continue
		}
		if s.OK && !end.Before(p.From) && end.Before(p.To) {
			complete = append(complete, end)
		}
		if !start.Before(p.From) && start.Before(p.To) {
			if m.Completions++; s.OK {
				m.Complete++
			}
		}
	}
	if latencies.TotalCount() > 0 {
		m.P50, m.P99 = float64(latencies.ValueAtQuantile(50))/perMillisecond,
			float64(latencies.ValueAtQuantile(99))/perMillisecond
	}
	m.LongestGap, m.LongestIncomplete = longestGap(p, successes), longestGap(p, complete)
	m.LongestBound = j.longestBound(p, id)
	return m
}

// longestGap is the longest stretch of a phase without any of the times.
func longestGap(p record.Phase, times []time.Time) float64 {
	slices.SortFunc(times, time.Time.Compare)
	longest, last := time.Duration(0), p.From
	for _, t := range append(times, p.To) {
		longest, last = max(longest, t.Sub(last)), t
	}
	return milliseconds(longest)
}

// longestBound is the longest stretch of a phase in which some session of a canary was bound.
func (j *judge) longestBound(p record.Phase, id CanaryID) float64 {
	longest := time.Duration(0)
	var since time.Time
	count := func(until time.Time) {
		from, to := since, until
		if from.Before(p.From) {
			from = p.From
		}
		if to.After(p.To) {
			to = p.To
		}
		longest = max(longest, to.Sub(from))
	}
	for _, s := range j.samples[id] {
		switch {
		case s.Kind != canary.Bound:
		case !s.OK:
			since = j.at(id, s.Start)
		case !since.IsZero():
			count(j.at(id, s.End))
			since = time.Time{}
		}
	}
	if !since.IsZero() {
		count(p.To)
	}
	return milliseconds(longest)
}

// completeAfter returns how long after a time a write that began after it was in every ring, and false if none was.
func (j *judge) completeAfter(since time.Time, id CanaryID) (time.Duration, bool) {
	for _, s := range j.samples[id] {
		if s.Kind == canary.Complete && s.OK && j.at(id, s.Start).After(since) {
			return j.at(id, s.End).Sub(since), true
		}
	}
	return 0, false
}

// mostPoints bounds the points of a curve; longer runs get fewer points.
const mostPoints = 1200

// series are the curves of the canaries, a point for each second.
func (j *judge) series(from, to time.Time, hit []string) (all []record.Series) {
	seconds := min(int(to.Sub(from)/time.Second)+1, mostPoints)
	for _, id := range j.canaries() {
		s := record.Series{DataCenter: id.DataCenter, Through: id.Through, Hit: slices.Contains(hit, id.DataCenter),
			OK: make([]int, seconds), Failed: make([]int, seconds), P99: make([]float64, seconds)}
		latencies := make([]*hdrhistogram.Histogram, seconds)
		for i := range j.history {
			op := &j.history[i]
			at := j.at(id, op.End).Sub(from)
			n := int(at / time.Second)
			if j.by[i] != id || at < 0 || n >= seconds {
				continue
			}
			if !op.OK {
				s.Failed[n]++
				continue
			}
			s.OK[n]++
			if latencies[n] == nil {
				latencies[n] = hdrhistogram.New(1, 600_000_000, 2)
			}
			_ = latencies[n].RecordValue(max((op.End-op.Start)/1000, 1)) // above ten minutes no client waits
		}
		for n, h := range latencies {
			if h != nil {
				s.P99[n] = float64(h.ValueAtQuantile(99)) / perMillisecond
			}
		}
		all = append(all, s)
	}
	return all
}

// describeViolations are the violations of a check, for a report.
func describeViolations(r history.Report) (all []string) {
	for _, v := range r.Violations {
		all = append(all, v.String())
	}
	if more := r.Total - len(r.Violations); more > 0 {
		all = append(all, fmt.Sprintf("and %d more", more))
	}
	return all
}

// lost counts the violations that show a lost or diverged write; the others are of causal order.
func lost(r history.Report) (lost, others int) {
	for _, v := range r.Violations {
		if v.Kind == history.LostWrite || v.Kind == history.Diverged {
			lost++
		}
	}
	if others = r.Total - lost; r.Total > len(r.Violations) && lost > 0 {
		// those that are not explained are of either kind
		others = len(r.Violations) - lost
	}
	return lost, others
}

// slowest returns the greatest value of measures that are chosen, with whose it is. Canaries that were stopped
// themselves do not count.
func slowest(measures []record.Measure, phase string, hit bool, value func(record.Measure) float64) (float64,
	string, bool) {
	chosen := slices.DeleteFunc(slices.Clone(measures), func(m record.Measure) bool {
		return m.Phase != phase || m.Hit != hit || m.Stopped
	})
	if len(chosen) == 0 {
		return 0, "", false
	}
	m := slices.MaxFunc(chosen, func(a, b record.Measure) int { return cmp.Compare(value(a), value(b)) })
	return value(m), CanaryID{m.DataCenter, m.Through}.String(), true
}
