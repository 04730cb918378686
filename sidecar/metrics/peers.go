package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/topology"
)

var (
	peerFamily = &family{subsystem: "peer"}

	peerState = peerFamily.gauge("state",
		"1 for the state in which the first coordinator of this data center finds another one, 0 for the other states.",
		"to_data_center", "state")
	peerLinks = peerFamily.gauge("links",
		"Links of the first coordinator of this data center to the parts of another one.", "to_data_center", "state")
	peerBytes = peerFamily.counter("bytes_total",
		"Bytes in frames on links of this coordinator with the parts of another data center.", "to_data_center",
		"direction")
)

// Peers collects what a coordinator of a data center reports of the others.
func Peers(t *topology.Topology, self topology.DC, peers func() []contract.Peer,
	stats func() transport.Stats) prometheus.Collector {
	return collector{peerFamily, func(emit emitFunc) {
		for _, p := range peers() {
			for _, s := range contract.PeerStates {
				emit(peerState, float64(boolIndex(s == p.State)), p.DataCenter, string(s))
			}
			emit(peerLinks, float64(p.LinksUp), p.DataCenter, "up")
			emit(peerLinks, float64(p.Links-p.LinksUp), p.DataCenter, "down")
		}
		for _, n := range stats().Traffic {
			if n.DC != self && int(n.DC) < len(t.DCs) {
				emit(peerBytes, float64(n.Sent), t.DCs[n.DC].Name, "sent")
				emit(peerBytes, float64(n.Received), t.DCs[n.DC].Name, "received")
			}
		}
	}}
}
