package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/value"
	"github.com/causalstore/causalstore/topology"
)

// Parts of two versions: the earlier one knows registers only, the later one tallies, too. A value that comes to a part
// that cannot read it is a violation, whatever the part makes of it.

// formats draws deployments of the earlier version, whose coordinators and middlemen are upgraded one after the other.
func formats(p *runPlan, rng *rand.Rand) {
	of := [...]func(*runPlan, *rand.Rand){func(*runPlan, *rand.Rand) {}, crashHeavy, members, shards, homeRows}
	of[rng.IntN(len(of))](p, rng)
	p.set.Tallies, p.set.Older = true, true
	p.tallies = max(p.tallies, 1+rng.IntN(p.keys))
	p.length = max(p.length, ms(4000, 8000, rng))
}

// formatOfTallies is 0, as that of registers, in a deployment of one version.
func formatOfTallies(set *Settings) causal.Format {
	if set.Older {
		return 1
	}
	return 0
}

// typesOf returns the types that a node knows.
func (w *World) typesOf(n *node) *value.Types {
	if n.isOlder {
		return nil
	}
	return w.types
}

// upgradeNext stops a part of the earlier version, starts it with the later one, and schedules the next.
func (w *World) upgradeNext() {
	older := w.olderNodes()
	if len(older) == 0 {
		return
	}
	n := older[w.rng.IntN(len(older))]
	w.upgrade(n)
	w.schedule(w.rng.Int64N(int64(60*time.Millisecond)), func() { w.restart(n) })
	w.schedule(1+w.rng.Int64N(int64(1500*time.Millisecond))/int64(1+w.rng.IntN(4)), w.upgradeNext)
}

// upgradeRest upgrades what is of the earlier version.
func (w *World) upgradeRest() {
	for _, n := range w.olderNodes() {
		w.upgrade(n)
		w.restart(n)
	}
}

func (w *World) olderNodes() (all []*node) {
	for _, n := range w.order {
		if n.isOlder && !n.removed {
			all = append(all, n)
		}
	}
	return all
}

// upgrade stops a part, which starts with the later version the next time.
func (w *World) upgrade(n *node) {
	w.lookForUnreadable(n)
	w.crash(n)
	n.isOlder = false
}

// noteUnreadable notes that a part of the earlier version has got a value that it cannot read.
func (w *World) noteUnreadable(n *node, where string) {
	if len(w.unreadable) < 3 {
		w.unreadable = append(w.unreadable, fmt.Sprintf("unreadable value: %v, of an earlier version, has one %s", n.id,
			where))
	}
}

// canRead reports whether a part of the earlier version can handle a message. What comes from sidecars it refuses.
func (w *World) canRead(n *node, m *causal.Message) bool {
	switch {
	case m.From.Part == topology.Sidecar:
		return true
	case m.Kind == causal.KindFormatQuery:
		return w.settings.Seed%2 == 1 // in the other runs it does not even know of formats
	case m.Fields().Record.Value.Merges(), bodyMerges(m.Body()):
		w.noteUnreadable(n, "in a "+m.Kind.String())
		return false
	case m.Kind == causal.KindGroup && n.id.Part == topology.Coordinator && frameMerges(m):
		w.noteUnreadable(n, "in its log")
		return false
	}
	return true
}

// bodyMerges reports whether a body has a value that merges.
func bodyMerges(b causal.Body) (merges bool) {
	if b == nil {
		return false
	}
	b.Visit(causal.VisitorFunc(func(_ causal.BodyField, p any) {
		switch p := p.(type) {
		case *causal.Record:
			merges = merges || p.Value.Merges()
		case *[]causal.Moved:
			merges = merges || slices.ContainsFunc(*p, func(m causal.Moved) bool { return m.Record.Value.Merges() })
		}
	}))
	return merges
}

// frameMerges reports whether a message between members of a coordinator has records with values that merge.
func frameMerges(m *causal.Message) bool {
	msg, err := group.ParseMessage("", "", m.GroupMessage().Body)
	if err != nil {
		return false
	}
	f, ok := msg.Body.(*group.Frame)
	return ok && slices.ContainsFunc(f.Records, recordMerges)
}

func recordMerges(r group.Record) bool {
	logged, err := coordinator.ParseLogRecord(r.Data)
	return err == nil && slices.ContainsFunc(logged.Writes(), func(w coordinator.LoggedWrite) bool {
		return w.Record.Value.Merges()
	})
}

// lookForUnreadable looks for values in the storage of a part that it cannot read.
func (w *World) lookForUnreadable(n *node) {
	for _, r := range n.disk.records {
		if r.Value.Merges() {
			w.noteUnreadable(n, "in its storage")
			return
		}
	}
}
