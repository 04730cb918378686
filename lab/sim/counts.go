package sim

import (
	"fmt"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// counter is a machine that can compare what it has counted with what there is.
type counter interface{ CheckCounts() causal.Counts }

// rester is a machine that knows what ends with its cause.
type rester interface{ CheckRest() causal.Counts }

// checkRest returns what machines have kept of the past when nothing has been under way for a while: a wait that nobody
// ends, something that is sent again and again, a count of what is gone.
func (w *World) checkRest() (found []string) {
	if w.settings.Broken.Any() {
		return nil
	}
	for _, n := range w.order {
		var machines []rester
		if m, ok := n.m.(rester); ok {
			machines = append(machines, m)
		}
		for _, m := range machines {
			for _, left := range m.CheckRest() {
				found = append(found, fmt.Sprintf("rest: %s: %s", n.id, left))
			}
		}
	}
	return found
}

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
