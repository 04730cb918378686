package drill

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/causalstore/causalstore/controllers/drill/record"
	"github.com/causalstore/causalstore/lab/canary"
	"github.com/causalstore/causalstore/lab/history"
)

// judge collects what canaries saw, and says what it proves. Times of canaries are moved to the clock of the judge: by the least
// difference between a report's time and its arrival, so by at most one round trip too much.
type judge struct {
	history history.History
	samples map[string][]canary.Sample // by data center, on the judge's clock
	offsets map[string]int64
	seen    map[string]canary.Report // the last report of each data center, without its history
	checker history.Checker
}

func newJudge() *judge {
	return &judge{samples: map[string][]canary.Sample{}, offsets: map[string]int64{}, seen: map[string]canary.Report{}}
}

// add takes a report that arrived at a time.
func (j *judge) add(r canary.Report, arrived time.Time) error {
	ops, err := history.ReadAll(strings.NewReader(r.History))
	if err != nil {
		return fmt.Errorf("read the history of the canary of %s: %w", r.DataCenter, err)
	}
	offset := arrived.UnixNano() - r.Now
	if before, ok := j.offsets[r.DataCenter]; !ok || offset < before {
		j.offsets[r.DataCenter] = offset
	}
	j.history = append(j.history, ops...)
	j.samples[r.DataCenter] = append(j.samples[r.DataCenter], r.Samples...)
	r.History, r.Samples = "", nil
	j.seen[r.DataCenter] = r
	return nil
}

// check runs the causal checker on everything so far.
func (j *judge) check() history.Report { return j.checker.Check(j.history, history.Options{}) }

// brokenSoFar returns a violation that nothing which is still to be reported can explain. Canaries are asked one after the other, and report a
// write when it has ended: what another canary has read may be a write that is not known here yet. That it never was is judged at the end.
func (j *judge) brokenSoFar() (history.Violation, bool) {
	for _, v := range j.check().Violations { // some of each kind are explained
		if v.Kind != history.ThinAir {
			return v, true
		}
	}
	return history.Violation{}, false
}

// checkFinally runs it with final reads.
func (j *judge) checkFinally(final history.History) history.Report {
	return j.checker.Check(slices.Concat(j.history, final), history.Options{})
}

// forged are values that no canary has written.
func (j *judge) forged() (all []string) {
	for dc, samples := range j.samples {
		for _, s := range samples {
			if s.Kind == canary.Forged {
				all = append(all, dc+": "+s.Text)
			}
		}
	}
	slices.Sort(all)
	return all
}

// at is a time of a canary on the judge's clock.
func (j *judge) at(dc string, ns int64) time.Time { return time.Unix(0, ns+j.offsets[dc]) }

// outcomes counts the operations of data centers that are not hit which ended since a time, and those that failed.
func (j *judge) outcomes(since time.Time, hit []string) (operations, failed int) {
	for i := len(j.history) - 1; i >= 0; i-- {
		op := &j.history[i]
		if slices.Contains(hit, op.DC) || j.at(op.DC, op.End).Before(since) {
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

// measures are the figures of each data center in each phase. An operation belongs to the phase in which it began.
func (j *judge) measures(phases []record.Phase, hit []string) (all []record.Measure) {
	for _, dc := range j.dataCenters() {
		for _, p := range phases {
			all = append(all, j.measure(p, dc, slices.Contains(hit, dc)))
		}
	}
	return all
}

func (j *judge) dataCenters() (names []string) {
	for dc := range j.seen {
		names = append(names, dc)
	}
	slices.Sort(names)
	return names
}

func (j *judge) measure(p record.Phase, dc string, hit bool) record.Measure {
	m := record.Measure{Phase: p.Name, DataCenter: dc, Hit: hit}
	latencies := histogram()
	var successes, complete []time.Time
	for i := range j.history {
		op := &j.history[i]
		start, end := j.at(dc, op.Start), j.at(dc, op.End)
		if op.DC != dc {
			continue
		}
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
	for _, s := range j.samples[dc] {
		start, end := j.at(dc, s.Start), j.at(dc, s.End)
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
		m.P50, m.P99 = float64(latencies.ValueAtQuantile(50))/perMillisecond, float64(latencies.ValueAtQuantile(99))/perMillisecond
	}
	m.LongestGap, m.LongestIncomplete = longestGap(p, successes), longestGap(p, complete)
	m.LongestBound = j.longestBound(p, dc)
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
func (j *judge) longestBound(p record.Phase, dc string) float64 {
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
	for _, s := range j.samples[dc] {
		switch {
		case s.Kind != canary.Bound:
		case !s.OK:
			since = j.at(dc, s.Start)
		case !since.IsZero():
			count(j.at(dc, s.End))
			since = time.Time{}
		}
	}
	if !since.IsZero() {
		count(p.To)
	}
	return milliseconds(longest)
}

// completeAfter returns how long after a time a write that began after it was in every ring, and false if none was.
func (j *judge) completeAfter(since time.Time, dc string) (time.Duration, bool) {
	for _, s := range j.samples[dc] {
		if s.Kind == canary.Complete && s.OK && j.at(dc, s.Start).After(since) {
			return j.at(dc, s.End).Sub(since), true
		}
	}
	return 0, false
}

// mostPoints bounds the points of a curve; longer runs get fewer points.
const mostPoints = 1200

// series are the curves of the data centers, a point for each second.
func (j *judge) series(from, to time.Time, hit []string) (all []record.Series) {
	seconds := min(int(to.Sub(from)/time.Second)+1, mostPoints)
	for _, dc := range j.dataCenters() {
		s := record.Series{DataCenter: dc, Hit: slices.Contains(hit, dc), OK: make([]int, seconds), Failed: make([]int, seconds), P99: make([]float64, seconds)}
		latencies := make([]*hdrhistogram.Histogram, seconds)
		for i := range j.history {
			op := &j.history[i]
			at := j.at(dc, op.End).Sub(from)
			n := int(at / time.Second)
			if op.DC != dc || at < 0 || n >= seconds {
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
	if others = r.Total - lost; r.Total > len(r.Violations) && lost > 0 { // those that are not explained are of either kind
		others = len(r.Violations) - lost
	}
	return lost, others
}

// slowest returns the greatest value of measures that are chosen, with its data center.
func slowest(measures []record.Measure, phase string, hit bool, value func(record.Measure) float64) (float64, string, bool) {
	chosen := slices.DeleteFunc(slices.Clone(measures), func(m record.Measure) bool { return m.Phase != phase || m.Hit != hit })
	if len(chosen) == 0 {
		return 0, "", false
	}
	m := slices.MaxFunc(chosen, func(a, b record.Measure) int { return cmp.Compare(value(a), value(b)) })
	return value(m), m.DataCenter, true
}
