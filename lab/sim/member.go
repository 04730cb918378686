package sim

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/causal/member"
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
		Register:     n.id.Member != 0,
		CollectBytes: 1},
		image, w.clock(n))
	n.m = m
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

// readLog returns what the log of a member holds. An empty one gets an id.
func (w *World) readLog(n *node) *group.Image {
	d := n.disk
	if d.volume == 0 {
		w.volumes++
		d.volume = w.volumes
	}
	image := &group.Image{}
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
	cfg.Signer, cfg.Types = signer{n.id.DC}, w.types
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

// appendLog truncates a member's log and appends to it, one group of entries at a time.
func (w *World) appendLog(n *node, m groupMember) {
	d := n.disk
	w.entries = m.Writes(w.entries[:0])
	d.unsynced = appendEncoded(d.unsynced, w.entries)
	if t := m.TruncateBefore(); t > d.firstIndex {
		drop := min(int(t-d.firstIndex), len(d.log))
		d.log = append([][]byte(nil), d.log[drop:]...)
		d.firstIndex += uint64(drop)
	}
	w.syncLog(n)
}

func (w *World) syncLog(n *node) {
	d := n.disk
	if d.syncing || len(d.unsynced) == 0 {
		return
	}
	d.syncing = true
	count, inst := len(d.unsynced), n.instance
	w.schedule(w.diskDelay(n, 3*time.Millisecond), func() {
		if n.instance != inst || n.m == nil {
			return
		}
		d.log = append(d.log, d.unsynced[:count]...)
		d.unsynced = append([][]byte(nil), d.unsynced[count:]...)
		d.syncing = false
		n.group().Appended(w.clock(n), d.firstIndex+uint64(len(d.log))-1)
		w.flush(n)
	})
}
