package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/topology"
)

var (
	signedVectorsFamily = &family{subsystem: "coordinator"}

	signedVectorsRelayed = signedVectorsFamily.counter("relayed_vectors_total",
		"Stability vectors of a data center that its first coordinator has signed and this one has taken from that "+
			"of another data center.", "of_data_center")
	signedVectorsRefused = signedVectorsFamily.counter("vectors_refused_total",
		"Stability vectors that are said to be of a data center and that its first coordinator has not signed, or is "+
			"not trusted to sign.", "of_data_center")
)

// SignedVectors collects what the first coordinator of a data center counts of signed vectors. refused is nil without
// certificates.
func SignedVectors(t *topology.Topology, c *node.Coordinator, refused func(topology.DC) uint64) prometheus.Collector {
	return collector{signedVectorsFamily, func(emit emitFunc) {
		if c.ID() != t.Leader(c.ID().DC) {
			return
		}
		relayed := make([]uint64, len(t.DCs))
		c.Inspect(func(m *coordinator.Coordinator) {
			for dc := range relayed {
				relayed[dc] = m.Relayed(topology.DC(dc))
			}
		})
		for dc, n := range relayed {
			emit(signedVectorsRelayed, float64(n), t.DCs[dc].Name)
			if refused != nil {
				emit(signedVectorsRefused, float64(refused(topology.DC(dc))), t.DCs[dc].Name)
			}
		}
	}}
}
