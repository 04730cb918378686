package coordinator

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// adoption is what was collected of one silent origin: which writes there are in a lane between two timestamps, and
// what each of them depends on.
type adoption struct {
	collector[uint64, *adoptedWrite] // the place is the number of the newest put that a shard has reported
	excluded                         excludedShards
	sv                               causal.HLC // as of the last findChains
	lanes                            map[topology.Node]*adoptedLane
	bytes                            int
}

// adoptedLane is the lane of the origin to a shard.
type adoptedLane struct {
	window adoptWindow
	// chain is up to where every write of the lane to the shard above SV was collected.
	chain  causal.HLC
	broken bool // while the chain is looked for
}

// adoptedWrite is a write of a silent origin.
type adoptedWrite struct {
	key        string
	record     causal.Record
	generation uint64
	deps       []causal.Dep // single writes
	size       int
	complete   bool        // a shard was told so by the origin; there is no value
	views      []*laneView // by ring; nil: no shard of the ring has reported it
	states     []causal.AdoptionState
	sent       []adoptSent // by ring
	// settled is the result of the last settle, and adoptable says that its whole past is here.
	settled, adoptable bool
}

// laneView is a write as a shard of a ring has received it.
type laneView struct {
	shard    topology.Node
	previous causal.HLC
	lanes    []causal.Dep
}

// adoptSent is what was sent of a write to a ring last, and when.
type adoptSent struct {
	at    int64
	step  causal.AdoptionState // AdoptionUnknown: the put
	times int                  // that the step was sent
}

// adoptWindow bounds what an adopter puts to a shard: up to maxAdoptBatch bytes are unanswered. What is late is sent
// again in passes, as in a lane: a little to a shard that does not answer, ever more rarely.
type adoptWindow struct {
	unanswered int   // bytes, as of the last round
	dueAt      int64 // monotonic: when the next pass begins
	heard      bool  // something was answered since the last pass began
	silent     int   // passes since anything was answered
	credit     int   // bytes that the pass may send again
}

// begin begins a round, in which unanswered bytes are on their way.
func (w *adoptWindow) begin(now causal.Now, unanswered int, seed uint64) {
	w.unanswered, w.credit = unanswered, 0
	switch {
	case unanswered == 0:
		w.silent, w.dueAt = 0, 0
	case w.dueAt == 0:
		w.schedule(now, seed)
	case now.Mono >= w.dueAt:
		w.credit = passCredit
		if w.silent++; w.heard {
			w.silent = 0
		} else {
			w.credit = probeCredit
		}
		w.schedule(now, seed)
	}
}

func (w *adoptWindow) schedule(now causal.Now, seed uint64) {
	w.dueAt, w.heard = now.Mono+causal.Backoff(adoptRetryInterval, maxAdoptRetryInterval, w.silent, seed), false
}

// admits reports whether a put may be sent for the first time. One may always be on its way, however large it is.
func (w *adoptWindow) admits(size int) bool {
	if w.unanswered > 0 && w.unanswered+size > maxAdoptBatch {
		return false
	}
	w.unanswered += size
	return true
}

// admitsAgain reports whether a put that is unanswered may be sent again.
func (w *adoptWindow) admitsAgain(size int) bool {
	if w.credit <= 0 {
		return false
	}
	w.credit -= size
	return true
}

func newAdoption(s *shared, o topology.Origin, excluded excludedShards) *adoption {
	a := &adoption{excluded: excluded, lanes: map[topology.Node]*adoptedLane{}}
	a.collector = collector[uint64, *adoptedWrite]{shared: s, origin: o, question: a.question, interval: heldInterval}
	a.restart()
	return a
}

func (a *adoption) question(of *source[uint64], shard topology.Node) causal.Message {
	return causal.AdoptQuery{ID: a.cfg.Incarnation, Origin: a.origin, After: of.after,
		Incarnation: of.incarnation}.Message(a.cfg.Self, shard)
}

// lane returns the lane to a shard.
func (a *adoption) lane(n topology.Node) *adoptedLane {
	l := a.lanes[n]
	if l == nil {
		l = &adoptedLane{}
		a.lanes[n] = l
	}
	return l
}

func (w *adoptedWrite) hlc() causal.HLC { return w.record.Version.HLC }

func (w *adoptedWrite) slot() topology.Slot { return topology.SlotOf(w.key) }

// lacks reports whether a write is to be put to its shard in a ring.
func (w *adoptedWrite) lacks(r topology.RingID) bool {
	return w.adoptable && !w.complete && w.states[r] == causal.AdoptionUnknown
}

func (w *adoptedWrite) isCleanEverywhere() bool {
	return w.complete || !slices.ContainsFunc(w.states, func(s causal.AdoptionState) bool {
		return s < causal.AdoptionClean
	})
}

// isUnderWay reports whether a write that can be adopted is not yet known to be complete in some ring.
func (a *adoption) isUnderWay() bool {
	return slices.ContainsFunc(a.ascending(), func(w *adoptedWrite) bool {
		return w.adoptable && !w.complete && slices.ContainsFunc(w.states, func(s causal.AdoptionState) bool {
			return s < causal.AdoptionComplete
		})
	})
}

// hasIn reports whether a write that can be adopted is in a state in a ring.
func (a *adoption) hasIn(r topology.RingID, state causal.AdoptionState) bool {
	return slices.ContainsFunc(a.ascending(), func(w *adoptedWrite) bool {
		return w.adoptable && !w.complete && w.states[r] == state
	})
}

// lacksValue reports whether a put came without a value, because it was complete.
func lacksValue(h *causal.AdoptHeld) bool {
	return h.Key == "" && h.State == causal.AdoptionComplete
}

// put adds what a shard of a ring has reported, and returns by how many bytes that grows what was collected.
func (a *adoption) put(r topology.RingID, from topology.Node, h *causal.AdoptHeld, size int) (grown int) {
	w := a.writes[h.Record.Version.HLC]
	if w == nil {
		rings := len(a.cfg.Topology.Rings)
		w = &adoptedWrite{key: h.Key, record: h.Record, generation: h.Generation, deps: h.Deps.Writes(), size: size,
			complete: lacksValue(h), views: make([]*laneView, rings), states: make([]causal.AdoptionState, rings),
			sent: make([]adoptSent, rings)}
		a.add(w)
		a.bytes += size
		grown = size
	}
	w.views[r] = &laneView{shard: from, previous: h.Previous, lanes: h.Deps.Lanes()}
	if h.State >= causal.AdoptionClean {
		w.states[r] = max(w.states[r], h.State)
	} else if a.cfg.Broken.Has(causal.AdoptTrustsHolder) {
		w.states[r] = causal.AdoptionClean
	}
	return grown
}

// dropComplete drops the writes that are known to be complete, and returns by how many bytes that shrinks what was
// collected.
func (a *adoption) dropComplete() (shrunk int) {
	for _, w := range a.dropUpTo(a.known.SV(a.origin)) {
		shrunk += w.size
	}
	a.bytes -= shrunk
	return shrunk
}

// findChains finds how far the lane to each shard was collected without a gap: each put names the one before it.
func (a *adoption) findChains() {
	ignoreGaps := a.cfg.Broken.Has(causal.AdoptOpenChain)
	a.sv = a.known.SV(a.origin)
	for n := range a.middlemen() {
		a.lane(n)
	}
	for _, l := range a.lanes {
		l.chain, l.broken = a.sv, false
	}
	for _, w := range a.ascending() {
		for _, v := range w.views {
			if v == nil {
				continue
			}
			l := a.lane(v.shard)
			l.broken = l.broken || v.previous > l.chain && !ignoreGaps
			if !l.broken {
				l.chain = w.hlc()
			}
		}
	}
	if ignoreGaps {
		for _, l := range a.lanes {
			l.chain = causal.NoLimit - 1
		}
	}
}

// settle finds the writes that have a property together with everything of the origin that they may follow: whatever is
// in a lane that they name, up to where they name it. That is more than their past, and one ring that has seen all of
// it suffices.
func (a *adoption) settle(has func(*adoptedWrite) bool) {
	owner := a.cfg.Topology.Owner
	gaps := make(map[topology.Node]causal.HLC, len(a.lanes)) // by lane, the first write that is missing or not settled
	for n, l := range a.lanes {
		gaps[n] = l.chain + 1
	}
	for _, w := range a.ascending() {
		w.settled = w.complete || has(w) && !slices.ContainsFunc(w.deps, a.isUnsettled)
		if w.settled && !w.complete {
			w.settled = false
			for r, v := range w.views {
				lacks := func(d causal.Dep) bool {
					return d.Version.HLC > a.sv && d.Version.HLC >= gaps[owner(topology.RingID(r), d.Slot)]
				}
				w.settled = w.settled || v != nil && !slices.ContainsFunc(v.lanes, lacks)
			}
		}
		if w.settled {
			continue
		}
		for r := range w.views {
			n := owner(topology.RingID(r), w.slot())
			gaps[n] = min(gaps[n], w.record.Version.HLC)
		}
	}
}

// isUnsettled reports whether a dependency is another write of the origin that is not settled.
func (a *adoption) isUnsettled(d causal.Dep) bool {
	if d.Version.Origin != a.origin || d.Version.HLC <= a.sv {
		return false
	}
	w := a.writes[d.Version.HLC]
	return w == nil || !w.settled
}
