package middleman

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// ackBatches collects acknowledgements until messages are taken, so that each coordinator gets one message.
type ackBatches struct {
	versions map[topology.Node][]causal.Version
	order    []topology.Node
	usual    int // how many the last batch had, at most maxAckRoom
	// sent are the newest that were sent to each coordinator since its link came up. A coordinator that has just
	// started reaches this shard before this shard reaches it: what was acknowledged in between is lost, and the
	// coordinator would miss it for as long as it waits until it sends a put again.
	sent map[topology.Node][]causal.Version
}

// maxHeldAcks bounds the acknowledgements to one coordinator that wait: what is not acknowledged is sent again.
const maxHeldAcks = 1 << 16

// maxAckRoom bounds the room for which a batch begins.
const maxAckRoom = 64

// maxSentAcks bounds the acknowledgements that are sent again to one coordinator.
const maxSentAcks = 256

func newAckBatches() ackBatches {
	return ackBatches{versions: map[topology.Node][]causal.Version{}, sent: map[topology.Node][]causal.Version{}}
}

func (a *ackBatches) add(coordinator topology.Node, v causal.Version) {
	versions := a.versions[coordinator]
	if versions == nil {
		a.order = append(a.order, coordinator)
		versions = make([]causal.Version, 0, max(1, a.usual))
	}
	if len(versions) < maxHeldAcks {
		a.versions[coordinator] = append(versions, v)
	}
}

// flush passes each coordinator's batch to send, in the order of their first acknowledgements, and empties a.
func (a *ackBatches) flush(send func(coordinator topology.Node, versions []causal.Version)) {
	for _, coordinator := range a.order {
		a.usual = min(len(a.versions[coordinator]), maxAckRoom)
		send(coordinator, a.versions[coordinator])
		a.noteSent(coordinator, a.versions[coordinator])
		delete(a.versions, coordinator)
	}
	a.order = a.order[:0]
}

func (a *ackBatches) noteSent(coordinator topology.Node, versions []causal.Version) {
	sent := append(a.sent[coordinator], versions[max(0, len(versions)-maxSentAcks):]...)
	if len(sent) > 2*maxSentAcks {
		sent = append(sent[:0], sent[len(sent)-maxSentAcks:]...)
	}
	a.sent[coordinator] = sent
}

// addAgain adds the newest acknowledgements to a coordinator again: its link has come up.
func (a *ackBatches) addAgain(coordinator topology.Node) {
	sent := a.sent[coordinator]
	delete(a.sent, coordinator)
	for _, v := range sent[max(0, len(sent)-maxSentAcks):] {
		a.add(coordinator, v)
	}
}
