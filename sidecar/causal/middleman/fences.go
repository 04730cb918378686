package middleman

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// fences are against logs that were given up (PROTOCOL LOG): puts of an origin whose log is of a
// lower generation are refused.
type fences struct {
	*shared
	// wanted are the greatest generations that were asked for. They are durable, but for those of claims that are not
	// fenced.
	wanted causal.Fences
}

// claim is what was agreed with a start of a coordinator.
type claim struct {
	id      uint64
	fenced  bool // the fence is durable
	fencing bool
	page    *recoveryPage // that is being read
	rests   []restOfNames
}

// of returns the generation of the log of an origin below which no put is taken; 0: there is none. Generations begin
// with the wall clock of the start of a log. A fence that is further ahead than any clock may be was never asked for by
// a coordinator, and does not count, wherever it comes from: puts of the log that is healthy would be refused for good.
func (f *fences) of(now causal.Now, o topology.Origin) uint64 {
	if fence := f.wanted[o]; f.isPlausible(now, fence) {
		return fence
	}
	return 0
}

// want raises the fence of an origin. It is to be made durable.
func (f *fences) want(o topology.Origin, generation uint64) { f.wanted = f.wanted.With(o, generation) }

// save makes durable which logs of an origin are given up.
func (f *fences) save(o topology.Origin, c *claim) {
	if !c.fencing {
		c.fencing = true
		f.tasks.request(StorageOp{Kind: StorageFence, Origin: o, Generation: f.wanted[o]},
			&task{kind: taskFence, claim: c})
	}
}

// finishFence takes whether a fence is durable. If not, the coordinator's next question tries again.
func (c *claim) finishFence(failed bool) { c.fencing, c.fenced = false, !failed }

// refuse reports whether a put is of a log that was given up, and tells its coordinator.
func (f *fences) refuse(now causal.Now, from topology.Node, a *causal.PutAfter) bool {
	fence := f.of(now, a.Record.Version.Origin)
	if a.Generation >= fence || f.cfg.Broken.Has(causal.UnfencedLog) {
		return false
	}
	f.Send(causal.PutAck{Incarnation: f.cfg.Incarnation, GivenUpBelow: fence}.Message(f.cfg.Self, from))
	return true
}

// GaveUpLogOf reports whether a log of an origin was given up here.
func (m *Middleman) GaveUpLogOf(o topology.Origin) bool { return m.fences.wanted[o] > 0 }
