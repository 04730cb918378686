package bench

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causalstore/causalstore/lab/load"
	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/causal"
)

// watched returns a watch whose phases begin at seconds 1 (before), 2 (during), 4 (after) and 6 (end).
func watched(samples ...faultSample) *faultWatch {
	w := newFaultWatch()
	w.began, w.samples = time.Now(), samples
	for p, second := range map[faultPhase]int{phaseBefore: 1, phaseDuring: 2, phaseAfter: 4, phaseEnd: 6} {
		w.entered[p] = w.began.Add(time.Duration(second) * time.Second)
	}
	return w
}

func read(dc string, dueMs, endedMs int, err, source string) faultSample {
	return faultSample{due: time.Duration(dueMs) * time.Millisecond, ended: time.Duration(endedMs) * time.Millisecond,
		dc: dc, err: err, source: source}
}

func TestFaultsAreChargedForWhatTheyInterrupt(t *testing.T) {
	w := watched(
		read("a", 500, 900, "", "cache"),                             // in the lead
		read("a", 1100, 1200, "", "cache"),                           // before
		read("b", 1500, 1600, "", "remote"),                          // before, elsewhere
		read("a", 1900, 2500, "UNAVAILABLE", ""),                     // before, and not answered when the fault began
		read("a", 2600, 3000, "", "remote"),                          // during
		read("a", 3900, 4500, "", "remote"),                          // during, and answered after the heal
		read("a", 4100, 4600, "", "local"),                           // after
		read("a", 4900, 5100, "BUSY", ""),                            // after
		faultSample{due: 5e9, ended: 5.5e9, dc: "a", verb: load.Set}, // a write
		read("a", 6100, 6200, "UNAVAILABLE", ""),                     // past the end
	)
	type row struct {
		phase, clients string
		ok, failed     int
		maxMs, gap     float64
		local          float64
	}
	var got []row
	for _, p := range w.phases([2][]string{{"a"}, {"b"}}) {
		got = append(got, row{p.Phase, p.Clients, p.Reads.OK, p.Reads.Failed, p.Reads.MaxMs,
			p.Reads.GapSeconds, p.Local})
	}
	want := []row{
		{"before", "here", 1, 0, 100, 0.8, 1}, {"before", "elsewhere", 1, 0, 100, 0.6, 0},
		{"during", "here", 2, 1, 600, 1, 0}, {"during", "elsewhere", 0, 0, 0, 2, 0},
		{"after", "here", 1, 1, 500, 1.4, 0.5}, {"after", "elsewhere", 0, 0, 0, 2, 0},
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(row{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if errs := w.phases([2][]string{{"a"}, {"b"}})[4].Reads.Errors; !cmp.Equal(errs, map[string]int{"BUSY": 1}) {
		t.Errorf("errors after the heal: %v", errs)
	}
	if at := w.lastError(); at != 2100*time.Millisecond {
		t.Errorf("the last error was %v after the heal", at)
	}
}

func TestADeploymentIsNormalWhenOldWritesAreCompleteAndBindNobody(t *testing.T) {
	state := func(up bool, svMs, boundByMs uint64) local.State {
		return local.State{Origins: []local.OriginState{{Up: up, SV: causal.HLC(svMs << 16)}},
			DataCenters: []local.DCState{{
				BoundBy: []local.SessionState{{InFlight: 1, OldestInFlight: causal.HLC(boundByMs << 16)},
					{Incomplete: 1}}}}}
	}
	for _, c := range []struct {
		state             local.State
		complete, unbound bool
	}{{state(true, 101, 101), true, true}, {state(true, 100, 101), false, true}, {state(false, 101, 101), false, true},
		{state(true, 101, 99), true, false}} {
		if complete, unbound := normality(c.state, 100, ""); complete != c.complete || unbound != c.unbound {
			t.Errorf("%+v: complete %t, unbound %t", c, complete, unbound)
		}
	}
}
