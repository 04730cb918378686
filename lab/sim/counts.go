package sim

import (
	"fmt"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// counter is a machine that can compare what it has counted with what there is.
type counter interface{ CheckCounts() causal.Counts }

// checkCounts returns what machines have counted wrongly: a bound that goes by it would let in nothing any more, or
// anything. With broken rules a machine may count wrongly, and what these do is to be seen by what clients see.
func (w *World) checkCounts() (found []string) {
	if w.settings.Broken.Any() {
		return nil
	}
	for _, n := range w.order {
		for _, c := range countersOf(n) {
			for _, difference := range c.CheckCounts() {
				found = append(found, fmt.Sprintf("counts: %s: %s", n.id, difference))
			}
		}
	}
	return found
}

func countersOf(n *node) (all []counter) {
	if c, ok := n.m.(counter); ok {
		all = append(all, c)
	}
	if n.isServing() {
		all = append(all, n.process().Serving())
	}
	return all
}
