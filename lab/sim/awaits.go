package sim

import (
	"time"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/topology"
)

// awaiting is the wait of a client until there is something in a key. It looks with a get, and takes nothing, so that
// whoever waits behind it finds the same.
type awaiting struct {
	id    uint64
	key   string
	since int64
}

// maxUnserved is for how long a client may wait though there is something, if no faults keep it from looking.
const maxUnserved = 200 * time.Millisecond

// startAwait makes a client wait for a key.
func (p *client) startAwait(key string) {
	wl := p.load
	wl.nextOp++
	p.busy, p.await = true, &awaiting{id: wl.nextOp, key: key, since: wl.world.now}
	wl.awaiting = append(wl.awaiting, p)
	wl.world.nodes[p.sidecar].onTurns = wl.turns
	withMachine(wl.world, p.sidecar, func(m *session.Sidecar, now causal.Now) {
		m.Await(now, p.await.id, []string{key}, true)
	})
}

// turns makes clients look whose turn it is.
func (wl *workload) turns(ts []session.Turn) {
	for _, t := range ts {
		for _, p := range wl.awaiting {
			if p.await != nil && p.await.id == t.ID {
				p.issue(session.Op{Kind: session.OpGet, Key: p.await.key})
			}
		}
	}
}

// continueAwait takes what a client has found that waits.
func (p *client) continueAwait(r *session.Result) {
	p.record(p.op, r)
	isFound, a := r.Err == causal.OK && !r.Record.Value.Tombstone, p.await
	withMachine(p.load.world, p.sidecar, func(m *session.Sidecar, now causal.Now) {
		if isFound {
			m.EndAwait(now, a.id)
		} else {
			m.Looked(now, a.id, r.Err != causal.OK)
		}
	})
	if !isFound {
		return
	}
	p.await = nil
	for _, other := range p.load.awaiting {
		if o := other.await; o != nil && o.key == a.key && o.since < a.since && other.isAt(p.sidecar.DC) {
			p.load.outOfTurn = true
		}
	}
	p.conclude(r)
}

// isAt reports whether the sidecar of a client is up, and in a data center.
func (p *client) isAt(dc topology.DC) bool {
	n := p.load.world.nodes[p.sidecar]
	return n.isUp() && p.sidecar.DC == dc
}

// awaitViolations returns what is wrong about waits: a client that has waited for longer than another one was not told
// first, or one waits though there is something.
func (wl *workload) awaitViolations() (kinds []string) {
	if wl.outOfTurn {
		kinds = append(kinds, "turn-out-of-order")
	}
	for _, p := range wl.awaiting {
		if p.await != nil && p.isAt(p.sidecar.DC) && wl.hasHad(p.await.key, wl.world.topo.DCs[p.sidecar.DC].Name) {
			return append(kinds, "wait-not-served")
		}
	}
	return kinds
}

// hasHad reports whether a key has had a value in a data center for long.
func (wl *workload) hasHad(key, dc string) bool {
	var newest history.Op
	for _, op := range wl.history {
		isWrite := op.Kind == history.Put || op.Kind == history.Delete || op.Kind == history.Add
		if isWrite && op.OK && op.Key == key && op.DC == dc && newest.Version.Less(op.Version) {
			newest = op
		}
	}
	return newest.OK && newest.Kind != history.Delete && newest.End < wl.world.now-int64(maxUnserved)
}
