package sim

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/process"
	"github.com/causalstore/causalstore/topology"
)

// coordinator returns the machine of a coordinator that serves; nil if the node is down, does not serve, or is no
// coordinator.
func (n *node) coordinator() *coordinator.Coordinator {
	if m, ok := n.m.(*member.Coordinator); ok {
		return m.Serving()
	}
	return nil
}

// startMember starts the process of a coordinator from its log.
func (w *World) startMember(n *node) {
	d := n.disk
	image := w.readLog(n)
	m := member.New(member.Config{Coordinator: w.coordinatorConfig(n), Member: max(n.id.Member, 1), Volume: d.volume,
		Damaged: d.isDamaged, Register: n.id.Member != 0,
		CollectBytes: 1},
		image, w.clock(n))
	n.m, n.writer, n.writerWaits = m, process.NewLogWriter(m, d.isDamaged, w.settings.Broken), 0
	if n.id.Member != 0 {
		w.flush(n)
		return
	}
	err := m.StartAlone(w.clock(n), func(entries []group.Entry) error {
		d.log = appendEncoded(d.log, entries)
		return nil
	})
	if err != nil {
		panic(err)
	}
}

// readLog returns what the log of a member holds. An empty one gets an id, and one that is damaged is not read.
func (w *World) readLog(n *node) *group.Image {
	d := n.disk
	if d.volume == 0 {
		w.volumes++
		d.volume = w.volumes
	}
	image := &group.Image{}
	if d.isDamaged {
		return image
	}
	for i, b := range d.log {
		e, err := group.ParseEntry(d.firstIndex+uint64(i), b)
		if err == nil {
			err = image.Apply(&e)
		}
		if err != nil {
			panic(err) // the disk loses nothing, and the machine removes nothing that it needs
		}
	}
	if err := image.Check(); err != nil {
		panic(err)
	}
	return image
}

func (w *World) coordinatorConfig(n *node) coordinator.Config {
	cfg := coordinator.DefaultConfig(n.topo, n.id.Group())
	cfg.Home = w.settings.Level == causal.Local
	cfg.Broken, cfg.Comparison.DepsByID = w.settings.Broken, w.settings.DepsByID
	cfg.Signer, cfg.Types = signer{n.id.DC}, w.typesOf(n)
	if !w.settings.ProductionPace {
		cfg.PublishEvery, cfg.IdleEvery = 20*time.Millisecond, 100*time.Millisecond
	}
	cfg.ExclusionDelay = w.settings.ExclusionDelay
	if w.settings.QuietAfter > 0 {
		cfg.QuietAfter = w.settings.QuietAfter
	}
	if w.settings.MaxDeps > 0 {
		cfg.MaxDeps = w.settings.MaxDeps
	}
	if w.settings.MaxBufferBytes > 0 {
		cfg.MaxBytes = w.settings.MaxBufferBytes
	}
	return cfg
}

// appendEncoded appends the encodings of entries to dst: the machine uses the memory of what is durable again.
func appendEncoded(dst [][]byte, entries []group.Entry) [][]byte {
	for i := range entries {
		dst = append(dst, entries[i].AppendTo(nil))
	}
	return dst
}

// appendLog carries out what the LogWriter of a member asks for.
func (w *World) appendLog(n *node) {
	n.writer.Collect()
	if w.now < n.writerWaits {
		return
	}
	t, ok := n.writer.Next()
	switch {
	case !ok:
	case t.Kind == process.LogReset:
		w.resetMember(n)
	case t.Kind == process.LogSkip:
		w.reportLog(n, 1, process.LogResult{Appended: len(t.Entries)})
	case w.now < n.disk.logFullUntil:
		w.reportLog(n, w.diskDelay(n, time.Millisecond), process.LogResult{Problem: n.disk.logProblem})
	default:
		w.syncLog(n, &t)
	}
}

// reportLog tells the LogWriter of a member some time later what has become of a task.
func (w *World) reportLog(n *node, after int64, r process.LogResult) {
	inst := n.instance
	w.schedule(after, func() {
		if n.instance != inst || n.m == nil {
			return
		}
		d := n.disk
		d.log, d.unsynced = append(d.log, d.unsynced...), nil
		if wait := n.writer.Done(w.clock(n), r); wait > 0 {
			n.writerWaits = w.now + int64(wait)
			w.schedule(int64(wait), func() {
				if n.instance == inst && n.m != nil {
					w.flush(n)
				}
			})
		}
		w.flush(n)
	})
}

// syncLog truncates a member's log, appends some first entries of a task to it, and reports that some time later.
func (w *World) syncLog(n *node, t *process.LogTask) {
	d, count := n.disk, len(t.Entries)
	if count > 1 && !w.settings.NoRandomness && w.rng.IntN(4) == 0 { // as many as fit into one write
		count = 1 + w.rng.IntN(count)
	}
	if d.isDamaged { // the damaged part is removed with the oldest entries, and what follows looks whole
		d.log, d.firstIndex, d.isDamaged = nil, t.Entries[0].Index, false
	}
	d.truncateLog(t.TruncateBefore)
	d.unsynced = appendEncoded(nil, t.Entries[:count])
	w.reportLog(n, w.diskDelay(n, 3*time.Millisecond), process.LogResult{Appended: count, IsTruncated: true,
		IsNearlyFull: w.now < d.logNearlyFullUntil})
}

// truncateLog removes the entries before one.
func (d *disk) truncateLog(before uint64) {
	if before > d.firstIndex {
		drop := min(int(before-d.firstIndex), len(d.log))
		d.log = append([][]byte(nil), d.log[drop:]...)
		d.firstIndex += uint64(drop)
	}
}

// resetMember empties the log of a member that the others do without, and starts another one in its process.
func (w *World) resetMember(n *node) {
	w.members.Resets++
	n.instance++ // nothing that the old one has asked for reaches the new one
	n.disk.crash(w.rng, w.settings.NoRandomness)
	n.disk.loseLog()
	if n.id.Part == topology.Coordinator {
		w.startMember(n)
	} else {
		w.startShardMember(n)
	}
	w.scheduleTicks(n)
}
