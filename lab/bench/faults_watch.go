package bench

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/causalstore/causalstore/lab/load"
)

// faultPhase is a part of a measurement. Each begins when the one before it ends.
type faultPhase int

const (
	phaseLead faultPhase = iota // caches fill; not measured
	phaseBefore
	phaseDuring
	phaseAfter // the heal
	phaseEnd
	faultPhases
)

var faultPhaseNames = [faultPhases]string{"lead", "before", "during", "after", "end"}

// faultSample is one operation. Times are since the first one.
type faultSample struct {
	due, ended time.Duration
	dc         string
	verb       load.Verb
	err        string
	source     string
}

func (s *faultSample) isWrite() bool { return s.verb == load.Set }

// isLocal reports whether a read was answered in the client's data center.
func (s *faultSample) isLocal() bool {
	return slices.Contains([]string{"own", "near", "home", "cache", "local"}, s.source)
}

// faultWatch collects the operations of a load.
type faultWatch struct {
	first chan struct{} // closed with the first operation

	mu      sync.Mutex
	began   time.Time
	samples []faultSample
	entered [faultPhases]time.Time
}

func newFaultWatch() *faultWatch { return &faultWatch{first: make(chan struct{})} }

// observe takes an operation that has just ended.
func (w *faultWatch) observe(o load.Observation) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.began.IsZero() {
		w.began = now
		close(w.first)
	}
	ended := now.Sub(w.began)
	w.samples = append(w.samples, faultSample{due: ended - o.Latency, ended: ended, dc: o.Endpoint, verb: o.Verb,
		err: o.Error, source: o.Source})
}

func (w *faultWatch) enter(p faultPhase) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.entered[p] = time.Now()
}

func (w *faultWatch) enteredAt(p faultPhase) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.entered[p]
}

// bounds returns when a phase began and ended.
func (w *faultWatch) bounds(p faultPhase) (from, to time.Duration) {
	return w.entered[p].Sub(w.began), w.entered[p+1].Sub(w.began)
}

// phases summarizes what the clients here and elsewhere have seen in each phase.
func (w *faultWatch) phases(groups [2][]string) []FaultPhase {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []FaultPhase
	for p := phaseBefore; p < phaseEnd; p++ {
		from, to := w.bounds(p)
		for i, group := range groups {
			f := FaultPhase{Phase: faultPhaseNames[p], Clients: []string{"here", "elsewhere"}[i],
				Seconds: (to - from).Seconds()}
			f.Reads, f.Writes = w.ops(group, p, false), w.ops(group, p, true)
			f.Local, _ = w.localShare(group, from, to)
			all = append(all, f)
		}
	}
	return all
}

// phaseOf returns the phase of an operation: that in which it was due. The fault is charged for what it interrupts.
func (w *faultWatch) phaseOf(s *faultSample) faultPhase {
	since := func(p faultPhase) time.Duration { return w.entered[p].Sub(w.began) }
	switch {
	case s.due >= since(phaseEnd):
		return phaseEnd
	case s.due >= since(phaseAfter):
		return phaseAfter
	case s.ended >= since(phaseDuring):
		return phaseDuring
	case s.due >= since(phaseBefore):
		return phaseBefore
	}
	return phaseLead
}

// ops summarizes the reads or writes of some data centers in a phase.
func (w *faultWatch) ops(group []string, phase faultPhase, writes bool) FaultOps {
	out := FaultOps{Errors: map[string]int{}}
	var ms []float64
	successes := map[string][]time.Duration{}
	for i := range w.samples {
		s := &w.samples[i]
		if s.isWrite() != writes || !slices.Contains(group, s.dc) {
			continue
		}
		if s.err == "" {
			successes[s.dc] = append(successes[s.dc], s.ended)
		}
		if w.phaseOf(s) != phase {
			continue
		}
		if s.err != "" {
			out.Failed++
			out.Errors[s.err]++
			continue
		}
		out.OK++
		ms = append(ms, (s.ended-s.due).Seconds()*1e3)
	}
	if len(ms) > 0 {
		slices.Sort(ms)
		out.P50Ms, out.P99Ms, out.MaxMs = ms[len(ms)/2], ms[len(ms)*99/100], ms[len(ms)-1]
	}
	from, to := w.bounds(phase)
	for _, dc := range group {
		out.GapSeconds = max(out.GapSeconds, longestGap(successes[dc], from, to).Seconds())
	}
	return out
}

// longestGap returns the longest part of a phase without one of the times. Those come in order.
func longestGap(times []time.Duration, from, to time.Duration) (longest time.Duration) {
	last := from
	for _, t := range times {
		if t >= to {
			break
		}
		if t > last {
			longest, last = max(longest, t-last), t
		}
	}
	return max(longest, to-last)
}

// localShare returns the share of the GETs of some data centers that were answered there, of those that ended between
// two times. It returns false if there were none.
func (w *faultWatch) localShare(group []string, from, to time.Duration) (share float64, ok bool) {
	local, all := 0, 0
	within := w.samples[w.endedBefore(from):]
	for i := range within {
		s := &within[i]
		if s.ended >= to {
			break
		}
		if s.verb != load.Get || s.source == "" || !slices.Contains(group, s.dc) {
			continue
		}
		all++
		if s.isLocal() {
			local++
		}
	}
	return float64(local) / float64(max(all, 1)), all > 0
}

// endedBefore returns how many operations ended before a time. They are in the order of their ends.
func (w *faultWatch) endedBefore(t time.Duration) int {
	n, _ := slices.BinarySearchFunc(w.samples, t, func(s faultSample, t time.Duration) int {
		return cmp.Compare(s.ended, t)
	})
	return n
}

// isLocalAgain reports whether the share of local reads between two times was about that before the fault.
func (w *faultWatch) isLocalAgain(group []string, from, to time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	usual, measured := w.localShare(group, w.entered[phaseBefore].Sub(w.began), w.entered[phaseDuring].Sub(w.began))
	if !measured {
		return true // nobody reads there
	}
	share, measured := w.localShare(group, from.Sub(w.began), to.Sub(w.began))
	return measured && share >= usual-localSlack
}

// lastError returns how long after the heal the last operation was due that failed; 0 if none failed.
func (w *faultWatch) lastError() (after time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	healed, _ := w.bounds(phaseAfter)
	for i := range w.samples {
		if s := &w.samples[i]; s.err != "" && s.due >= healed {
			after = max(after, s.due-healed)
		}
	}
	return after
}
