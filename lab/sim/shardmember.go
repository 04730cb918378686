package sim

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/process"
)

// startShardMember starts the process of a member of a shard from its log and its storage.
func (w *World) startShardMember(n *node) {
	image := w.readLog(n)
	n.m = process.NewMember(process.MemberConfig{Shard: w.shardConfig(n), NewID: func() uint64 {
		w.starts++
		return w.starts
	}, Storage: member.StorageConfig{Self: n.id, Topology: n.topo, Volume: n.disk.volume, Damaged: n.disk.isDamaged,
		Found: n.disk.marker,
		Empty: n.disk.isEmpty(), RetainBytes: w.settings.RetainBytes, Broken: w.settings.Broken,
		Tune: func(o *group.Options) {
			if w.settings.MaxFrameBytes > 0 {
				o.MaxFrameBytes = w.settings.MaxFrameBytes
			}
		}}}, image, w.clock(n))
	n.writer, n.writerWaits = process.NewLogWriter(n.group(), n.disk.isDamaged, w.settings.Broken), 0
	n.session, n.announced = 0, causal.Leadership{}
	w.flush(n)
}

// driveMember carries out what the process of a member of a shard asks for.
func (w *World) driveMember(n *node, m *process.Member) {
	w.drive(n, m)
	w.send(n) // what was proposed
	if s := m.Session(); s != n.session {
		if n.session = s; s != 0 {
			w.noteSession(n)
		}
	}
	w.flushGroup(n, m)
	switch {
	case n.m != m: // it was reset
	case m.Failure() != nil:
		w.members.Failures++
		w.crash(n)
		w.schedule(int64(10*time.Millisecond), func() { w.restart(n) })
	case m.Leadership() != n.announced:
		n.announced = m.Leadership()
		m.Announced(w.clock(n), n.announced)
		w.flush(n)
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
