package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/causalstore/causalstore/topology"
)

// Exclusions of data centers (PROTOCOL EXC) are a change of the topology. They never fall,
// so the data directory remembers them.

func (d *Deployment) exclusionsFile() string { return filepath.Join(d.o.DataDir, "exclusions.json") }

// loadExclusions returns t with the exclusions of earlier runs on the data directory.
func (d *Deployment) loadExclusions(t *topology.Topology) (*topology.Topology, error) {
	b, err := os.ReadFile(d.exclusionsFile())
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the exclusions of data centers: %w", err)
	}
	byName := map[string]int{}
	if err := json.Unmarshal(b, &byName); err != nil {
		return nil, fmt.Errorf("read the exclusions of data centers: %s: %w", d.exclusionsFile(), err)
	}
	dcs := slices.Clone(t.DCs)
	for i := range dcs {
		dcs[i].Exclusions = max(dcs[i].Exclusions, byName[dcs[i].Name])
	}
	return topology.New(t.Epoch, dcs, t.Rings, t.RTT)
}

// exclude tells all parts that a data center was excluded once more.
func (d *Deployment) exclude(f Fault) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.current.Load()
	dc, ok := before.ByName(f.DC)
	if !ok {
		return fmt.Errorf("unknown data center %q", f.DC)
	}
	dcs := slices.Clone(before.DCs)
	dcs[dc].Exclusions++
	t, err := topology.New(before.Epoch+1, dcs, before.Rings, before.RTT)
	if err != nil {
		return err
	}
	byName := map[string]int{}
	for i := range dcs {
		byName[dcs[i].Name] = dcs[i].Exclusions
	}
	b, err := json.Marshal(byName)
	if err != nil {
		return err
	}
	if err := os.WriteFile(d.exclusionsFile(), b, 0o600); err != nil {
		return fmt.Errorf("write the exclusions of data centers: %w", err)
	}
	d.current.Store(t)
	for _, f := range d.fronts {
		f.sidecar.SetTopology(t)
	}
	for _, p := range d.parts {
		switch {
		case p.coordinator != nil:
			p.coordinator.SetTopology(t)
		case p.cache != nil:
			p.cache.SetTopology(t)
		case p.shard != nil:
			err = errors.Join(err, p.shard.SetTopology(t))
		}
	}
	return err
}
