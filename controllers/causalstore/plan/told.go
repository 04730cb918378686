package plan

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// Told is what the parts of a store are told of the deployment.
type Told struct {
	Topology *topology.Topology
	// Middlemen are the addresses of the shards, by data centre.
	Middlemen map[string][]string
}

// ReadTold reads the newest of what the ConfigMaps of a store say: while it changes, they may differ. Nil if none says anything.
func ReadTold(maps []corev1.ConfigMap) (*Told, error) {
	var newest *Told
	for _, m := range maps {
		text, ok := m.Data[partsFile]
		if !ok {
			continue // the record
		}
		var c processConfig
		if err := yaml.Unmarshal([]byte(text), &c); err != nil {
			return nil, fmt.Errorf("read ConfigMap %s: %w", m.Name, err)
		}
		t, err := c.Topology.Topology()
		if err != nil {
			return nil, fmt.Errorf("read ConfigMap %s: %w", m.Name, err)
		}
		if newest != nil && newest.Topology.Epoch >= t.Epoch {
			continue
		}
		newest = &Told{Topology: t, Middlemen: map[string][]string{}}
		for dc, a := range c.Addresses {
			newest.Middlemen[dc] = a.Middlemen
		}
	}
	return newest, nil
}
