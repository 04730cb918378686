package middleman

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// ackBatches collects acknowledgements until messages are taken, so that each coordinator gets one message.
type ackBatches struct {
	versions map[topology.Node][]causal.Version
	order    []topology.Node
}

func newAckBatches() ackBatches { return ackBatches{versions: map[topology.Node][]causal.Version{}} }

func (a *ackBatches) add(coordinator topology.Node, v causal.Version) {
	if _, ok := a.versions[coordinator]; !ok {
		a.order = append(a.order, coordinator)
	}
	a.versions[coordinator] = append(a.versions[coordinator], v)
}

// flush passes each coordinator's batch to send, in the order of their first acknowledgements, and empties a.
func (a *ackBatches) flush(send func(coordinator topology.Node, versions []causal.Version)) {
	for _, coordinator := range a.order {
		send(coordinator, a.versions[coordinator])
		delete(a.versions, coordinator)
	}
	a.order = a.order[:0]
}
