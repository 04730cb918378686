package sim

import (
	"strconv"
	"time"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/operation"
)

// update is a read-modify-write of a counter in progress: a get, and a put that is accepted only if nothing was written
// meanwhile. It counts the counter up, or deletes it if it exists.
type update struct {
	key     string
	does    operation.Operation
	start   int64
	tries   int
	writing bool
	shipped bool // the home is asked to do all of it
	finding bool // before, the key is read elsewhere
	found   *operation.Found
	reply   string
}

// maxUpdateTries is how often a client tries an update before it gives it up, having written nothing.
const maxUpdateTries = 50

// updateSome counts a counter up, or deletes it.
func (p *client) updateSome() {
	rng, wl := p.load.world.rng, p.load
	key := wl.counters[rng.IntN(len(wl.counters))]
	if wl.deletePercent > 0 && rng.IntN(100) < wl.deletePercent {
		p.startUpdate(key, operation.Operation{Kind: operation.Delete})
		return
	}
	p.startUpdate(key, operation.Operation{Kind: operation.Add, Number: p.increment()})
}

// startUpdate starts an update of a key.
func (p *client) startUpdate(key string, does operation.Operation) {
	p.busy = true
	p.update = &update{key: key, does: does, start: p.load.world.now}
	p.shipUpdate()
}

// shipUpdate asks the home of the key to do the update. If the home is not expected to know the key, and sometimes if
// it is, the key is read elsewhere before.
func (p *client) shipUpdate() {
	u, w := p.update, p.load.world
	if u.finding = p.needsFound(u.key); u.finding || !p.scripted && w.rng.IntN(3) == 0 {
		u.finding = true
		p.issueStep(session.Op{Kind: session.OpGet, Key: u.key, Elsewhere: true})
		return
	}
	p.shipFound(nil)
}

// needsFound reports whether an operation is better sent with what is found of its key elsewhere.
func (p *client) needsFound(key string) (needed bool) {
	withMachine(p.load.world, p.sidecar, func(m *session.Sidecar, now causal.Now) {
		needed = m.NeedsFound(now, p.id, key)
	})
	return needed
}

// shipFound asks the home to do the update, on what was found elsewhere or on what it has. That may be old by then.
func (p *client) shipFound(found *operation.Found) {
	u, w := p.update, p.load.world
	u.finding, u.found = false, found
	ship := func() {
		if p.update != u { // the sidecar has restarted
			return
		}
		u.writing, u.shipped = true, true
		o := u.does
		o.Found = found
		p.issueStep(session.Op{Kind: session.OpPut, Key: u.key, Value: o.Value(false)})
	}
	if found != nil && !p.scripted && w.rng.IntN(8) == 0 {
		w.schedule(w.rng.Int64N(int64(time.Second)), ship)
		return
	}
	ship()
}

// increment is by how much a client counts up: another number in each data center, so that the sums mostly tell what
// an update has found.
func (p *client) increment() int64 {
	if p.scripted {
		return 1
	}
	return [...]int64{1, 1000, 1_000_000}[p.sidecar.DC%3]
}

func (p *client) readForUpdate() {
	p.update.writing, p.update.shipped = false, false
	p.update.tries++
	p.issueStep(session.Op{Kind: session.OpGet, Key: p.update.key, ForUpdate: true})
}

// issueStep issues an operation that is a part of another one.
func (p *client) issueStep(op session.Op) {
	p.load.nextOp++
	op.ID, op.Session = p.load.nextOp, p.id
	p.load.pending[op.ID] = p
	withMachine(p.load.world, p.sidecar, func(m *session.Sidecar, now causal.Now) { m.Do(now, op) })
}

// continueUpdate takes the result of a step of an update.
func (p *client) continueUpdate(r *session.Result) {
	u := p.update
	switch {
	case u.finding && r.Err == causal.OK:
		p.shipFound(&operation.Found{Version: r.Record.Version, Value: r.Record.Value, From: r.From})
		return
	case u.finding && r.Err == causal.ErrConflict:
		p.shipFound(nil)
		return
	case u.shipped && r.Err == causal.ErrConflict && u.found == nil && p.needsFound(u.key):
		p.shipUpdate()
		return
	case u.shipped && r.Err == causal.ErrConflict:
		p.readForUpdate()
		return
	case u.shipped && r.Err == causal.OK:
		u.reply = u.replyTo(r.Record.Value, !r.Unwritten)
	case !u.writing && r.Err == causal.OK:
		did := u.does.Apply(r.Record.Value, 0)
		u.writing, u.reply = did.Writes, u.replyTo(did.Next, did.Writes)
		if did.Writes {
			p.issueStep(session.Op{Kind: session.OpPut, Key: u.key, Value: did.Next,
				Conditional: true, If: r.Record.Version, From: r.From})
			return
		}
	case u.writing && r.Err == causal.ErrConflict && u.tries < maxUpdateTries && p.load.issuing:
		p.shipUpdate()
		return
	}
	p.concludeUpdate(r)
}

// replyTo returns the reply to an update that has written a value, or nothing.
func (u *update) replyTo(v causal.Value, hasWritten bool) string {
	switch {
	case u.does.Kind == operation.Add:
		return string(v.Data)
	case hasWritten:
		return "1"
	}
	return "0"
}

// command returns an update as a history has it.
func (u *update) command() []string {
	if u.does.Kind == operation.Add {
		return []string{"INCRBY", strconv.FormatInt(u.does.Number, 10)}
	}
	return []string{"DEL"}
}

// concludeUpdate ends an update with the result of its last step. One that was given up has no reply.
func (p *client) concludeUpdate(r *session.Result) {
	u := p.update
	p.update = nil
	op := p.operation(history.Update, u.key, u.start)
	op.Command, op.End = u.command(), p.load.world.now
	op.OK, op.Unknown = u.reply != "" && r.Err == causal.OK, u.writing && r.Err == causal.ErrUnknown
	if op.OK {
		op.Value = u.reply
	}
	if op.OK && u.writing && !r.Unwritten {
		op.Version = r.Record.Version
	}
	p.load.history = append(p.load.history, op)
	p.conclude(r)
}
