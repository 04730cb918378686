package sim

import (
	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
)

// pipelinedGets are gets that a process has sent one behind the other. The history has them in this order: a client
// takes the answers as they come on its connection.
type pipelinedGets struct {
	keys    []string
	first   uint64 // id of the first operation
	level   causal.Level
	start   int64
	results []*session.Result // by index in keys; nil: not answered
	taken   int
}

// getPipelined makes the process read keys without waiting for the answers.
func (p *client) getPipelined(keys []string) { p.getPipelinedAt(p.readLevel(false), keys) }

func (p *client) getPipelinedAt(level causal.Level, keys []string) {
	w := p.load.world
	p.busy = true
	p.gets = &pipelinedGets{keys: keys, first: p.load.nextOp + 1, start: w.now,
		level: level, results: make([]*session.Result, len(keys))}
	ops := make([]session.Op, len(keys))
	for i, k := range keys {
		p.load.nextOp++
		ops[i] = session.Op{Kind: session.OpGet, ID: p.load.nextOp, Session: p.id, Key: k,
			Level: p.gets.level}
		p.load.pending[ops[i].ID] = p
	}
	withMachine(w, p.sidecar, func(m *session.Sidecar, now causal.Now) { m.DoGets(now, ops) })
}

// continueGets takes the answer to one of the gets.
func (p *client) continueGets(r *session.Result) {
	g, answer := p.gets, *r
	g.results[r.ID-g.first] = &answer
	for g.taken < len(g.keys) && g.results[g.taken] != nil {
		op := p.operation(history.Get, g.keys[g.taken], g.start)
		op.Level = g.level.Or(op.Level)
		p.record(op, g.results[g.taken])
		g.taken++
	}
	if g.taken < len(g.keys) {
		return
	}
	p.busy, p.gets = false, nil
	if p.onResult != nil {
		all := session.Result{}
		for _, r := range g.results {
			all.Records = append(all.Records, r.Record)
			all.Err = max(all.Err, r.Err)
		}
		p.onResult(&all)
	}
	p.think()
}
