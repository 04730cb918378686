package sim

import (
	"fmt"
	"math/rand/v2"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/operation"
)

// homeRows draws the deployments of homes with keys whose values merge.
func homeRows(p *runPlan, rng *rand.Rand) {
	[...]func(*runPlan, *rand.Rand){homes, homes, homes, nearHomes, homeChanges}[rng.IntN(5)](p, rng)
	p.set.Tallies, p.tallies = true, 1+rng.IntN(p.keys)
	p.mix.rows = 10 + rng.IntN(30)
	if rng.IntN(3) > 0 {
		p.mix.del = 0 // then nothing can explain that a read lacks an increment
	}
	p.mix.commit = 2 + rng.IntN(10)
	if rng.IntN(2) == 0 { // several data centers write one value, and reads find what the home has not
		p.keys, p.tallies, p.thinkTime = 1+rng.IntN(2), 1, ms(4, 40, rng)
		p.mix.put, p.mix.update = 5, 2
	}
	p.thinkTime, p.length = max(p.thinkTime, ms(10, 60, rng)), ms(1500, 3000, rng) // values only grow
}

// rowUpdate is an increment of a value that merges in progress that is accepted only on the newest one.
type rowUpdate struct {
	key   string
	start int64
	tries int
	value string          // the name of the increment
	found *session.Result // what was read, once it was
	// finding says that the key is read elsewhere, and shipped that the home is asked to execute the increment, with
	// what was found or without.
	finding, shipped, hasFound bool
}

// startRows adds an increment to what it reads, or to what the home has.
func (p *client) startRows(key string) {
	p.seq++
	p.addRow(key, fmt.Sprintf("%s-%d", p.name, p.seq), p.load.world.rng.IntN(2) == 0)
}

// addRow adds an increment of a name, at the home or to what it reads.
func (p *client) addRow(key, name string, atHome bool) {
	p.busy, p.rows = true, &rowUpdate{key: key, start: p.load.world.now, value: name}
	if atHome {
		p.shipRow()
		return
	}
	p.readRows()
}

// shipRow asks the home of the key to execute the increment. If the home is not expected to know the key, and sometimes
// if it is, the key is read elsewhere before.
func (p *client) shipRow() {
	u := p.rows
	if u.finding = p.needsFound(u.key) || !p.scripted && p.load.world.rng.IntN(3) == 0; u.finding {
		p.issueStep(session.Op{Kind: session.OpGet, Key: u.key, Elsewhere: true})
		return
	}
	p.shipRowOn(nil)
}

func (p *client) shipRowOn(found *operation.Found) {
	u := p.rows
	u.finding, u.shipped, u.hasFound = false, true, found != nil
	// a home that knows no tallies is to append nothing: any string is longer than the limit
	o := operation.Operation{Kind: operation.Append, Data: []byte(u.value), Limit: 1, Found: found}
	op := session.Op{Kind: session.OpPut, Key: u.key, Value: o.Value(false)}
	if found != nil {
		op.From = found.From
	}
	p.issueStep(op)
}

func (p *client) readRows() {
	p.rows.tries++
	p.rows.found = nil
	p.issueStep(session.Op{Kind: session.OpGet, Key: p.rows.key, ForUpdate: true})
}

// continueRows takes the result of a step.
func (p *client) continueRows(r *session.Result) {
	u := p.rows
	switch {
	case u.finding && r.Err == causal.OK:
		p.shipRowOn(&operation.Found{Version: r.Record.Version, Value: r.Record.Value, From: r.From})
		return
	case u.finding && r.Err == causal.ErrConflict:
		p.shipRowOn(nil)
		return
	case u.shipped && r.Err == causal.ErrConflict && !u.hasFound && p.needsFound(u.key):
		p.shipRow()
		return
	case u.shipped && (r.Err == causal.ErrConflict || r.Err == causal.OK && r.Unwritten):
		u.shipped = false
		p.readRows()
		return
	case u.shipped:
	case u.found == nil && r.Err == causal.OK:
		found := *r
		u.found = &found
		p.issueStep(session.Op{Kind: session.OpPut, Key: u.key, Value: increment(u.value), Conditional: true,
			If: found.Record.Version, From: found.From})
		return
	case u.found != nil && r.Err == causal.ErrConflict && u.tries < maxUpdateTries && p.load.issuing:
		p.readRows()
		return
	}
	p.rows = nil
	op := p.operation(history.Add, u.key, u.start)
	op.Value, op.End = u.value, p.load.world.now
	isPut := u.shipped || u.found != nil
	op.OK, op.Unknown = isPut && r.Err == causal.OK, isPut && r.Err == causal.ErrUnknown
	if op.OK {
		op.Version, op.Reads = r.Record.Version, []history.Read{p.readBy(u)}
	}
	p.load.history = append(p.load.history, op)
	p.conclude(r)
}

// readBy returns what an increment was accepted on.
func (p *client) readBy(u *rowUpdate) history.Read {
	if u.found != nil {
		return readOf(u.key, u.found.Record)
	}
	parts := p.load.world.executedOn[u.value]
	r := history.Read{Key: u.key, Parts: parts, Missing: len(parts) == 0}
	if len(parts) > 0 {
		r.Version = parts[len(parts)-1].Version
	}
	return r
}
