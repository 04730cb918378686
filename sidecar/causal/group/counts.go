package group

import "github.com/causalstore/causalstore/sidecar/causal"

// CheckCounts compares what is counted with what there is.
func (g *Group) CheckCounts() (counts causal.Counts) {
	bytes := 0
	for i := range g.log.records {
		bytes += len(g.log.records[i].Data) + recordOverhead
	}
	for i := range g.log.spans {
		bytes += g.log.spans[i].bytes
	}
	counts.Compare("bytes of the log", g.log.bytes, bytes)
	if g.lead != nil {
		bytes = 0
		for pos := max(g.commit+1, g.log.firstHeld()); pos <= g.log.last(); pos++ {
			bytes += len(g.log.at(pos).Data)
		}
		counts.Compare("bytes that are not committed", g.lead.uncommitted, bytes)
	}
	return counts
}
