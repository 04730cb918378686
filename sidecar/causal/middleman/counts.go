package middleman

import (
	"fmt"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// CheckCounts compares what is counted with what there is: what bounds go by, and what each put waits for.
func (m *Middleman) CheckCounts() (counts causal.Counts) {
	staged := map[topology.Origin]int{}
	for _, p := range m.staged.byKey {
		for ; p != nil; p = p.next {
			staged[p.record.Version.Origin] += p.stagedBytes
		}
	}
	counts.Compare("origins with staged puts", len(m.staged.bytes), len(staged))
	for o, bytes := range staged {
		counts.Compare(fmt.Sprintf("bytes of staged puts of origin %d", o), m.staged.bytes[o], bytes)
	}
	questions := 0
	for _, p := range m.staged.questioned {
		questions += len(p.questions)
	}
	counts.Compare("questions that wait", m.staged.parked.Held(), questions)
	watchers := 0
	for _, ws := range m.deps.watchers {
		watchers += len(ws)
	}
	counts.Compare("watchers", m.deps.ofSidecars.Held()+m.deps.ofParts.Held(), watchers)
	retained := 0
	for _, l := range m.adoption.retained.byOrigin {
		for i := range l.puts {
			retained += l.puts[i].size()
		}
	}
	counts.Compare("bytes of puts that are retained for adopters", m.adoption.retained.bytes, retained)
	stored := 0
	for _, vs := range m.oldVersions.keys {
		if vs.stored.Version.Written() {
			stored += vs.stored.Value.Size() + oldVersionOverhead
		}
	}
	counts.Compare("bytes of records that are in storage", m.oldVersions.storedBytes, stored)
	m.checkWaits(&counts)
	return counts
}

// checkWaits compares how much each put waits for with what will release it.
func (m *Middleman) checkWaits(counts *causal.Counts) {
	unprocessed, unclean, unconfirmed := map[*put]int{}, map[*put]int{}, map[*put]int{}
	for _, d := range m.deps.awaited {
		for _, p := range d.puts {
			unclean[p]++
			if !d.processed {
				unprocessed[p]++
			}
		}
	}
	for _, f := range m.frontiers.ordered {
		for _, w := range f.awaitReceived {
			unprocessed[w.put]++
		}
		for _, w := range f.awaitClean {
			unclean[w.put]++
		}
	}
	invalidating := map[uint64]int{}
	for _, s := range m.streams.ordered {
		for _, w := range s.pending {
			unconfirmed[w.put]++
			invalidating[w.hash]++
		}
	}
	for _, p := range m.copies.awaitForeignLeases {
		unconfirmed[p]++
	}
	counts.Compare("keys with invalidations", len(m.copies.invalidating), len(invalidating))
	for hash, n := range invalidating {
		counts.Compare(fmt.Sprintf("invalidations of %x", hash), m.copies.invalidating[hash], n)
	}
	pending, processed, complete, pasts := 0, 0, 0, 0
	for v, w := range m.writes.byVersion {
		processed += oneIf(w.processed)
		complete += oneIf(w.complete)
		pasts += oneIf(w.past != 0)
		p := w.put
		if p == nil {
			continue
		}
		pending++
		counts.Compare(fmt.Sprintf("what %s waits for to be processed", v), p.unprocessedDeps,
			unprocessed[p]+oneIf(p.awaitsPastReceived))
		counts.Compare(fmt.Sprintf("what %s waits for to be clean", v), p.uncleanDeps,
			unclean[p]+oneIf(p.awaitsPastClean))
		counts.Compare(fmt.Sprintf("caches that %s waits for", v), p.unconfirmedWaits, unconfirmed[p])
	}
	counts.Compare("pending puts", m.writes.pending, pending)
	counts.Compare("processed writes", m.writes.processed, processed)
	counts.Compare("complete writes", m.writes.complete, complete)
	counts.Compare("pasts of writes", m.writes.pasts, pasts)
}

func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}

// CheckRest returns what is left of the past while nothing is under way.
func (m *Middleman) CheckRest() (left causal.Counts) {
	left.CheckEmpty("pending puts", m.writes.pending)
	left.CheckEmpty("keys with staged puts", len(m.staged.byKey))
	left.CheckEmpty("puts with questions", len(m.staged.questioned))
	left.CheckEmpty("awaited dependencies", len(m.deps.awaited))
	left.CheckEmpty("unresolved dependencies", len(m.deps.unresolved))
	left.CheckEmpty("acknowledgements", len(m.acks.order))
	left.CheckEmpty("keys with invalidations", len(m.copies.invalidating))
	left.CheckEmpty("puts that wait for leases of others", len(m.copies.awaitForeignLeases))
	left.CheckEmpty("keys with tasks", len(m.tasks.byKey))
	left.CheckEmpty("requests to storage", len(m.tasks.requests))
	left.CheckEmpty("requests to storage that are repeated", len(m.tasks.retries))
	left.CheckEmpty("bytes that are about to be replaced", m.tasks.replacedBytes)
	left.CheckEmpty("bytes of scans", m.scans.Held())
	left.CheckEmpty("bytes of puts that are retained for adopters", m.adoption.retained.bytes)
	for o, l := range m.lanes.byOrigin {
		left.CheckEmpty(fmt.Sprintf("writes of origin %d that are not clean", o), len(l.unclean))
	}
	for _, f := range m.frontiers.ordered {
		left.CheckEmpty(fmt.Sprintf("waits for %v to be received", f.key), len(f.awaitReceived))
		left.CheckEmpty(fmt.Sprintf("waits for %v to be clean", f.key), len(f.awaitClean))
	}
	for _, s := range m.streams.ordered {
		left.CheckEmpty(fmt.Sprintf("invalidations at %s", s.cache), len(s.pending))
	}
	return left
}
