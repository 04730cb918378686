package sim

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/process"
)

// shardMember is the process of one member of a shard: the replicated storage, and while that serves here, the shard on
// it.
type shardMember struct {
	*member.Storage
	process *process.Shard // nil unless it was started in the session
	session uint64         // of the storage, in which what follows is meant; 0: none
	ready   bool           // the process has started a middleman, or found that none is to serve

	changes map[uint64]func() // by the number of the proposal: what to do when it is done
	done    []uint64
	held    []func(causal.Now) // completions that wait for the lease

	tasks   []member.StorageTask
	working bool  // the first task is under way
	since   int64 // when the storage has last done what it was asked for, or had nothing to do
	silent  bool  // the machine was told that the storage does not respond
}

// acts reports whether the shard may act: the session that it was started in goes on, and no other member can serve.
func (m *shardMember) acts(now causal.Now) bool {
	return m.process != nil && m.session == m.Session() && m.HoldsLease(now)
}

func (m *shardMember) Step(now causal.Now, msg *causal.Message) {
	switch {
	case msg.Kind == causal.KindGroup || msg.Kind == causal.KindCopy:
		m.Storage.Step(now, msg)
	case m.acts(now):
		m.process.Step(now, msg)
	}
}

func (m *shardMember) Tick(now causal.Now) {
	m.Storage.Tick(now)
	whole := false
	if m.acts(now) {
		m.process.Tick(now)
		whole = m.process.IsWhole()
	}
	m.SetWhole(whole)
}

func (m *shardMember) NextTick(now causal.Now) int64 {
	next := m.Storage.NextTick(now)
	if m.acts(now) {
		next = min(next, m.process.NextTick(now))
	}
	return next
}

func (m *shardMember) Take(dst []causal.Message) []causal.Message {
	if m.process != nil {
		dst = m.process.Take(dst)
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

// Leadership returns the leadership in which the member serves, once it has a process for it.
func (m *shardMember) Leadership() causal.Leadership {
	if !m.ready {
		return causal.Leadership{}
	}
	return m.Storage.Leadership()
}

// settleSession starts and ends sessions, and completes what is done. The messages of the machines are taken
// afterwards.
func (w *World) settleSession(n *node, m *shardMember) {
	now := w.clock(n)
	if s := m.Session(); s != m.session {
		m.session, m.process, m.ready, m.changes, m.held = s, nil, false, map[uint64]func(){}, nil
		if s != 0 {
			w.noteSession(n)
			w.startProcess(n, m)
		}
	}
	if m.session == 0 {
		return
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
		next(now)
	}
}

// startProcess starts the process of a session. What fails is tried again.
func (w *World) startProcess(n *node, m *shardMember) {
	w.starts++
	m.process = w.newProcess(n, w.starts)
}

// watchProcess tells the member whether its process has started, and starts another one in place of one that has
// failed.
func (w *World) watchProcess(n *node, m *shardMember) {
	switch {
	case m.process == nil:
	case m.process.Failure() != nil:
		m.process, m.ready, m.held = nil, false, nil
		m.SetCannotServe(w.clock(n), true)
		w.inSession(n, m, int64(10*time.Millisecond), func() { w.startProcess(n, m) })
	case !m.ready && m.process.IsSettled():
		m.ready = true
		m.SetCannotServe(w.clock(n), false)
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

// proposeEffect changes the storage of all members. If it is refused, that is known some time later.
func (w *World) proposeEffect(n *node, m *shardMember, e process.Effect) {
	p := m.process
	finish := func(r process.EffectResult) {
		m.held = append(m.held, func(now causal.Now) { p.Done(now, e.ID, r) })
	}
	if e.CheckExistence {
		n.disk.setKeyExists(e.Change.Writes)
	}
	id, err := m.Propose(w.clock(n), e.Change)
	if err != nil {
		w.inSession(n, m, int64(10*time.Millisecond), func() { finish(process.EffectResult{Err: err}) })
		return
	}
	m.changes[id] = func() { finish(process.EffectResult{Position: n.disk.position()}) }
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
