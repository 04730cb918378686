package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/history"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// process is one sequential client of a session.
type process struct {
	w       *workload
	name    string
	session string
	id      uint64 // of the session at the sidecar
	sidecar topology.Node
	seq     int
	op      history.Op
	busy    bool
	stopped bool
	final   bool
	// answered, if set, is told every answer.
	answered func(*causal.Result)
}

// workload is the clients of one run and what they have seen.
type workload struct {
	world   *World
	keys    []string
	procs   []*process
	byOp    map[uint64]*process
	nextOp  uint64
	tokens  []string
	history history.History
	think   time.Duration
	mix     mix
	hot     int
	issuing bool
	missing []missingRead
	reshape *reshape
}

func (wl *workload) results(rs []causal.Result) {
	for i := range rs {
		if p := wl.byOp[rs[i].ID]; p != nil {
			delete(wl.byOp, rs[i].ID)
			p.done(&rs[i])
		}
	}
}

// start lets a process issue operations one after the other.
func (p *process) start() {
	p.w.world.after(p.w.world.rng.Int64N(int64(p.w.think)), p.next)
}

func (p *process) next() {
	if p.busy || p.stopped || !p.w.issuing {
		return
	}
	rng := p.w.world.rng
	key := p.w.keys[rng.IntN(len(p.w.keys))]
	if rng.IntN(3) > 0 { // a few keys are hot
		key = p.w.keys[rng.IntN(min(p.w.hot, len(p.w.keys)))]
	}
	m := p.w.mix
	switch r := rng.IntN(100); {
	case r < m.put:
		p.seq++
		p.issue(causal.Op{Kind: causal.OpPut, Key: key, Value: causal.Value{Data: fmt.Appendf(nil, "%s-%d", p.name, p.seq)}})
	case r < m.put+m.del:
		p.issue(causal.Op{Kind: causal.OpPut, Key: key, Value: causal.Value{Tombstone: true}})
	case r < m.put+m.del+m.mget:
		n := 2 + rng.IntN(3)
		keys := make([]string, 0, n)
		for _, i := range rng.Perm(len(p.w.keys))[:min(n, len(p.w.keys))] {
			keys = append(keys, p.w.keys[i])
		}
		p.issue(causal.Op{Kind: causal.OpMGet, Keys: keys, Latest: r%7 == 0})
	case r < m.put+m.del+m.mget+m.token:
		p.passToken()
	default:
		if r%8 == 1 {
			w := p.w.world
			w.do(p.sidecar, func(m machine, now causal.Now) { m.(*causal.Sidecar).Prefetch(now, p.id, p.w.keys) })
		}
		p.issue(causal.Op{Kind: causal.OpGet, Key: key, Latest: r%5 == 0}) // as before a modification
	}
}

// passToken exports the session, or resumes what some other session exported.
func (p *process) passToken() {
	if rng := p.w.world.rng; len(p.w.tokens) > 0 && rng.IntN(2) == 0 {
		p.issue(causal.Op{Kind: causal.OpResume, Token: p.w.tokens[len(p.w.tokens)-1]})
		return
	}
	p.issue(causal.Op{Kind: causal.OpToken})
}

var kinds = map[causal.OpKind]history.OpKind{causal.OpGet: history.Get, causal.OpMGet: history.MGet,
	causal.OpPut: history.Put, causal.OpToken: history.Token, causal.OpResume: history.Resume}

func (p *process) issue(op causal.Op) {
	w := p.w.world
	p.w.nextOp++
	op.ID, op.Session = p.w.nextOp, p.id
	p.busy = true
	p.op = history.Op{Session: p.session, Process: p.name, DC: w.topo.DCs[p.sidecar.DC].Name, Kind: kinds[op.Kind],
		Key: op.Key, Value: string(op.Value.Data), Start: w.now, Final: p.final}
	if op.Kind == causal.OpResume {
		p.op.Token = fmt.Sprintf("t%d", slices.Index(p.w.tokens, op.Token)+1)
	}
	if op.Value.Tombstone {
		p.op.Kind = history.Delete
	}
	for _, k := range op.Keys {
		p.op.Reads = append(p.op.Reads, history.Read{Key: k})
	}
	p.w.byOp[op.ID] = p
	w.do(p.sidecar, func(m machine, now causal.Now) { m.(*causal.Sidecar).Do(now, op) })
}

// done records the answer and thinks about the next operation.
func (p *process) done(r *causal.Result) {
	w := p.w.world
	p.busy = false
	op := p.op
	op.End, op.OK = w.now, r.Err == causal.OK
	op.Unknown = r.Err == causal.ErrUnknown
	if op.OK {
		p.w.noteMissing(&op, r)
		switch op.Kind {
		case history.Get:
			op.Value, op.Version, op.Missing = string(r.Record.Value.Data), written(r.Record.Version), r.Record.Value.Tombstone
		case history.Put, history.Delete:
			op.Version = r.Record.Version
		case history.MGet:
			for i := range op.Reads {
				rec := r.Records[i]
				op.Reads[i].Value, op.Reads[i].Version, op.Reads[i].Missing = string(rec.Value.Data), written(rec.Version), rec.Value.Tombstone
			}
		case history.Token:
			p.w.tokens = append(p.w.tokens, r.Token)
			op.Token = fmt.Sprintf("t%d", len(p.w.tokens))
		}
	}
	p.w.history = append(p.w.history, op)
	if p.answered != nil {
		p.answered(r)
	}
	if !p.stopped {
		w.after(1+w.rng.Int64N(int64(p.w.think)), p.next)
	}
}

// written returns v if it names a write; the absence of one has no version in a history.
func written(v causal.Version) causal.Version {
	if !v.Written() {
		return causal.Version{}
	}
	return v
}
