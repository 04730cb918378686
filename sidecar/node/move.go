package node

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// shard is the machine of a middleman's host: what serves, if anything does, and what moves slots, while there is a change.
type shard struct {
	m     *causal.Middleman
	mover *causal.Mover
}

// Step implements machine.
func (s *shard) Step(now causal.Now, msg *causal.Message) {
	switch msg.Kind {
	case causal.KindPull, causal.KindPulled, causal.KindPong:
		if s.mover != nil {
			s.mover.Step(now, msg)
		}
	default:
		if s.m != nil {
			s.m.Step(now, msg)
		}
	}
}

// Tick implements machine.
func (s *shard) Tick(now causal.Now) {
	if s.m != nil {
		s.m.Tick(now)
	}
	if s.mover != nil {
		s.mover.Tick(now)
	}
}

// Take implements machine.
func (s *shard) Take(dst []causal.Message) []causal.Message {
	if s.m != nil {
		dst = s.m.Take(dst)
	}
	if s.mover != nil {
		dst = s.mover.Take(dst)
	}
	return dst
}

// wrote tells the mover of a write that storage is asked for, or has done.
func (s *shard) wrote(op causal.StorageOp) {
	if s.mover != nil && (op.Kind == causal.StorageWrite || op.Kind == causal.StorageDelete) {
		s.mover.Wrote(op.Key)
	}
}

// newMover returns what moves slots, or nil if the ring does not change.
func (mm *Middleman) newMover(ctx context.Context, t *topology.Topology) (*causal.Mover, error) {
	n, err := metaUint(ctx, mm.store, metaStand)
	if err != nil {
		return nil, err
	}
	stand := causal.Stand{Map: topology.MapID(n >> 2), Frozen: n&2 != 0, Left: n&1 != 0}
	if err := causal.CheckStand(t, mm.ID, stand); err != nil {
		return nil, err
	}
	if !t.Changing().Has(t.RingOf(mm.ID.DC)) {
		return nil, nil
	}
	config := causal.DefaultMoverConfig(t, mm.ID)
	life, err := metaUint(ctx, mm.store, metaMoves)
	if err != nil {
		return nil, err
	}
	if err := setMetaUint(ctx, mm.store, metaMoves, life+1); err != nil {
		return nil, err
	}
	config.Life, config.Stand = life+1, stand
	return causal.NewMover(config), nil
}

// SetTopology takes a topology that differs from the one in use in numbers of coordinators, shards and caches only. While a change is under way
// that does not end here before the next one, the next one is refused.
func (mm *Middleman) SetTopology(t *topology.Topology) error {
	mm.mu.Lock()
	busy := mm.shard.mover != nil && !mm.shard.mover.Done()
	mm.mu.Unlock()
	if busy {
		return errors.New("a change of shards has not ended here yet")
	}
	mover, err := mm.newMover(mm.ctx, t)
	if err != nil {
		return err
	}
	mm.do(func(causal.Now) {
		mm.shard.mover, mm.o.Config.Topology = mover, t
		if mm.shard.m != nil {
			mm.shard.m.SetCoordinators(t)
		}
		mm.some.Signal()
	})
	return nil
}

// Change describes what this middleman does for a change of shards: "none", "copying", "moving", "done", or "gone" once it
// has left the ring and its storage is empty. The numbers are of middlemen that it takes slots from.
func (mm *Middleman) Change() (state string, copied, of int) {
	mm.mu.Lock()
	defer mm.mu.Unlock()
	m := mm.shard.mover
	if m == nil {
		return "none", 0, 0
	}
	copied, of = m.Progress()
	return m.State(), copied, of
}

// Serves reports whether this middleman serves at the moment.
func (mm *Middleman) Serves() bool {
	mm.mu.Lock()
	defer mm.mu.Unlock()
	return mm.serving != nil
}

// serve returns by which topology to serve; with the lock held, or before anything runs.
func (mm *Middleman) serve() (*topology.Topology, bool) {
	if mm.shard.mover == nil {
		return mm.o.Config.Topology, true
	}
	return mm.shard.mover.Serve()
}

// take collects what the machines ask of storage, and wakes follow if there is something for it.
func (mm *Middleman) take() {
	if mm.serving != nil {
		mm.serving.take()
	}
	m := mm.shard.mover
	if m == nil {
		return
	}
	if mm.serving == nil && !mm.ending {
		m.Stopped()
	}
	mm.moves = m.Ops(mm.moves)
	mm.queue = m.Take(mm.queue)
	if len(mm.moves) > 0 || !mm.asItShould() {
		mm.some.Signal()
	}
}

// asItShould reports whether what serves is what should.
func (mm *Middleman) asItShould() bool {
	view, ok := mm.serve()
	ring := mm.o.Config.Topology.RingOf(mm.ID.DC)
	return ok == (mm.serving != nil) && (!ok || mm.view.Map(ring) == view.Map(ring) && mm.view.Caches() == view.Caches())
}

// follow carries out what the mover asks for: storage requests, and that something else serves.
func (mm *Middleman) follow() {
	defer mm.ended.Done()
	for {
		mm.mu.Lock()
		for len(mm.moves) == 0 && mm.asItShould() && !mm.closing {
			mm.some.Wait()
		}
		if mm.closing {
			mm.mu.Unlock()
			return
		}
		moves := mm.moves
		mm.moves = nil
		mover, old, change := mm.shard.mover, mm.serving, !mm.asItShould()
		if change {
			mm.serving, mm.shard.m, mm.ending = nil, nil, old != nil
		}
		mm.mu.Unlock()
		if change {
			if err := mm.change(old); err != nil {
				mm.fail(fmt.Errorf("go over to other slots: %w", err))
				return
			}
		}
		for _, op := range moves {
			r := mm.move(op)
			mm.do(func(causal.Now) {
				if mm.shard.mover == mover {
					mover.OpDone(op, r)
				}
			})
		}
	}
}

// change ends what served, and starts what is to serve now.
func (mm *Middleman) change(old *serving) error {
	if old != nil {
		old.end()
		mm.do(func(causal.Now) { mm.ending = false }) // the mover is told with it: see take
	}
	mm.mu.Lock()
	view, ok := mm.serve()
	mm.mu.Unlock()
	if !ok {
		mm.logger.Info("serving nothing while slots move")
		return nil
	}
	ctx, cancel := context.WithTimeout(mm.ctx, storageTimeout)
	defer cancel()
	if err := mm.start(ctx, view); err != nil {
		return err
	}
	ring := view.RingOf(mm.ID.DC)
	mm.logger.Info("serving by the map of slots", "ring", view.Rings[ring].Name, "map", view.Map(ring), "middlemen", len(view.Members(ring)),
		"caches", view.DCs[mm.ID.DC].Caches)
	return nil
}

// move carries out one storage request of the mover.
func (mm *Middleman) move(op causal.MoveOp) causal.MoveResult {
	r := causal.MoveResult{ID: op.ID}
	var err error
	switch op.Kind {
	case causal.MoveList:
		r.Keys, err = mm.keysOf(op.Want)
	case causal.MoveRead:
		r.Records, r.Horizon, err = mm.readMoved(op.Keys)
	case causal.MoveApply:
		err = mm.apply(op)
	case causal.MoveWipe:
		err = mm.wipe(op.Want)
	case causal.MoveStand:
		ctx, cancel := context.WithTimeout(mm.ctx, storageTimeout)
		defer cancel()
		err = mm.setStand(ctx, op.Stand)
	}
	if err != nil && mm.ctx.Err() == nil {
		mm.logger.Error("storage failed while slots move; trying again", "error", err)
	}
	r.Failed = err != nil
	return r
}

// setStand keeps a stand as one number: the map, and a bit for each flag.
func (mm *Middleman) setStand(ctx context.Context, s causal.Stand) error {
	n := uint64(s.Map) << 2
	if s.Frozen {
		n |= 2
	}
	if s.Left {
		n |= 1
	}
	return setMetaUint(ctx, mm.store, metaStand, n)
}

func (mm *Middleman) keysOf(want func(topology.Slot) bool) (keys []string, err error) {
	err = mm.store.Scan(mm.ctx, func(key string, _ causal.Record) error {
		if want(topology.SlotOf(key)) {
			keys = append(keys, key)
		}
		return nil
	})
	if errors.Is(err, storage.ErrForeign) {
		mm.logger.Warn("values that this deployment did not write stay where they are, though their slots may move", "error", err)
		err = nil
	}
	return keys, err
}

// readMoved reads the horizon last: a key that is not there any more was deleted at or below it.
func (mm *Middleman) readMoved(keys []string) (records []causal.Moved, horizon causal.HLC, err error) {
	ctx, cancel := context.WithTimeout(mm.ctx, storageTimeout)
	defer cancel()
	answers, err := mm.store.GetMany(ctx, keys)
	if err != nil {
		return nil, 0, err
	}
	for i, a := range answers {
		if a.Err == nil {
			records = append(records, causal.Moved{Key: keys[i], Record: a.Record})
		} else { // foreign: what takes the slot in does not get it
			records = append(records, causal.Moved{Key: keys[i]})
		}
	}
	return records, mm.horizon.get(), nil
}

func (mm *Middleman) apply(op causal.MoveOp) error {
	ctx, cancel := context.WithTimeout(mm.ctx, storageTimeout)
	defer cancel()
	if err := mm.horizon.raise(ctx, mm.store, op.Horizon); err != nil || len(op.Records) == 0 {
		return err
	}
	writes := make([]storage.Write, len(op.Records))
	for i, m := range op.Records {
		writes[i] = storage.Write{Key: m.Key, Record: m.Record, Delete: m.Record.Version.IsZero()}
	}
	return mm.store.Apply(ctx, writes)
}

// wipeLot is how many keys are removed at a time.
const wipeLot = 512

func (mm *Middleman) wipe(want func(topology.Slot) bool) error {
	keys, err := mm.keysOf(want)
	if err != nil {
		return err
	}
	for len(keys) > 0 {
		n := min(len(keys), wipeLot)
		writes := make([]storage.Write, n)
		for i, key := range keys[:n] {
			writes[i] = storage.Write{Key: key, Delete: true}
		}
		ctx, cancel := context.WithTimeout(mm.ctx, storageTimeout)
		err := mm.store.Apply(ctx, writes)
		cancel()
		if err != nil {
			return err
		}
		keys = keys[n:]
	}
	return nil
}

// durableHorizon is the tombstone horizon as it stands in the store. It never goes back, whoever raises it.
type durableHorizon struct {
	mu sync.Mutex
	at causal.HLC
}

func (h *durableHorizon) load(ctx context.Context, s storage.Store) error {
	n, err := metaUint(ctx, s, metaHorizon)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at = max(h.at, causal.HLC(n))
	return err
}

func (h *durableHorizon) get() causal.HLC {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at
}

func (h *durableHorizon) raise(ctx context.Context, s storage.Store, to causal.HLC) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if to <= h.at {
		return nil
	}
	if err := setMetaUint(ctx, s, metaHorizon, uint64(to)); err != nil {
		return err
	}
	h.at = to
	return nil
}
