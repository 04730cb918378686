package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/shard"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/topology"
)

// newMover returns the mover, or nil if the ring is not being resharded.
func newMover(ctx context.Context, store storage.Store, t *topology.Topology,
	self topology.Node) (*shard.Mover, error) {
	n, err := metaUint(ctx, store, metaState)
	if err != nil {
		return nil, err
	}
	state := shard.MigrationState{Map: topology.MapID(n >> 2), Stopped: n&2 != 0, HoldsMovedSlots: n&1 != 0}
	if err := shard.CheckState(t, self, state); err != nil {
		return nil, err
	}
	if !shard.NeedsMover(t, self) {
		return nil, nil
	}
	life, err := metaUint(ctx, store, metaMoves)
	if err != nil {
		return nil, err
	}
	if err := setMetaUint(ctx, store, metaMoves, life+1); err != nil {
		return nil, err
	}
	config := shard.DefaultMoverConfig(t, self)
	config.Life, config.State = life+1, state
	return shard.NewMover(config), nil
}

// SetTopology replaces the topology by one that differs only in the numbers of coordinators, shards and caches. It
// fails while a resharding is in progress.
func (mm *Middleman) SetTopology(t *topology.Topology) error {
	mm.mu.Lock()
	busy := mm.m.IsResharding()
	mm.mu.Unlock()
	if busy {
		return errors.New("a resharding is in progress on this middleman; retry when it has ended")
	}
	mover, err := newMover(mm.ctx, mm.store, t, mm.id)
	if err != nil {
		return err
	}
	mm.step(func(_ causal.Now, m *shard.Shard) {
		m.SetTopology(t, mover)
		mm.wake.Signal()
	})
	return nil
}

// Resharding returns the progress of a resharding: "none" or the mover's stage, from how many middlemen it has copied
// all slots, and from how many it takes slots.
func (mm *Middleman) Resharding() (stage string, copied, of int) {
	mm.mu.Lock()
	defer mm.mu.Unlock()
	m := mm.m.Mover()
	if m == nil {
		return "none", 0, 0
	}
	copied, of = m.Progress()
	return m.Stage(), copied, of
}

// collect takes the storage requests of the machines, and wakes reconcile if it has work.
func (mm *Middleman) collect() {
	if mm.serving != nil {
		mm.serving.collect()
	}
	mm.moveOps = mm.m.MoveOps(mm.moveOps)
	if len(mm.moveOps) > 0 || !mm.m.IsCurrent() {
		mm.wake.Signal()
	}
}

// reconcile executes the mover's storage requests, and replaces the serving middleman if it is not current.
func (mm *Middleman) reconcile() {
	defer mm.reconcilerDone.Done()
	for {
		mm.mu.Lock()
		for len(mm.moveOps) == 0 && mm.m.IsCurrent() && !mm.closing {
			mm.wake.Wait()
		}
		if mm.closing {
			mm.mu.Unlock()
			return
		}
		moves := mm.moveOps
		mm.moveOps = nil
		mover, old, current := mm.m.Mover(), mm.serving, mm.m.IsCurrent()
		if !current {
			mm.m.Stop()
			mm.serving = nil
		}
		mm.mu.Unlock()
		if !current {
			if err := mm.replaceServing(old); err != nil {
				mm.onFailure(fmt.Errorf("switch to another slot map: %w", err))
				return
			}
		}
		for _, op := range moves {
			r := mm.runMoveOp(op)
			mm.step(func(_ causal.Now, m *shard.Shard) {
				if m.Mover() == mover {
					mover.OpDone(op, r)
				}
			})
		}
	}
}

// replaceServing waits until the old middleman's storage requests have ended, and starts one under the current slot
// map.
func (mm *Middleman) replaceServing(old *servingMiddleman) error {
	if old != nil {
		old.stopAndWait()
	}
	mm.step(func(_ causal.Now, m *shard.Shard) { m.Drained() }) // informs the mover: see Shard.MoveOps
	ctx, cancel := context.WithTimeout(mm.ctx, storageTimeout)
	defer cancel()
	if err := mm.startServing(ctx); err != nil {
		return err
	}
	mm.step(func(causal.Now, *shard.Shard) {}) // the new middleman needs a tick
	mm.mu.Lock()
	topo := mm.m.View()
	lost, known := mm.m.DataLost()
	withdrawal, withdrawn := mm.m.Withdrawn()
	mm.mu.Unlock()
	if withdrawal.OldCopy {
		mm.logger.Error(
			"the storage is an older copy of what the shard had: it is kept, and nothing is answered until "+
				"other rings have said that they have all data, from which the shard then gets them", "known_by", known)
		return nil
	}
	if withdrawn && withdrawal.Excluded {
		mm.logger.Warn(
			"the data center was excluded: the shard keeps its data and answers nothing until other rings have said " +
				"that they have all of them")
		return nil
	}
	if lost {
		mm.logger.Error("the storage has lost its data: reads are refused, other rings serve them", "known_by", known)
	}
	if topo == nil {
		mm.logger.Info("not serving while slots move")
		return nil
	}
	ring := topo.RingOf(mm.id.DC)
	mm.logger.Info("serving under a slot map", "ring", topo.Rings[ring].Name, "map", topo.Map(ring), "middlemen",
		len(topo.RingMiddlemen(ring)),
		"caches", topo.DCs[mm.id.DC].Caches)
	return nil
}

// runMoveOp executes a mover's storage request.
func (mm *Middleman) runMoveOp(op shard.MoveOp) shard.MoveResult {
	r := shard.MoveResult{ID: op.ID}
	var err error
	switch op.Kind {
	case shard.MoveList:
		r.Keys, err = mm.listKeys(op.Want)
	case shard.MoveRead:
		r.Records, r.Horizon, err = mm.readMoved(op.Keys)
	case shard.MoveApply:
		err = mm.applyMoved(op)
	case shard.MoveWipe:
		err = mm.wipe(op.Want)
	case shard.MoveSaveState:
		ctx, cancel := context.WithTimeout(mm.ctx, storageTimeout)
		defer cancel()
		err = mm.saveState(ctx, op.State)
	}
	if err != nil && mm.ctx.Err() == nil {
		mm.logger.Error("storage failed during resharding; retrying", "error", err)
	}
	r.Failed = err != nil
	return r
}

// saveState saves a state as one number: the map and a bit for each flag.
func (mm *Middleman) saveState(ctx context.Context, s shard.MigrationState) error {
	n := uint64(s.Map) << 2
	if s.Stopped {
		n |= 2
	}
	if s.HoldsMovedSlots {
		n |= 1
	}
	return setMetaUint(ctx, mm.store, metaState, n)
}

func (mm *Middleman) listKeys(want func(topology.Slot) bool) (keys []string, err error) {
	err = mm.store.Scan(mm.ctx, func(key string, _ causal.Record) error {
		if want(topology.SlotOf(key)) {
			keys = append(keys, key)
		}
		return nil
	})
	if errors.Is(err, storage.ErrForeign) {
		mm.logger.Warn("values that this deployment did not write are not moved, though their slots may be",
			"error", err)
		err = nil
	}
	return keys, err
}

// readMoved reads the records of the first keys, as many as fit into a message, or one. It reads the horizon last: a
// key that is no longer there was deleted at or below it.
func (mm *Middleman) readMoved(keys []string) (records []causal.Moved, horizon causal.HLC, err error) {
	ctx, cancel := context.WithTimeout(mm.ctx, storageTimeout)
	defer cancel()
	answers, err := mm.store.GetMany(ctx, keys, shard.ChunkBytes)
	if err != nil {
		return nil, 0, err
	}
	for i, a := range answers {
		if a.Err == nil {
			records = append(records, causal.Moved{Key: keys[i], Record: a.Record})
		} else { // a foreign value is not moved
			records = append(records, causal.Moved{Key: keys[i]})
		}
	}
	return records, mm.horizon.get(), nil
}

func (mm *Middleman) applyMoved(op shard.MoveOp) error {
	ctx, cancel := context.WithTimeout(mm.ctx, storageTimeout)
	defer cancel()
	if err := mm.horizon.raise(ctx, mm.store, op.Horizon); err != nil || len(op.Records) == 0 {
		return err
	}
	writes := make([]storage.Write, len(op.Records))
	for i, m := range op.Records {
		writes[i] = storage.Write{Key: m.Key, Record: m.Record, Delete: m.Record.Version.IsZero()}
	}
	if err := setKeyExists(ctx, mm.store, writes); err != nil {
		return err
	}
	if err := mm.origins.include(ctx, mm.store, writes); err != nil {
		return err
	}
	return mm.store.Apply(ctx, writes)
}

// setKeyExists sets KeyExists of writes from what a store holds.
func setKeyExists(ctx context.Context, s storage.Store, writes []storage.Write) error {
	keys := make([]string, len(writes))
	for i := range writes {
		keys[i] = writes[i].Key
	}
	exists := make(map[string]bool, len(keys))
	for len(keys) > 0 {
		answers, err := s.GetMany(ctx, keys, maxGroupBytes)
		if err != nil {
			return err
		}
		for i, a := range answers {
			exists[keys[i]] = a.Found || a.Err != nil // a foreign value exists, too
		}
		keys = keys[len(answers):]
	}
	for i := range writes {
		w := &writes[i]
		w.KeyExists = exists[w.Key]
		exists[w.Key] = !w.Delete
	}
	return nil
}

// wipeBatch is the number of keys that are removed at a time.
const wipeBatch = 512

func (mm *Middleman) wipe(want func(topology.Slot) bool) error {
	keys, err := mm.listKeys(want)
	if err != nil {
		return err
	}
	return mm.remove(mm.ctx, keys)
}

// wipeAll removes all keys, also those whose values are damaged or were written by somebody else.
func (mm *Middleman) wipeAll(ctx context.Context) error {
	var all []string
	for next := ""; ; {
		keys, after, err := mm.store.Keys(ctx, next, wipeBatch)
		if err != nil {
			return err
		}
		if all = append(all, keys...); after == "" {
			return mm.remove(ctx, all)
		}
		next = after
	}
}

func (mm *Middleman) remove(ctx context.Context, keys []string) error {
	for len(keys) > 0 {
		n := min(len(keys), wipeBatch)
		writes := make([]storage.Write, n)
		for i, key := range keys[:n] {
			writes[i] = storage.Write{Key: key, Delete: true, KeyExists: true}
		}
		ctx, cancel := context.WithTimeout(ctx, storageTimeout)
		err := mm.store.Apply(ctx, writes)
		cancel()
		if err != nil {
			return err
		}
		keys = keys[n:]
	}
	return nil
}
