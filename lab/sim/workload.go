package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/topology"
)

// client is one of the clients of a session. It issues one operation at a time.
type client struct {
	load     *workload
	name     string
	session  string
	id       uint64 // of the session at the sidecar
	sidecar  topology.Node
	seq      int
	op       history.Op
	busy     bool
	scripted bool // it issues no operations of its own
	final    bool
	scan     *scan          // in progress, or nil
	gets     *pipelinedGets // in progress, or nil
	rows     *rowUpdate     // in progress, or nil
	update   *update        // in progress, or nil
	commit   *commit        // the same
	await    *awaiting      // in progress, or nil
	// onResult, if not nil, is called with every result.
	onResult func(*session.Result)
}

// workload holds the clients of a run and the history of what they have seen.
type workload struct {
	world     *World
	keys      []string
	processes []*client
	pending   map[uint64]*client
	nextOp    uint64
	tokens    []string
	history   history.History
	thinkTime time.Duration
	mix       operationMix
	hotKeys   int
	tallies   int // of the keys, the first ones, are written as tallies
	counters  []string
	// otherLevels is the share of reads that have another level than the session, in percent.
	otherLevels int
	// deletePercent is the share of the updates of counters that delete.
	deletePercent int
	// expiringPercent is the share of the deletes that are puts of values that expire.
	expiringPercent int
	issuing         bool
	missing         []missingRead
	scans           int // that were completed
	scaler          *scaler
	explained       []uint64 // operations of which it is said, or known, why they take long
	waits           []string // what those wait for that take too long
	awaiting        []*client
	outOfTurn       bool // a client was served before one that has waited for longer
}

// results passes results to the processes that wait for them.
func (wl *workload) results(rs []session.Result) {
	for i := range rs {
		if p := wl.pending[rs[i].ID]; p != nil {
			delete(wl.pending, rs[i].ID)
			p.finish(&rs[i])
		}
	}
}

// start makes a process issue operations of its own, one at a time.
func (p *client) start() {
	p.load.world.schedule(p.load.world.rng.Int64N(int64(p.load.thinkTime)), p.issueNext)
}

func (p *client) issueNext() {
	if p.busy || p.scripted || !p.load.issuing {
		return
	}
	rng := p.load.world.rng
	key := p.load.keys[rng.IntN(len(p.load.keys))]
	if rng.IntN(3) > 0 { // hot keys get more
		key = p.load.keys[rng.IntN(min(p.load.hotKeys, len(p.load.keys)))]
	}
	m := p.load.mix
	switch r := rng.IntN(100); {
	case r < m.put && p.load.isTally(key):
		p.seq++
		p.issue(session.Op{Kind: session.OpPut, Key: key, Value: increment(fmt.Sprintf("%s-%d", p.name, p.seq))})
	case r < m.put:
		p.seq++
		p.issue(session.Op{Kind: session.OpPut, Key: key,
			Value: causal.Value{Data: fmt.Appendf(nil, "%s-%d", p.name, p.seq)}})
	case r < m.put+m.del:
		p.issue(session.Op{Kind: session.OpPut, Key: key, Value: p.noValue()})
	case r < m.put+m.del+m.mget:
		p.issue(session.Op{Kind: session.OpMGet, Keys: p.someKeys(2 + rng.IntN(3)), Level: p.readLevel(r%7 == 0)})
	case r < m.put+m.del+m.mget+m.token:
		p.passToken()
	case r < m.put+m.del+m.mget+m.token+m.scan:
		p.scanAll()
	case r < m.put+m.del+m.mget+m.token+m.scan+m.update:
		p.updateSome()
	case r < m.put+m.del+m.mget+m.token+m.scan+m.update+m.commit:
		p.commitSome()
	case r < m.put+m.del+m.mget+m.token+m.scan+m.update+m.commit+m.rows:
		p.startRows(p.load.keys[rng.IntN(p.load.tallies)])
	default:
		if r%8 == 1 {
			p.getPipelined(append([]string{key}, p.someKeys(2+rng.IntN(6))...))
			return
		}
		p.issue(session.Op{Kind: session.OpGet, Key: key, Level: p.readLevel(r%5 == 0)})
	}
}

// readLevel returns the level of a read, which may be that of a read-modify-write, or another than that of the session.
func (p *client) readLevel(modifies bool) causal.Level {
	if others := p.load.otherLevels; others > 0 && p.load.world.rng.IntN(100) < others {
		return []causal.Level{causal.Snapshot, causal.Snapshot, causal.Latest}[p.load.world.rng.IntN(3)]
	}
	return readLevel(modifies)
}

// readLevel returns the level of a read, which may be that of a read-modify-write.
func readLevel(modifies bool) causal.Level {
	if modifies {
		return causal.Newest
	}
	return causal.DefaultLevel
}

// isTally reports whether a key is written as a tally.
func (wl *workload) isTally(key string) bool {
	return slices.Contains(wl.keys[:min(wl.tallies, len(wl.keys))], key)
}

// someKeys draws at most n different keys.
func (p *client) someKeys(n int) []string {
	keys := make([]string, 0, n)
	for _, i := range p.load.world.rng.Perm(len(p.load.keys))[:min(n, len(p.load.keys))] {
		keys = append(keys, p.load.keys[i])
	}
	return keys
}

// passToken exports the session, or resumes the newest token, which is mostly that of another session.
func (p *client) passToken() {
	if rng := p.load.world.rng; len(p.load.tokens) > 0 && rng.IntN(2) == 0 {
		p.issue(session.Op{Kind: session.OpResume, Token: p.load.tokens[len(p.load.tokens)-1]})
		return
	}
	p.issue(session.Op{Kind: session.OpToken})
}

var kinds = map[session.OpKind]history.OpKind{session.OpGet: history.Get, session.OpMGet: history.MGet,
	session.OpPut: history.Put, session.OpToken: history.Token, session.OpResume: history.Resume}

func (p *client) issue(op session.Op) {
	w := p.load.world
	p.load.nextOp++
	op.ID, op.Session = p.load.nextOp, p.id
	p.busy = true
	p.op = p.operation(kinds[op.Kind], op.Key, w.now)
	p.op.Level, p.op.Value = op.Level.Or(w.settings.Level), string(op.Value.Data)
	if op.Kind == session.OpResume {
		p.op.Token = fmt.Sprintf("t%d", slices.Index(p.load.tokens, op.Token)+1)
	}
	switch {
	case isGone(op.Value):
		p.op.Kind = history.Delete
	case op.Value.Type == tallyType:
		p.op.Kind, p.op.Value = history.Add, decodeTally(causal.Record{Value: op.Value}).increments[0].Value
	}
	for _, k := range op.Keys {
		p.op.Reads = append(p.op.Reads, history.Read{Key: k})
	}
	p.load.pending[op.ID] = p
	withMachine(w, p.sidecar, func(m *session.Sidecar, now causal.Now) { m.Do(now, op) })
}

// finish records a result in the history and schedules the next operation.
func (p *client) finish(r *session.Result) {
	if p.scan != nil {
		p.continueScan(r)
		return
	}
	if p.gets != nil {
		p.continueGets(r)
		return
	}
	if p.update != nil {
		p.continueUpdate(r)
		return
	}
	if p.commit != nil {
		p.continueCommit(r)
		return
	}
	if p.rows != nil {
		p.continueRows(r)
		return
	}
	if p.await != nil {
		p.continueAwait(r)
		return
	}
	p.record(p.op, r)
	p.conclude(r)
}

// operation returns what the history has of every operation of the process that starts at a time.
func (p *client) operation(kind history.OpKind, key string, start int64) history.Op {
	w := p.load.world
	return history.Op{Session: p.session, Process: p.name, DC: w.topo.DCs[p.sidecar.DC].Name, Kind: kind,
		Level: w.settings.Level, Key: key, Start: start, Final: p.final}
}

// record adds an operation that has ended, with its result, to the history.
func (p *client) record(op history.Op, r *session.Result) {
	op.End, op.OK, op.Unknown = p.load.world.now, r.Err == causal.OK, r.Err == causal.ErrUnknown
	if op.OK {
		p.load.recordMissing(&op, r)
		op.InFlight = r.Outcome.Status == causal.InFlight
		switch op.Kind {
		case history.Get:
			setRead(&op, r.Record)
		case history.Put, history.Delete, history.Add:
			op.Version = r.Record.Version
		case history.MGet:
			for i := range op.Reads {
				op.Reads[i] = readOf(op.Reads[i].Key, r.Records[i])
			}
		case history.Token:
			p.load.tokens = append(p.load.tokens, r.Token)
			op.Token = fmt.Sprintf("t%d", len(p.load.tokens))
		}
	}
	p.load.history = append(p.load.history, op)
}

// noValue returns the value of a delete, or, in some profiles, one that expires.
func (p *client) noValue() causal.Value {
	w := p.load.world
	if p.load.expiringPercent == 0 || w.rng.IntN(100) >= p.load.expiringPercent {
		return causal.Value{Tombstone: true}
	}
	return causal.Value{ExpireAtMs: w.clock(w.nodes[p.sidecar]).WallMs + w.rng.Int64N(400)}
}

// conclude ends the operation in progress, and schedules the next one.
func (p *client) conclude(r *session.Result) {
	p.busy = false
	if p.onResult != nil {
		p.onResult(r)
	}
	p.think()
}

// think makes the process issue its next operation after a while, unless a scenario says what it does.
func (p *client) think() {
	if w := p.load.world; !p.scripted {
		w.schedule(1+w.rng.Int64N(int64(p.load.thinkTime)), p.issueNext)
	}
}

// setRead sets what a get has read.
func setRead(op *history.Op, rec causal.Record) {
	r := readOf(op.Key, rec)
	op.Value, op.Version, op.Missing, op.Parts = r.Value, r.Version, r.Missing, r.Parts
}

// written returns v if it is the version of a write, and the zero Version otherwise: a history has no version for a
// missing key.
func written(v causal.Version) causal.Version {
	if !v.Written() {
		return causal.Version{}
	}
	return v
}
