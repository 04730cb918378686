package coordinator

import (
	"maps"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// foreignWrites finds out whether writes of other origins are complete on which writes of excluded shards depend.
// Nobody tells a coordinator of writes of a silent origin that were adopted, so it asks the shards.
type foreignWrites struct {
	*shared
	lanes *laneTable
	own   *buffer
	// unknown are writes of which it is not known that they are complete. asked are those of the last question.
	unknown, asked map[causal.Version]topology.Slot
	askAt          int64
	// complete are those of which a shard has said so.
	complete map[causal.Version]struct{}
}

const (
	// askUnknownInterval is how often shards are asked for the dependencies of writes of excluded shards.
	askUnknownInterval = 500 * time.Millisecond
	// maxUnknown bounds the writes that are asked for at once, and maxComplete what is remembered of the answers.
	maxUnknown, maxComplete = 1024, 1 << 16
)

func newForeignWrites(s *shared, lanes *laneTable, own *buffer) foreignWrites {
	return foreignWrites{shared: s, lanes: lanes, own: own, unknown: map[causal.Version]topology.Slot{},
		complete: map[causal.Version]struct{}{}}
}

// areIn reports whether a ring has acknowledged writes, or shards have said that these are complete. Otherwise shards
// are asked.
func (f *foreignWrites) areIn(r topology.RingID, deps []causal.Dep) bool {
	missing := func(d causal.Dep) bool {
		if _, complete := f.complete[d.Version]; complete || f.own.isInRing(r, d.Version) ||
			f.own.isComplete(d.Version) {
			return false
		}
		if d.Version.Origin != f.origin && len(f.unknown) < maxUnknown {
			f.unknown[d.Version] = d.Slot
		}
		return true
	}
	return !slices.ContainsFunc(deps, missing)
}

// tick asks the shards.
func (f *foreignWrites) tick(now causal.Now) {
	if now.Mono < f.nextTick() {
		return
	}
	f.askAt = now.Mono + int64(askUnknownInterval)
	for v := range f.complete {
		if f.known.Complete(v) {
			delete(f.complete, v)
		}
	}
	for _, v := range slices.SortedFunc(maps.Keys(f.unknown), causal.Version.Compare) {
		for r := range f.cfg.Topology.Rings {
			if l := f.lanes.laneTo(topology.RingID(r), f.unknown[v]); !l.excluded {
				f.Send(causal.DepCheck{Version: v, Slot: f.unknown[v]}.Message(f.cfg.Self, l.mm))
			}
		}
	}
	f.asked, f.unknown = f.unknown, map[causal.Version]topology.Slot{}
}

// nextTick returns when tick has something to do next.
func (f *foreignWrites) nextTick() int64 {
	if len(f.unknown)+len(f.complete) == 0 {
		return causal.Never
	}
	return f.askAt
}

// takeStatus takes a shard's word that a write is complete: of a shard that was asked for it, since others cannot tell.
func (f *foreignWrites) takeStatus(from topology.Node, s causal.DepStatus) {
	slot, asked := f.asked[s.Version]
	if asked && f.lanes.laneTo(s.Ring, slot).mm == from && s.Complete && len(f.complete) < maxComplete {
		f.complete[s.Version] = struct{}{}
	}
}
