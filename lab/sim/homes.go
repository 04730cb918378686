package sim

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/operation"
)

// homes draws deployments whose coordinators are the homes of the keys.
func homes(p *runPlan, rng *rand.Rand) {
	p.set.Level, p.set.Binding = causal.Local, causal.Dynamic
	p.shape.coordinators = intRange{1, 1 + rng.IntN(3)}
	p.shape.perRing, p.shape.rttMs = intRange{1, 2}, intRange{1, 20 + rng.IntN(100)}
	p.sidecars, p.sessions, p.processes = intRange{2, 4}, intRange{1, 2}, intRange{1, 2}
	p.keys, p.hotKeys, p.counters = 2+rng.IntN(6), 2, 1+rng.IntN(2)
	p.mix = operationMix{put: 15 + rng.IntN(25), del: rng.IntN(6), mget: rng.IntN(15), token: rng.IntN(4),
		update: 10 + rng.IntN(20), commit: 5}
	p.thinkTime, p.length = ms(2, 60, rng), ms(2000, 5000, rng)
	p.faultEvery = ms(50, 700, rng)
	p.faults = faultWeights{Crash: 4, CrashDirty: 3, CrashLate: 1, WriteCut: 3, Cut: 1, Congest: 2,
		SlowDisk: 2, Slow: 2,
		ClockJump: 2, CacheCut: 1}
	if p.set.KeepMs/7%3 == 0 { // it draws nothing, as lateAfter
		p.otherLevels = 25
	}
	switch rng.IntN(4) {
	case 0:
		p.shape.members = intRange{2, 3}
		p.faults[MemberCut], p.faults[CutRegister], p.length = 3, 1, ms(4000, 8000, rng)
	case 1: // foreign writes of the same keys are shown all the time
		p.set.Cache, p.keys, p.thinkTime = true, 1+rng.IntN(2), ms(2, 20, rng)
		p.faults = faultWeights{WriteCut: 4, Crash: 1, Congest: 1, ClockJump: 3}
	case 2: // the cut does not move
		p.faults = faultWeights{Isolate: 2, Cut: 4, WriteCut: 2, Crash: 1}
	case 3: // mostly new keys, which scans are to find
		if rng.IntN(2) == 0 {
			p.keys, p.mix.scan = 30+rng.IntN(100), 15+rng.IntN(20)
		} else { // several keys are put in one step
			p.mix.update, p.mix.commit = 10, 15
		}
	}
}

// homeChanges draws deployments of which the number of homes changes.
func homeChanges(p *runPlan, rng *rand.Rand) {
	homes(p, rng)
	p.scaled, p.shape.coordinators = coordinatorCount, intRange{1, 3}
	p.scaleEvery, p.length = ms(100, 1500, rng), ms(4000, 10000, rng)
	p.thinkTime, p.faultEvery = ms(4, 60, rng), ms(150, 2000, rng)
	if rng.IntN(3) == 0 { // no operation waits for long because of a change alone
		p.faults, p.set.FaultsPerMillion, p.set.PutLossPercent = faultWeights{}, 0, 0
		p.set.OpTimeout, p.maxWait = 30*time.Second, 10*time.Second
	}
	if rng.IntN(3) == 0 { // homes give leases, which have to be over
		p.set.Cache, p.set.NearBytes, p.set.NearReads = true, 16<<10, 1+rng.IntN(2)
		p.keys, p.mix.put, p.mix.update, p.mix.commit = 3+rng.IntN(8), 1+rng.IntN(3), rng.IntN(3), rng.IntN(2)
		p.thinkTime, p.shape.rttMs = ms(2, 20, rng), intRange{1, 40}
	}
}

// update is a read-modify-write of a counter in progress: a get, and a put that is accepted only if nothing was written
// meanwhile.
type update struct {
	key     string
	start   int64
	tries   int
	writing bool
	shipped bool // the home is asked to do all of it
	finding bool // before, the key is read elsewhere
	found   *operation.Found
	value   string
}

// maxUpdateTries is how often a client tries an update before it gives it up, having written nothing.
const maxUpdateTries = 50

// startUpdate counts a key up.
func (p *client) startUpdate(key string) {
	p.busy = true
	p.update = &update{key: key, start: p.load.world.now}
	p.shipUpdate()
}

// shipUpdate asks the home of the key to do the update. If the home is not expected to know the key, and sometimes if
// it is, the key is read elsewhere before.
func (p *client) shipUpdate() {
	u, w := p.update, p.load.world
	if u.finding = p.needsFound(); u.finding || !p.scripted && w.rng.IntN(3) == 0 {
		u.finding = true
		p.issueStep(session.Op{Kind: session.OpGet, Key: u.key, Elsewhere: true})
		return
	}
	p.shipFound(nil)
}

// needsFound reports whether an operation is better sent with what is found of its key elsewhere.
func (p *client) needsFound() (needed bool) {
	withMachine(p.load.world, p.sidecar, func(m *session.Sidecar, now causal.Now) {
		needed = m.NeedsFound(now, p.id, p.update.key)
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
		o := operation.Operation{Kind: operation.Add, Number: p.increment(), Found: found}
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
	case u.shipped && r.Err == causal.ErrConflict && u.found == nil && p.needsFound():
		p.shipUpdate()
		return
	case u.shipped && r.Err == causal.ErrConflict:
		p.readForUpdate()
		return
	case u.shipped && r.Err == causal.OK:
		u.value = string(r.Record.Value.Data)
	case !u.writing && r.Err == causal.OK:
		n, _ := strconv.Atoi(string(r.Record.Value.Data))
		u.writing, u.value = true, strconv.Itoa(n+int(p.increment()))
		p.issueStep(session.Op{Kind: session.OpPut, Key: u.key, Value: causal.Value{Data: []byte(u.value)},
			Conditional: true, If: r.Record.Version, From: r.From})
		return
	case u.writing && r.Err == causal.ErrConflict && u.tries < maxUpdateTries && p.load.issuing:
		p.shipUpdate()
		return
	}
	p.update = nil
	op := p.operation(history.Update, u.key, u.start)
	op.Command, op.End = []string{"INCRBY", strconv.FormatInt(p.increment(), 10)}, p.load.world.now
	op.OK, op.Unknown = u.writing && r.Err == causal.OK, u.writing && r.Err == causal.ErrUnknown
	if op.OK {
		op.Value, op.Version = u.value, r.Record.Version
	}
	p.load.history = append(p.load.history, op)
	p.conclude(r)
}

// checkDataCenters checks what level Local promises among the clients of a data center.
func (w *World) checkDataCenters(h history.History) (found []string) {
	violations, err := w.dataCenterViolations(h)
	if err != nil {
		return []string{err.Error()}
	}
	for _, v := range violations {
		found = append(found, v.String())
	}
	return found
}

// dataCenterViolations returns where a history breaks what level Local promises among the clients of a data center.
func (w *World) dataCenterViolations(h history.History) ([]history.Violation, error) {
	if w.settings.Level != causal.Local {
		return nil, nil
	}
	var local history.History
	for i := range h {
		if h[i].Level == causal.Local {
			local = append(local, h[i])
		}
	}
	report, err := history.CheckDataCenters(local,
		history.DataCenterOptions{MaxViolations: 3, KeyTime: 2 * time.Second})
	if err != nil {
		return nil, err
	}
	return slices.Concat(report.Visibility.Violations, report.Exact.Violations, report.OneStep.Violations), nil
}
