package bench

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/causalstore/causalstore/topology"
)

// regionMs is the round-trip time between two data centers of one region, where a topology puts two there: the upper
// bound that cloud providers state for the zones of a region.
const regionMs = 2

// paperTopology is the topology that those of the benchmark are derived from.
func paperTopology(path string) (*topology.Topology, error) {
	if path == "" {
		return topology.Default(), nil
	}
	return topology.Load(path)
}

// fileOf converts a topology to its file format.
func fileOf(t *topology.Topology) *topology.File {
	f := &topology.File{Epoch: t.Epoch, RoundTripMs: map[string]map[string]float64{}}
	for a, dc := range t.DCs {
		coordinators, caches, shards := dc.Coordinators, dc.Caches, dc.Shards
		f.DataCenters = append(f.DataCenters, topology.FileDataCenter{Name: dc.Name, Coordinators: &coordinators,
			Caches: &caches,
			Shards: &shards})
		row := map[string]float64{}
		for b := range t.DCs[:a] {
			row[t.DCs[b].Name] = t.RTT[a][b]
		}
		f.RoundTripMs[dc.Name] = row
	}
	for _, r := range t.Rings {
		ring := topology.FileRing{Name: r.Name}
		for _, dc := range r.DCs {
			ring.DataCenters = append(ring.DataCenters, t.DCs[dc].Name)
		}
		f.Rings = append(f.Rings, ring)
	}
	return f
}

// idealTopology makes every data center a ring of its own: full replication.
func idealTopology(t *topology.Topology) *topology.File {
	f := fileOf(t)
	f.Rings = nil
	for _, dc := range f.DataCenters {
		f.Rings = append(f.Rings, topology.FileRing{Name: dc.Name, DataCenters: []string{dc.Name}})
	}
	return f
}

// shrinkTopology keeps limit data centers, and at least one in each ring: the largest ring loses its last one,
// repeatedly.
func shrinkTopology(t *topology.Topology, limit int) *topology.File {
	f := fileOf(t)
	keep := map[string]bool{}
	left := len(f.DataCenters)
	for _, dc := range f.DataCenters {
		keep[dc.Name] = true
	}
	for left > limit {
		greatest, size := -1, 1
		for i, r := range f.Rings {
			if len(r.DataCenters) > size {
				greatest, size = i, len(r.DataCenters)
			}
		}
		if greatest < 0 {
			break // every ring needs a data center
		}
		r := &f.Rings[greatest]
		delete(keep, r.DataCenters[size-1])
		r.DataCenters = r.DataCenters[:size-1]
		left--
	}
	return restrict(f, keep)
}

// restrict removes the data centers that keep does not contain.
func restrict(f *topology.File, keep map[string]bool) *topology.File {
	g := &topology.File{Epoch: f.Epoch, Rings: f.Rings, RoundTripMs: map[string]map[string]float64{}}
	for _, dc := range f.DataCenters {
		if !keep[dc.Name] {
			continue
		}
		g.DataCenters = append(g.DataCenters, dc)
		row := map[string]float64{}
		for other, ms := range f.RoundTripMs[dc.Name] {
			if keep[other] {
				row[other] = ms
			}
		}
		g.RoundTripMs[dc.Name] = row
	}
	return g
}

// doubleTopology adds a second data center beside each, in the same ring.
func doubleTopology(t *topology.Topology) *topology.File {
	f := fileOf(t)
	second := func(name string) string { return name + "-b" }
	rtt := map[string]map[string]float64{}
	set := func(a, b string, ms float64) {
		if rtt[a] == nil {
			rtt[a] = map[string]float64{}
		}
		rtt[a][b] = ms
	}
	for a, row := range f.RoundTripMs {
		set(a, second(a), regionMs)
		for b, ms := range row {
			set(a, b, ms)
			set(a, second(b), ms)
			set(second(a), b, ms)
			set(second(a), second(b), ms)
		}
	}
	f.RoundTripMs = rtt
	for _, dc := range f.DataCenters[:len(f.DataCenters):len(f.DataCenters)] {
		dc.Name = second(dc.Name)
		f.DataCenters = append(f.DataCenters, dc)
	}
	for i := range f.Rings {
		for _, name := range f.Rings[i].DataCenters {
			f.Rings[i].DataCenters = append(f.Rings[i].DataCenters, second(name))
		}
	}
	return f
}

// writeTopology validates a topology and writes it to a file.
func writeTopology(path string, f *topology.File) error {
	if _, err := f.Topology(); err != nil {
		return fmt.Errorf("topology of %d data centers: %w", len(f.DataCenters), err)
	}
	b, err := json.MarshalIndent(f, "", "  ") // JSON is YAML
	if err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write topology: %w", err)
	}
	return nil
}
