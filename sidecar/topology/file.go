package topology

import (
	_ "embed"
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

// File is a topology as it is written down, in YAML or JSON.
type File struct {
	// Epoch grows with every change; parts refuse a lower one.
	Epoch       uint64           `json:"epoch"`
	DataCenters []FileDataCenter `json:"dataCenters"`
	Rings       []FileRing       `json:"rings"`
	// RoundTripMs gives the round-trip time of pairs of DCs in milliseconds, each pair once, in any direction. It is the
	// first guess of the probes, and the delay where the WAN is emulated. Pairs that are left out are 0.
	RoundTripMs map[string]map[string]float64 `json:"roundTripMs,omitempty"`
}

// FileDataCenter is one data centre. Counts that are left out are 1.
type FileDataCenter struct {
	Name         string `json:"name"`
	Coordinators *int   `json:"coordinators,omitempty"`
	Caches       *int   `json:"caches,omitempty"`
	Shards       *int   `json:"shards,omitempty"`
	// CoordinatorsBefore is the greater number of coordinators before the change that is under way. It is to stay until those that
	// leave have left; left out, there is no change.
	CoordinatorsBefore *int `json:"coordinatorsBefore,omitempty"`
	// ShardsBefore is the number of shards before the change that is under way. It is to stay until every middleman of the
	// ring has gone over to the new number; left out, there is no change.
	ShardsBefore *int `json:"shardsBefore,omitempty"`
}

// FileRing is one ring: data centres that hold one full copy of the data together.
type FileRing struct {
	Name        string   `json:"name"`
	DataCenters []string `json:"dataCenters"`
}

//go:embed default.yaml
var defaultFile []byte

// Default returns the topology of eight regions in three rings that `causalstore local` starts with.
func Default() *Topology {
	t, err := Parse(defaultFile)
	if err != nil {
		panic(err) // it is part of the program
	}
	return t
}

// Load reads a topology file.
func Load(path string) (*Topology, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read topology: %w", err)
	}
	t, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("topology %s: %w", path, err)
	}
	return t, nil
}

// Parse reads a topology; unknown fields are refused, since they are most likely misspelled.
func Parse(b []byte) (*Topology, error) {
	var f File
	if err := yaml.UnmarshalStrict(b, &f); err != nil {
		return nil, err
	}
	return f.Topology()
}

// Topology checks the file and builds what it describes.
func (f *File) Topology() (*Topology, error) {
	index := make(map[string]DC, len(f.DataCenters))
	dcs := make([]DataCenter, len(f.DataCenters))
	for i, d := range f.DataCenters {
		index[d.Name] = DC(i)
		dcs[i] = DataCenter{Name: d.Name, Coordinators: orOne(d.Coordinators), Caches: orOne(d.Caches), Shards: orOne(d.Shards)}
		if d.CoordinatorsBefore != nil {
			if dcs[i].CoordinatorsBefore = *d.CoordinatorsBefore; dcs[i].CoordinatorsBefore <= dcs[i].Coordinators {
				return nil, fmt.Errorf("data centre %q: coordinatorsBefore is %d; it must be greater than coordinators, or left out", d.Name, *d.CoordinatorsBefore)
			}
		}
		if d.ShardsBefore != nil {
			if dcs[i].ShardsBefore = *d.ShardsBefore; dcs[i].ShardsBefore < 1 {
				return nil, fmt.Errorf("data centre %q: shardsBefore is %d; it must be at least 1, or left out", d.Name, *d.ShardsBefore)
			}
		}
	}
	rings := make([]Ring, len(f.Rings))
	for i, r := range f.Rings {
		rings[i].Name = r.Name
		for _, name := range r.DataCenters {
			dc, ok := index[name]
			if !ok {
				return nil, fmt.Errorf("ring %q names data centre %q, which dataCenters does not list", r.Name, name)
			}
			rings[i].DCs = append(rings[i].DCs, dc)
		}
	}
	rtt := make([][]float64, len(dcs))
	for i := range rtt {
		rtt[i] = make([]float64, len(dcs))
	}
	for a, row := range f.RoundTripMs {
		for b, ms := range row {
			i, okA := index[a]
			j, okB := index[b]
			if !okA || !okB {
				return nil, fmt.Errorf("roundTripMs gives %q to %q, and dataCenters does not list both", a, b)
			}
			if ms < 0 || i == j {
				return nil, fmt.Errorf("roundTripMs gives %g from %q to %q; it must be at least 0, between two data centres", ms, a, b)
			}
			if old := rtt[i][j]; old != 0 && old != ms {
				return nil, fmt.Errorf("roundTripMs gives %q to %q twice, as %g and %g", a, b, old, ms)
			}
			rtt[i][j], rtt[j][i] = ms, ms
		}
	}
	return New(f.Epoch, dcs, rings, rtt)
}

func orOne(n *int) int {
	if n == nil {
		return 1
	}
	return *n
}
