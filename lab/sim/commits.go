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
	t := p.load.world.topo
	c := &commit{start: p.load.world.now}
	var home topology.Node
	for i, key := range p.someKeys(len(p.load.keys)) {
		h := t.HomeOf(p.sidecar.DC, topology.SlotOf(key))
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
	c := p.commit
	p.busy, p.commit = false, nil
	for i := range c.keys {
		op, answer := p.operation(history.Put, c.keys[i].Key, c.start), *r
		op.Value = string(c.keys[i].Record.Value.Data)
		answer.Record.Version.HLC -= causal.HLC(len(c.keys) - 1 - i)
		p.record(op, &answer)
	}
	p.think()
}
