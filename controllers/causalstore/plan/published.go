package plan

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/topology"
)

// PublishedTopology is the topology that the parts of a store are configured with.
type PublishedTopology struct {
	Topology *topology.Topology
	// Middlemen are the addresses of the shards, by data center.
	Middlemen map[string][]string
}

// ReadPublishedTopology returns the newest topology in the ConfigMaps of a store, which may differ while the store
// changes. It returns nil if none has a topology.
func ReadPublishedTopology(maps []corev1.ConfigMap) (*PublishedTopology, error) {
	var newest *PublishedTopology
	for _, m := range maps {
		text, ok := m.Data[PartsFile]
		if !ok {
			continue // the record
		}
		var c contract.Config
		if err := yaml.Unmarshal([]byte(text), &c); err != nil {
			return nil, fmt.Errorf("read ConfigMap %s: %w", m.Name, err)
		}
		if c.Topology == nil {
			c.Topology = &topology.File{} // checking it reports what is missing
		}
		t, err := c.Topology.Topology()
		if err != nil {
			return nil, fmt.Errorf("read ConfigMap %s: %w", m.Name, err)
		}
		if newest != nil && newest.Topology.Epoch >= t.Epoch {
			continue
		}
		newest = &PublishedTopology{Topology: t, Middlemen: map[string][]string{}}
		for dc, a := range c.Addresses {
			newest.Middlemen[dc] = a.Middlemen
		}
	}
	return newest, nil
}
