package node

import "github.com/causalstore/causalstore/sidecar/causal/process"

// serviceShown is what was logged last of what a shard serves.
type serviceShown struct {
	of         *process.Shard
	generation uint64
	lost       bool
}

func isLost(p *process.Shard) bool {
	lost, _ := p.Machine().DataLost()
	return lost
}

// showService logs what the shard serves when that has changed. It is called with the lock held.
func (mm *shardDriver[M]) showService(p *process.Shard) {
	if p == nil || mm.shown.of == p && mm.shown.generation == p.Generation() || !p.IsSettled() {
		return
	}
	isNew, wasLost := mm.shown.of != p, mm.shown.lost
	mm.shown = serviceShown{p, p.Generation(), isLost(p)}
	if isNew { // whoever has started it shows that
		return
	}
	topo := p.Machine().View()
	lost, known := p.Machine().DataLost()
	withdrawal, withdrawn := p.Machine().Withdrawn()
	progress, _ := p.Machine().Backfill()
	mm.notices = append(mm.notices, func() {
		switch {
		case withdrawal.OldCopy:
			mm.logger.Error(
				"the storage is an older copy of what the shard had: it is kept, and nothing is answered until other "+
					"rings have said that they have all data, from which the shard then gets them", "known_by",
				known)
			return
		case withdrawn && withdrawal.Excluded:
			mm.logger.Warn(
				"the data center was excluded: the shard keeps its data and answers nothing until other rings have " +
					"said that they have all of them")
			return
		case lost:
			mm.logger.Error("the storage has lost its data: reads are refused, other rings serve them", "known_by",
				known)
		case wasLost:
			mm.logger.Info("the storage has its data again, from other rings", "keys", progress.Keys, "bytes",
				progress.Bytes)
		}
		if topo == nil {
			mm.logger.Info("not serving while slots move")
			return
		}
		ring := topo.RingOf(mm.id.DC)
		mm.logger.Info("serving under a slot map", "ring", topo.Rings[ring].Name, "map", topo.Map(ring), "middlemen",
			len(topo.RingMiddlemen(ring)), "caches", topo.DCs[mm.id.DC].Caches)
	})
}
