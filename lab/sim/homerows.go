package sim

import (
	"fmt"
	"math/rand/v2"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
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
}

// startRows adds an increment to what it reads.
func (p *client) startRows(key string) {
	p.busy, p.rows = true, &rowUpdate{key: key, start: p.load.world.now}
	p.seq++
	p.rows.value = fmt.Sprintf("%s-%d", p.name, p.seq)
	p.readRows()
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
	op.OK, op.Unknown = u.found != nil && r.Err == causal.OK, u.found != nil && r.Err == causal.ErrUnknown
	if op.OK {
		op.Version, op.Reads = r.Record.Version, []history.Read{readOf(u.key, u.found.Record)}
	}
	p.load.history = append(p.load.history, op)
	p.conclude(r)
}
