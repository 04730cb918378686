package metrics

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/causalstore/causalstore/topology"
)

// A process registers its collectors with the labels of its part, and ends if a series has one of these as a label of
// its own.
func TestNoSeriesHasALabelOfItsPart(t *testing.T) {
	topo := topology.Default()
	for part, families := range map[topology.Part][]*family{
		topology.Sidecar: {sidecarFamily}, topology.Cache: {cacheFamily},
		topology.Coordinator: {coordinatorFamily, signedVectorsFamily, peerFamily},
		topology.Middleman:   {middlemanFamily, shardGroupFamily},
	} {
		for _, f := range families {
			if len(f.all) == 0 {
				t.Errorf("%s: a family without series", part)
			}
			r := prometheus.WrapRegistererWith(PartLabels(topo, topology.Node{Part: part, Member: 1}),
				prometheus.NewRegistry())
			if err := r.Register(collector{family: f, read: func(emitFunc) {}}); err != nil {
				t.Errorf("%s: %v", part, err)
			}
		}
	}
}
