package drill

import (
	"fmt"
	"strings"
	"time"

	"github.com/causalstore/causalstore/controllers/drill/record"
	"github.com/causalstore/causalstore/history"
)

// evidence is what promises are decided from.
type evidence struct {
	run    *record.Run
	expect Expectation
	check  history.Report
	// final says whether final reads were made in every data center, finalWhy why not.
	final    bool
	finalWhy string
	forged   []string
	healed   bool
	// complete is how long after the end of the faults a write was in every ring, by canary; those without one are
	// missing.
	complete map[CanaryID]time.Duration
	// silent are canaries through which nothing could be read at the end, as their sidecar had not come back yet.
	silent []string
	// watched are the canaries that the faults did not stop themselves.
	watched []CanaryID
	// aborted says that the run was aborted, and if so whether the faults lasted as planned; it is empty if it was not.
	aborted string
}

// promises decides whether each promise held. What was seen of a run that was aborted can break a promise, and shows of
// none that it holds.
func (e *evidence) promises() []record.Promise {
	all := []record.Promise{e.causal(), e.nothingLost(), e.elsewhere(), e.there(), e.writesComplete(), e.released(),
		e.completeAgain(), e.isHealed()}
	for i := range all {
		if p := &all[i]; e.aborted != "" && p.Result == record.Held {
			p.Result, p.Observed = record.NotMeasured, p.Observed+"; "+e.aborted
		}
	}
	return all
}

func decide(text, expected, observed string, held bool) record.Promise {
	p := record.Promise{Text: text, Expected: expected, Observed: observed, Result: record.Broken}
	if held {
		p.Result = record.Held
	}
	return p
}

func unmeasured(text, expected, why string) record.Promise {
	return record.Promise{Text: text, Expected: expected, Observed: why, Result: record.NotMeasured}
}

func (e *evidence) causal() record.Promise {
	const text, expected = "Clients see causal consistency", "no violation"
	if e.check.Stats.Ops == 0 {
		return unmeasured(text, expected, "no canary has reported an operation")
	}
	_, others := lost(e.check)
	observed := fmt.Sprintf("%d violations in %d operations of %d sessions", others, e.check.Stats.Ops,
		e.check.Stats.Sessions)
	if len(e.forged) > 0 {
		observed += fmt.Sprintf("; %d values that no canary has written", len(e.forged))
	}
	return decide(text, expected, observed, others == 0 && len(e.forged) == 0)
}

func (e *evidence) nothingLost() record.Promise {
	const text, expected = "No acknowledged write is lost", "all data centers agree on the newest of all " +
		"acknowledged writes"
	if !e.final {
		return unmeasured(text, expected, e.finalWhy)
	}
	n, _ := lost(e.check)
	observed := fmt.Sprintf("%d of %d final reads show a lost or different write; %d writes were acknowledged", n,
		e.check.Stats.FinalReads, e.check.Stats.Puts)
	if len(e.silent) > 0 {
		observed += "; nothing was read at the end through " + strings.Join(e.silent, ", ")
	}
	return decide(text, expected, observed, n == 0)
}

// share sums the operations of an injection in data centers that are hit, or not. Clients that were stopped themselves
// do not count. Of those with a sidecar, it says what part they have.
func (e *evidence) share(hit bool) (operations, failed int, sidecars string) {
	with, failedWith := 0, 0
	for _, m := range e.run.Measures {
		if m.Phase != record.Injection || m.Hit != hit || m.Stopped {
			continue
		}
		operations, failed = operations+m.Operations, failed+m.Failed
		if m.Through == record.Sidecar {
			with, failedWith = with+m.Operations, failedWith+m.Failed
		}
	}
	if with > 0 {
		sidecars = fmt.Sprintf(", through sidecars %d of %d", failedWith, with)
	}
	return operations, failed, sidecars
}

func percent(part, of int) float64 { return 100 * float64(part) / float64(max(of, 1)) }

func (e *evidence) latencies(hit bool) string {
	before, _, ok := slowest(e.run.Measures, record.Baseline, hit, func(m record.Measure) float64 { return m.P99 })
	during, dc, also := slowest(e.run.Measures, record.Injection, hit, func(m record.Measure) float64 { return m.P99 })
	if !ok || !also {
		return ""
	}
	return fmt.Sprintf("; p99 %s ms, before %s ms (%s)", number(during), number(before), dc)
}

func (e *evidence) elsewhere() record.Promise {
	const text = "Clients in other data centers do not notice"
	expected := fmt.Sprintf("at most %g%% of their operations fail", 100*e.expect.Elsewhere)
	operations, failed, sidecars := e.share(false)
	if operations == 0 {
		return unmeasured(text, expected, "no data center of this cluster is outside of the blast radius")
	}
	observed := fmt.Sprintf("%d of %d failed (%.1f%%)%s%s", failed, operations, percent(failed, operations), sidecars,
		e.latencies(false))
	if e.expect.Elsewhere >= 1 {
		return record.Promise{Text: text, Expected: "not expected: " + e.expect.Why, Observed: observed,
			Result: record.NotPromised}
	}
	return decide(text, expected, observed, percent(failed, operations) <= 100*e.expect.Elsewhere)
}

func (e *evidence) there() record.Promise {
	const text = "Clients in the data centers that are hit fail over"
	expected := fmt.Sprintf("at most %g%% of their operations fail", 100*e.expect.There)
	if e.expect.ThereGap > 0 {
		expected += fmt.Sprintf(", and they succeed again within %s", e.expect.ThereGap)
	}
	operations, failed, sidecars := e.share(true)
	if operations == 0 {
		return unmeasured(text, expected, "no canary runs in a data center that is hit")
	}
	gap, _, _ := slowest(e.run.Measures, record.Injection, true, func(m record.Measure) float64 { return m.LongestGap })
	observed := fmt.Sprintf("%d of %d failed (%.1f%%)%s, longest time without a success %s ms%s", failed, operations,
		percent(failed, operations), sidecars, number(gap), e.latencies(true))
	for _, m := range e.run.Measures {
		if m.Stopped && m.Phase == record.Injection {
			observed += fmt.Sprintf(
				"; the client of %s (sidecar) stopped with its zone and does not count: %d of %d failed", m.DataCenter,
				m.Failed, m.Operations)
		}
	}
	if e.expect.There >= 1 {
		return record.Promise{Text: text, Expected: "not expected: " + e.expect.Why, Observed: observed,
			Result: record.NotPromised}
	}
	held := percent(failed, operations) <= 100*e.expect.There &&
		(e.expect.ThereGap == 0 || gap <= milliseconds(e.expect.ThereGap))
	return decide(text, expected, observed, held)
}

func (e *evidence) writesComplete() record.Promise {
	const text = "Writes of other data centers go on reaching every ring"
	gap, dc, ok := slowest(e.run.Measures, record.Injection, false, func(m record.Measure) float64 {
		return m.LongestIncomplete
	})
	observed := fmt.Sprintf("longest time without a complete write %s ms (%s)", number(gap), dc)
	switch {
	case !ok:
		return unmeasured(text, "", "no data center of this cluster is outside of the blast radius")
	case !e.expect.WritesComplete:
		return record.Promise{Text: text, Expected: "not expected: " + e.expect.Why, Observed: observed,
			Result: record.NotPromised}
	}
	return decide(text, fmt.Sprintf("at most %s without one", completeGap), observed, gap <= milliseconds(completeGap))
}

func (e *evidence) released() record.Promise {
	const text = "Readers in other data centers are released"
	bound, dc, ok := slowest(e.run.Measures, record.Injection, false, func(m record.Measure) float64 {
		return m.LongestBound
	})
	observed := fmt.Sprintf("longest time bound %s ms (%s)", number(bound), dc)
	switch {
	case !ok:
		return unmeasured(text, "", "no data center of this cluster is outside of the blast radius")
	case e.expect.Bound == 0:
		return record.Promise{Text: text, Expected: "not expected: " + e.expect.Why, Observed: observed,
			Result: record.NotPromised}
	}
	return decide(text, fmt.Sprintf("bound for at most %s", e.expect.Bound), observed,
		bound <= milliseconds(e.expect.Bound))
}

func (e *evidence) completeAgain() record.Promise {
	const text = "After the end of the faults writes are in every ring again"
	expected := fmt.Sprintf("in every data center within %s", e.expect.Complete)
	if len(e.watched) == 0 {
		return unmeasured(text, expected, "no canary has reported")
	}
	slowest, last := time.Duration(0), ""
	for _, id := range e.watched {
		took, ok := e.complete[id]
		if !ok {
			return decide(text, expected, "no write of "+id.String()+" was complete until the run ended", false)
		}
		if took >= slowest {
			slowest, last = took, id.String()
		}
	}
	return decide(text, expected, fmt.Sprintf("%s ms (%s)", number(milliseconds(slowest)), last),
		slowest <= e.expect.Complete)
}

func (e *evidence) isHealed() record.Promise {
	const text, expected = "Everything heals", "all pods ready, no trace of an experiment"
	remaining := 0
	for _, l := range e.run.Leftovers {
		if !l.Removed {
			remaining++
		}
	}
	observed := "all pods ready, no trace of an experiment"
	switch {
	case remaining > 0:
		observed = fmt.Sprintf("%d leftovers, listed below", remaining)
	case !e.healed:
		observed = "not within the time of this run; see the events"
	case len(e.run.Leftovers) > 0:
		observed = fmt.Sprintf("all pods ready, after %d leftovers were removed", len(e.run.Leftovers))
	}
	return decide(text, expected, observed, e.healed && remaining == 0)
}

// conclude sets the outcome of a run from its promises.
func conclude(r *record.Run, aborted string) {
	counts := map[record.Result]int{}
	for _, p := range r.Promises {
		counts[p.Result]++
	}
	broken := counts[record.Broken]
	if aborted != "" {
		r.Outcome, r.Reason = record.Aborted, aborted
	} else {
		r.Outcome, r.Reason = record.Passed, fmt.Sprintf("%d promises held", counts[record.Held])
		for _, other := range []record.Result{record.NotPromised, record.NotMeasured} {
			if n := counts[other]; n > 0 {
				r.Reason += fmt.Sprintf(", %d %s", n, other)
			}
		}
	}
	if broken > 0 {
		r.Outcome, r.Reason = record.Failed, fmt.Sprintf("%d of %d promises broken", broken, len(r.Promises))
		if aborted != "" {
			r.Reason += "; aborted: " + aborted
		}
	}
}

// number shows a figure with as many digits as matter.
func number(v float64) string {
	if v >= 10 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.1f", v)
}
