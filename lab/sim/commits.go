package sim

import (
	"fmt"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/topology"
)

// commit is a commit in progress.
type commit struct {
	keys  []causal.CommitKey
	start int64
}

// commitSome puts some keys that have the same home in one step.
func (p *client) commitSome() {
	homeOf := func(key string) (home topology.Node) {
		withMachine(p.load.world, p.sidecar, func(m *session.Sidecar, _ causal.Now) {
			home = m.HomeOf(topology.SlotOf(key))
		})
		return home
	}
	c := &commit{start: p.load.world.now}
	var home topology.Node
	for i, key := range p.someKeys(len(p.load.keys)) {
		h := homeOf(key)
		if i == 0 {
			home = h
		}
		if h == home && len(c.keys) < 3 {
			p.seq++
			c.keys = append(c.keys, causal.CommitKey{Key: key,
				Record: causal.Record{Value: causal.Value{Data: fmt.Appendf(nil, "%s-%d", p.name, p.seq)}}})
		}
	}
	p.busy, p.commit = true, c
	p.issueStep(session.Op{Kind: session.OpPut, Commit: c.keys})
}

// finishCommit adds the puts of a commit to the history, in order.
func (p *client) finishCommit(r *session.Result) {
	w, c := p.load.world, p.commit
	p.busy, p.commit = false, nil
	for i := range c.keys {
		op := history.Op{Session: p.session, Process: p.name, DC: w.topo.DCs[p.sidecar.DC].Name, Kind: history.Put,
			Level: w.settings.Level, Key: c.keys[i].Key, Value: string(c.keys[i].Record.Value.Data), Start: c.start,
			End: w.now, OK: r.Err == causal.OK, Unknown: r.Err == causal.ErrUnknown}
		if op.OK {
			op.Version = r.Record.Version
			op.Version.HLC -= causal.HLC(len(c.keys) - 1 - i)
		}
		p.load.history = append(p.load.history, op)
	}
	if !p.scripted {
		w.schedule(1+w.rng.Int64N(int64(p.load.thinkTime)), p.issueNext)
	}
}
