package process

import (
	"fmt"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/causal/shard"
	"github.com/causalstore/causalstore/topology"
)

// A Shard starts in this order: it reads the marks; makes durable under which slot map the storage is used, or that
// there is one more mover; and from then on has a machine. Whenever a middleman is to serve, it
//
//  1. removes what is left in a storage that has lost data and is to be refilled, after it is durable that it has;
//  2. makes durable, at once, what the storage lacks, which exclusions count, and the incarnation with its lineage.
//     With the exclusions alone, the next start would lack what is not complete, and not know that;
//  3. makes the middleman.
//
// A middleman that is to serve no more is stopped at once; the next one starts when the storage has carried out what it
// was asked for.

// load takes the marks.
func (p *Shard) load(r EffectResult) {
	if r.Err != nil {
		p.failure = r.Err
		return
	}
	p.marks.init(r.Marks)
	p.started = r.Marks.Starts
	t := p.Topology()
	if p.failure = shard.CheckState(t, p.self(), r.Marks.State); p.failure != nil {
		return
	}
	begin := func(m *shard.Mover, err error) {
		if p.failure = err; err == nil {
			p.shard, p.busy = shard.New(t, p.self(), m, p.past()), false
		}
	}
	// so that a later start detects a number of shards that changed without a resharding
	state := shard.MigrationState{Map: t.Map(t.RingOf(p.self().DC))}
	switch {
	case shard.NeedsMover(t, p.self()):
		p.newMover(t, begin)
	case state != r.Marks.State:
		p.mark(&Marks{State: state}, []string{MarkState}, func(err error) { begin(nil, err) })
	default:
		begin(nil, nil)
	}
}

// past returns what the storage tells of earlier starts.
func (p *Shard) past() shard.Past {
	m := &p.marks
	return shard.Past{Starts: m.durable.Starts, Loss: m.durable.Loss, Missing: m.durable.Missing,
		HasWritesOf: func(o topology.Origin) bool { return m.asked.Origins.Has(o) }, ID: p.cfg.ID,
		Broken: p.cfg.Middleman.Broken}
}

// newMover makes a mover for a topology. Its number is durable before, so that messages of an earlier one are known.
func (p *Shard) newMover(t *topology.Topology, then func(*shard.Mover, error)) {
	marks := Marks{Moves: p.marks.durable.Moves + 1}
	p.mark(&marks, []string{MarkMoves}, func(err error) {
		if err != nil {
			then(nil, err)
			return
		}
		cfg := shard.DefaultMoverConfig(t, p.self())
		cfg.Life, cfg.State = marks.Moves, p.marks.durable.State
		cfg.Lease, cfg.Broken = p.cfg.Middleman.Lease, p.cfg.Middleman.Broken
		if p.cfg.Mover != nil {
			p.cfg.Mover(&cfg)
		}
		then(shard.NewMover(cfg), nil)
	})
}

// isReplacing reports whether what serves is not what is to serve.
func (p *Shard) isReplacing() bool { return p.starting || p.draining || !p.shard.IsCurrent() }

// replace makes what serves what is to serve, as far as it can be done now.
func (p *Shard) replace() {
	isCurrent := p.shard.IsCurrent()
	if !isCurrent && p.serving != nil {
		p.shard.Stop()
		p.serving, p.draining, p.cachesAt = nil, true, 0
		p.generation++
		p.writes.drop()
	}
	if p.draining && !p.writes.underWay {
		p.draining = false
		p.shard.Drained() // informs the mover: see Shard.MoveOps
	}
	if isCurrent || p.draining || p.busy {
		return
	}
	plan, ok := p.shard.PlanStart(p.now, p.cfg.Middleman, p.history())
	if !ok {
		return
	}
	p.busy, p.starting = true, true
	if plan.Clear {
		p.clear(func() { p.saveStart(plan) })
	} else {
		p.saveStart(plan)
	}
}

func (p *Shard) history() shard.History {
	m := &p.marks.durable
	return shard.History{Starts: m.Starts, Caches: m.Caches, Lineage: m.LineageAt(p.position), Position: p.position,
		Horizon: m.Horizon, Fences: m.Fences, Exclusions: m.Exclusions}
}

// clear removes what is left in a storage that has lost data.
func (p *Shard) clear(then func()) {
	p.mark(&Marks{Loss: shard.LossFound}, []string{MarkLoss}, func(err error) {
		if err != nil {
			p.failure = err
			return
		}
		p.removeSlots(nil, func(err error) {
			if err != nil {
				p.failure = fmt.Errorf("remove what is left in a storage that has lost data: %w", err)
				return
			}
			then()
		})
	})
}

// saveStart makes durable what has to be before a middleman starts.
func (p *Shard) saveStart(plan shard.Start) {
	c := &plan.Config
	marks := Marks{Starts: c.Incarnation, Lineage: c.Lineage, Loss: plan.Loss, Exclusions: c.Exclusions,
		Caches: plan.Caches}
	names := []string{MarkStarts, MarkLineage}
	if plan.Loss != p.marks.durable.Loss {
		names = append(names, MarkLoss)
	}
	if !p.marks.durable.Exclusions.Covers(c.Exclusions) {
		names = append(names, MarkExclusions)
	}
	if plan.SaveCaches && c.Fresh {
		names = append(names, MarkCaches)
	}
	p.mark(&marks, names, func(err error) {
		if err != nil {
			p.failure = err
			return
		}
		p.serve(plan)
	})
}

// serve starts a middleman: what has to be durable before is.
func (p *Shard) serve(plan shard.Start) {
	p.serving, p.busy, p.starting = middleman.New(plan.Config, p.now), false, false
	p.generation++
	p.shard.Start(p.serving, plan)
	if plan.Config.Fresh {
		return
	}
	p.scanStorage()
	if plan.SaveCaches {
		p.cachesAt, p.caches = p.now.Mono+int64(plan.Config.Lease), plan.Caches
	}
}

// scanStorage finds what the middleman that serves is to drop in time.
func (p *Shard) scanStorage() {
	p.do(Effect{Kind: EffectTombstones, Generation: p.generation}, func(EffectResult) {})
}

// NoteTombstone informs the middleman of a generation of what the storage has held since its start: a tombstone, a
// value that merges, or one that expires, so that it drops in time what need not be kept. It returns false if no such
// middleman serves any more.
func (p *Shard) NoteTombstone(generation uint64, key string, rec causal.Record) bool {
	if p.serving == nil || p.generation != generation {
		return false
	}
	p.serving.NoteTombstone(key, rec)
	return true
}

// saveCaches saves the layout of the caches, now that all leases from before have expired: a middleman that starts
// earlier has to wait for them as well. If it fails, the next start waits for leases again.
func (p *Shard) saveCaches() {
	p.mark(&Marks{Caches: p.caches}, []string{MarkCaches}, func(error) { p.busy = false })
}

// mark makes marks durable, and then calls then.
func (p *Shard) mark(marks *Marks, names []string, then func(error)) {
	p.change(member.Change{Meta: marks.Metas(names...)}, false, then)
}

// change makes a change durable, and then calls then.
func (p *Shard) change(c member.Change, checkExistence bool, then func(error)) {
	p.do(Effect{Kind: EffectChange, Change: c, CheckExistence: checkExistence}, func(r EffectResult) {
		if r.Err == nil {
			p.marks.note(c.Meta)
		}
		then(r.Err)
	})
}
