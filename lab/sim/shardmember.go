package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/causal/shard"
	"github.com/causalstore/causalstore/topology"
)

// shardMember is the process of one member of a shard: the replicated storage, and while that serves here, the shard on
// it.
type shardMember struct {
	*member.Storage
	shard   *shard.Shard       // nil unless it was started in the session
	session uint64             // of the storage, in which what follows is meant; 0: none
	topo    *topology.Topology // of the shard

	changes map[uint64]func() // by the number of the proposal: what to do when it is done
	done    []uint64
	held    []func() // completions that wait for the lease
	// busy says that metadata are being written without which the shard, its middleman or its mover cannot start.
	busy     bool
	draining bool // a middleman was stopped, and its changes are not done
	// What the storage says, with what was proposed.
	horizon causal.HLC
	origins map[topology.Origin]bool
	fences  causal.Fences

	tasks   []member.StorageTask
	working bool  // the first task is under way
	since   int64 // when the storage has last done what it was asked for, or had nothing to do
	silent  bool  // the machine was told that the storage does not respond
}

// acts reports whether the shard may act: the session that it was started in goes on, and no other member can serve.
func (m *shardMember) acts(now causal.Now) bool {
	return m.shard != nil && m.session == m.Session() && m.HoldsLease(now)
}

func (m *shardMember) Step(now causal.Now, msg *causal.Message) {
	switch {
	case msg.Kind == causal.KindGroup || msg.Kind == causal.KindCopy:
		m.Storage.Step(now, msg)
	case m.acts(now):
		m.shard.Step(now, msg)
	}
}

func (m *shardMember) Tick(now causal.Now) {
	m.Storage.Tick(now)
	whole := false
	if m.acts(now) {
		m.shard.Tick(now)
		lost, _ := m.shard.DataLost()
		whole = m.shard.Serving() != nil && !lost
	}
	m.SetWhole(whole)
}

func (m *shardMember) NextTick(now causal.Now) int64 {
	next := m.Storage.NextTick(now)
	if m.acts(now) {
		next = min(next, m.shard.NextTick(now))
	}
	return next
}

func (m *shardMember) Take(dst []causal.Message) []causal.Message {
	if m.shard != nil {
		dst = m.shard.Take(dst)
	}
	return m.Storage.Take(dst)
}

// startShardMember starts the process of a member of a shard from its log and its storage.
func (w *World) startShardMember(n *node) {
	image := w.readLog(n)
	n.m = &shardMember{since: w.now,
		Storage: member.NewStorage(member.StorageConfig{Self: n.id, Topology: n.topo, Volume: n.disk.volume,
			Found: n.disk.marker, Empty: n.disk.isEmpty(), RetainBytes: w.settings.RetainBytes,
			Broken: w.settings.Broken, Tune: func(o *group.Options) {
				if w.settings.MaxFrameBytes > 0 {
					o.MaxFrameBytes = w.settings.MaxFrameBytes
				}
			}}, image, w.clock(n))}
	w.flush(n)
}

// settleSession starts and ends sessions, and completes what is done. The messages of the machines are taken
// afterwards.
func (w *World) settleSession(n *node, m *shardMember) {
	now := w.clock(n)
	if s := m.Session(); s != m.session {
		m.session, m.shard, m.changes, m.held, m.busy, m.draining = s, nil, map[uint64]func(){}, nil, false, false
		m.horizon, m.origins, m.fences = n.disk.horizon, maps.Clone(n.disk.origins), n.disk.fences
		n.serving++
		if s != 0 {
			w.noteSession(n)
		}
	}
	if m.session == 0 {
		return
	}
	if m.shard == nil && !m.busy {
		w.startReplicated(n, m)
	}
	m.done = m.Done(m.done[:0])
	for _, id := range m.done {
		if then := m.changes[id]; then != nil {
			delete(m.changes, id)
			then()
		}
	}
	for len(m.held) > 0 && m.acts(now) {
		next := m.held[0]
		m.held = m.held[1:]
		next()
	}
	if m.draining && len(m.changes) == 0 {
		m.draining = false
		m.shard.Drained()
	}
}

// noteSession counts the session that a member begins.
func (w *World) noteSession(n *node) {
	w.members.Sessions++
	if last, ok := w.served[n.id.Group()]; ok && last != n.id {
		w.members.Failovers++
	}
	w.served[n.id.Group()] = n.id
}

// resetMember empties the log of a member that is damaged, and starts a new one.
func (w *World) resetMember(n *node) {
	w.members.Resets++
	w.crash(n)
	n.disk.loseLog()
	w.schedule(int64(10*time.Millisecond), func() { w.restart(n) })
}

// propose changes the storage of all members. If it is refused, failed is called some time later, unless the session
// has ended.
func (w *World) propose(n *node, m *shardMember, c member.Change, done, failed func()) {
	id, err := m.Propose(w.clock(n), c)
	if err == nil {
		m.changes[id] = done
		return
	}
	w.inSession(n, m, int64(10*time.Millisecond), failed)
}

// inSession calls f after a delay, unless the process or its session has ended.
func (w *World) inSession(n *node, m *shardMember, after int64, f func()) {
	session := m.session
	w.schedule(after, func() {
		if n.m == m && m.session == session && m.Session() == session {
			f()
			w.flush(n)
		}
	})
}

// startReplicated starts the shard in a session: it reads what the storage tells, and writes what has to be durable
// before.
func (w *World) startReplicated(n *node, m *shardMember) {
	if shard.CheckState(n.topo, n.id.Group(), n.disk.state) != nil {
		return // this member has not heard of a change that another one has carried out
	}
	topo := n.topo
	w.saveMoverLife(n, m, func() {
		past := n.past(w)
		w.starts++
		past.ID = w.starts
		m.shard, m.topo = shard.New(topo, n.id.Group(), w.moverFrom(n, topo), past), topo
	})
}

// saveMoverLife makes durable what a shard needs before it starts with a topology, or changes to it.
func (w *World) saveMoverLife(n *node, m *shardMember, then func()) {
	m.busy = true
	meta := metaUint(metaMoves, n.disk.moves+1)
	if !shard.NeedsMover(n.topo, n.id.Group()) {
		meta = stateMeta(shard.MigrationState{Map: n.topo.Map(n.topo.RingOf(n.id.DC))})
	}
	w.propose(n, m, member.Change{Meta: []member.Meta{meta}}, func() {
		m.busy = false
		then()
	}, func() { m.busy = false })
}

// reconcileReplicated does for a shard with members what reconcile does for one without.
func (w *World) reconcileReplicated(n *node, m *shardMember) {
	s := m.shard
	if s == nil {
		return
	}
	if m.topo != n.topo && !m.busy && !s.IsResharding() && shard.CheckState(n.topo, n.id.Group(), n.disk.state) == nil {
		topo := n.topo
		w.saveMoverLife(n, m, func() {
			s.SetTopology(topo, w.moverFrom(n, topo))
			m.topo = topo
		})
	}
	if !s.IsCurrent() && !m.busy && !m.draining {
		if s.Serving() != nil {
			s.Stop()
			n.serving++
			m.draining = true
			if len(m.changes) == 0 {
				m.draining = false
				s.Drained()
			}
		}
		if !m.draining {
			w.serveReplicated(n, m)
		}
	}
	mover := s.Mover()
	for _, op := range s.MoveOps(nil) {
		w.runReplicatedMoveOp(n, m, mover, op)
	}
}

// serveReplicated starts the middleman under the current slot map, if the shard may serve.
func (w *World) serveReplicated(n *node, m *shardMember) {
	plan, ok := m.shard.PlanStart(w.clock(n), w.middlemanConfig(n), n.disk.history())
	if !ok {
		return
	}
	meta := []member.Meta{}
	if plan.SaveCaches && plan.Config.Fresh {
		meta = append(meta, metaUint(metaCaches, uint64(plan.Caches)))
	}
	var cleared []member.Write
	if plan.Clear {
		for _, key := range slices.Sorted(maps.Keys(n.disk.records)) {
			cleared = append(cleared, member.Write{Key: key, Delete: true, KeyExists: true})
		}
	}
	meta = append(meta, metaUint(metaDataLost, uint64(plan.Loss)), exclusionsMeta(plan.Config.Exclusions))
	meta = append(meta, metaUint(metaStarts, plan.Config.Incarnation), lineageMeta(plan.Config.Lineage))
	m.busy = true
	var try func()
	try = func() {
		w.propose(n, m, member.Change{Writes: cleared, Meta: meta}, func() {
			m.busy = false
			w.startMiddleman(n, m, plan)
		}, try)
	}
	try()
}

// startMiddleman starts the middleman that was planned: what had to be durable before is.
func (w *World) startMiddleman(n *node, m *shardMember, plan shard.Start) {
	n.serving++
	mm := middleman.New(plan.Config, w.clock(n))
	m.shard.Start(mm, plan)
	n.disk.eachTombstone(mm.NoteTombstone)
	if plan.SaveCaches && !plan.Config.Fresh {
		serving := n.serving
		w.inSession(n, m, int64(plan.Config.Lease)*11/10, func() {
			// the clock that the lease is counted on may run slow
			if n.serving == serving {
				w.propose(n, m, member.Change{Meta: []member.Meta{metaUint(metaCaches, uint64(plan.Caches))}},
					func() {}, func() {})
			}
		})
	}
}

// proposeWrite makes a write of the middleman one of all members.
func (w *World) proposeWrite(n *node, m *shardMember, op middleman.StorageOp) {
	var c member.Change
	switch op.Kind {
	case middleman.StorageHorizon:
		c.Meta = append(c.Meta, m.raise(op.Horizon))
	case middleman.StorageFence:
		m.fences = m.fences.With(op.Origin, op.Generation)
		c.Meta = append(c.Meta, fencesMeta(m.fences))
	case middleman.StorageExclusions:
		c.Meta = append(c.Meta, exclusionsMeta(op.Exclusions))
	default:
		c = m.writes(n, []member.Write{{Key: op.Key, Record: op.Record, Delete: op.Kind == middleman.StorageDelete,
			KeyExists: op.KeyExists}})
	}
	s, serving := m.shard, n.serving
	finish := func(failed bool) {
		s.NoteWrite(op)
		if n.serving == serving {
			w.hold(n, m, middleman.StorageResult{ID: op.ID, Failed: failed, Changes: n.disk.position().Changes})
		}
	}
	w.propose(n, m, c, func() { finish(false) }, func() { finish(true) })
}

// hold keeps a result for the middleman that serves now until the lease holds.
func (w *World) hold(n *node, m *shardMember, r middleman.StorageResult) {
	serving := n.serving
	m.held = append(m.held, func() {
		if n.serving == serving {
			m.shard.Serving().StorageDone(w.clock(n), r)
		}
	})
}

// raise returns the tombstone horizon, at least at h. What was proposed before and is not done yet counts.
func (m *shardMember) raise(h causal.HLC) member.Meta {
	m.horizon = max(m.horizon, h)
	return metaUint(metaHorizon, uint64(m.horizon))
}

// writes returns the change that consists of writes. The origins of their versions are noted with it.
func (m *shardMember) writes(n *node, writes []member.Write) member.Change {
	c := member.Change{Writes: writes}
	isNew := false
	for i := range writes {
		if o := writes[i].Record.Version.Origin; !writes[i].Delete && !n.disk.origins[o] {
			m.origins[o], isNew = true, true
		}
	}
	if isNew {
		c.Meta = append(c.Meta, originsMeta(m.origins))
	}
	return c
}

// runReplicatedMoveOp executes a mover's storage request: reads at the member's own storage, writes at that of all.
func (w *World) runReplicatedMoveOp(n *node, m *shardMember, mover *shard.Mover, op shard.MoveOp) {
	w.inSession(n, m, w.storageDelay(n, 2*time.Millisecond), func() {
		finish := func(r shard.MoveResult) {
			r.ID = op.ID
			m.held = append(m.held, func() {
				if m.shard.Mover() == mover {
					mover.OpDone(op, r)
				}
			})
		}
		var r shard.MoveResult
		var c member.Change
		switch {
		case w.storageFails():
			r.Failed = true
		case op.Kind == shard.MoveList || op.Kind == shard.MoveRead:
			n.disk.runMoveOp(op, &r)
		case op.Kind == shard.MoveSaveState:
			c.Meta = append(c.Meta, stateMeta(op.State))
		case op.Kind == shard.MoveWipe:
			c.Writes = n.disk.removals(op.Want)
		case op.Kind == shard.MoveApply:
			c = m.writes(n, n.disk.moved(op.Records))
			if op.Horizon > n.disk.horizon {
				c.Meta = append(c.Meta, m.raise(op.Horizon))
			}
		}
		if len(c.Writes)+len(c.Meta) == 0 {
			finish(r)
		} else {
			w.propose(n, m, c, func() { finish(shard.MoveResult{}) }, func() { finish(shard.MoveResult{Failed: true}) })
		}
	})
}
