package process

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/shard"
	"github.com/causalstore/causalstore/topology"
)

// move carries out a request of a mover.
func (p *Shard) move(mover *shard.Mover, op shard.MoveOp) {
	done := func(r shard.MoveResult, err error) {
		p.busy = false
		r.ID, r.Failed = op.ID, err != nil
		mover.OpDone(op, r) // if another one has taken its place, nobody asks this one for anything any more
	}
	changed := func(err error) { done(shard.MoveResult{}, err) }
	switch op.Kind {
	case shard.MoveList:
		p.do(Effect{Kind: EffectList, Want: op.Want}, func(r EffectResult) {
			done(shard.MoveResult{Keys: r.Keys}, r.Err)
		})
	case shard.MoveRead:
		p.do(Effect{Kind: EffectRead, Keys: op.Keys}, func(r EffectResult) {
			// the horizon is read last: a key that is no longer there was deleted at or below it
			done(shard.MoveResult{Records: r.Records, Horizon: p.marks.durable.Horizon}, r.Err)
		})
	case shard.MoveApply:
		p.takeIn(&op, changed)
	case shard.MoveWipe:
		p.removeSlots(op.Want, changed)
	case shard.MoveSaveState:
		p.mark(&Marks{State: op.State}, []string{MarkState}, changed)
	}
}

// removeSlots removes the keys of the slots that want wants, or with nil all keys.
func (p *Shard) removeSlots(want func(topology.Slot) bool, then func(error)) {
	p.do(Effect{Kind: EffectList, Want: want}, func(r EffectResult) {
		if r.Err != nil {
			then(r.Err)
			return
		}
		p.remove(r.Keys, then)
	})
}

// remove removes keys, some at a time.
func (p *Shard) remove(keys []string, then func(error)) {
	n := min(len(keys), p.cfg.RemoveKeys)
	if n == 0 {
		then(nil)
		return
	}
	writes := make([]causal.Write, n)
	for i, key := range keys[:n] {
		writes[i] = causal.Write{Key: key, Delete: true, KeyExists: true}
	}
	p.change(member.Change{Writes: writes}, false, func(err error) {
		if err != nil {
			then(err)
			return
		}
		p.remove(keys[n:], then)
	})
}
