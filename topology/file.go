package topology

import (
	_ "embed"
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

// File is a topology in its written form, YAML or JSON.
type File struct {
	// Epoch increases with every change; parts refuse lower epochs.
	Epoch       uint64           `json:"epoch"`
	DataCenters []FileDataCenter `json:"dataCenters"`
	Rings       []FileRing       `json:"rings"`
	// TieBreaker names a data center. Whoever excludes data centers must leave more than half of all rings, or half of
	// them with the ring of the tie-breaker, so that two sides that are cut off from each other cannot exclude each
	// other.
	TieBreaker string `json:"tieBreaker,omitempty"`
	// RoundTripMs is the round-trip time of pairs of DCs in milliseconds, each pair once, in either direction. It is
	// the initial estimate until latencies are measured, and the delay of an emulated WAN. Omitted pairs are 0.
	RoundTripMs map[string]map[string]float64 `json:"roundTripMs,omitempty"`
}

// FileDataCenter is one data center. Omitted counts are 1.
type FileDataCenter struct {
	Name         string `json:"name"`
	Coordinators *int   `json:"coordinators,omitempty"`
	// CoordinatorsBefore is the number of coordinators before a scale-down. It must stay until the surplus coordinators
	// have drained. Omitted, there is no scale-down.
	CoordinatorsBefore *int `json:"coordinatorsBefore,omitempty"`
	// CoordinatorMembers is the number of members, 1 to 3, that hold the log of each coordinator on disks of their own.
	CoordinatorMembers *int `json:"coordinatorMembers,omitempty"`
	// CoordinatorMembersBefore is the number of members before a reduction. It must stay until the surplus members have
	// left the groups. Omitted, there is no reduction.
	CoordinatorMembersBefore *int `json:"coordinatorMembersBefore,omitempty"`
	Caches                   *int `json:"caches,omitempty"`
	Shards                   *int `json:"shards,omitempty"`
	// ShardMembers is the number of members, 1 to 3, that hold the storage of each shard, each with a log and a storage
	// of its own.
	ShardMembers *int `json:"shardMembers,omitempty"`
	// ShardMembersBefore is to ShardMembers what CoordinatorMembersBefore is to CoordinatorMembers.
	ShardMembersBefore *int `json:"shardMembersBefore,omitempty"`
	// ShardsBefore is the number of shards before resharding. It must stay until every middleman of the ring has
	// switched to the new number. Omitted, there is no resharding.
	ShardsBefore *int `json:"shardsBefore,omitempty"`
	// Exclusions is how often the data center was excluded: given up for now, because it is lost. The others then
	// complete writes without its shards, and these begin again with nothing when they are back. To exclude it once
	// more, raise the number; it never falls.
	Exclusions *int `json:"exclusions,omitempty"`
	// KeepsData is the number of the exclusion that takes nothing from the shards of the data center: they go on with
	// what they have, because the other rings were excluded, too, and nobody has all data. Set it to exclusions, in the
	// data centers of one ring only.
	KeepsData *int `json:"keepsData,omitempty"`
	// Returned is the number of the exclusion from which the data center is back: its shards serve. Set it to
	// exclusions before another data center is excluded, which leaves too few rings otherwise.
	Returned *int `json:"returned,omitempty"`
	// ForceExclusion is the number of the exclusion that goes against the rule of TieBreaker, because a person knows
	// that the others are down and exclude nobody.
	ForceExclusion *int `json:"forceExclusion,omitempty"`
	// Latitude, -90 to 90, and Longitude, -180 to 180, in degrees, are where maps show the data center. Set both or
	// neither.
	Latitude  *float64 `json:"latitude,omitempty"`
	Longitude *float64 `json:"longitude,omitempty"`
}

// place returns the coordinates of the data center, or nil.
func (d *FileDataCenter) place() (*Place, error) {
	switch {
	case d.Latitude == nil && d.Longitude == nil:
		return nil, nil
	case d.Latitude == nil || d.Longitude == nil:
		return nil, fmt.Errorf("data center %q: set both latitude and longitude, or neither", d.Name)
	case !(*d.Latitude >= -90 && *d.Latitude <= 90) || !(*d.Longitude >= -180 && *d.Longitude <= 180):
		return nil, fmt.Errorf("data center %q: latitude %g, longitude %g; set -90 to 90 and -180 to 180 degrees",
			d.Name, *d.Latitude, *d.Longitude)
	}
	return &Place{*d.Latitude, *d.Longitude}, nil
}

// Counts returns the data center with the counts that are left out filled in, but without its ring.
func (d *FileDataCenter) Counts() DataCenter {
	return DataCenter{Name: d.Name, Coordinators: countOr(d.Coordinators, 1),
		CoordinatorsBefore:       countOr(d.CoordinatorsBefore, 0),
		CoordinatorMembers:       countOr(d.CoordinatorMembers, 1),
		CoordinatorMembersBefore: countOr(d.CoordinatorMembersBefore, 0),
		Caches:                   countOr(d.Caches, 1), Shards: countOr(d.Shards, 1),
		ShardMembers: countOr(d.ShardMembers, 1), ShardMembersBefore: countOr(d.ShardMembersBefore, 0),
		ShardsBefore: countOr(d.ShardsBefore, 0), Exclusions: countOr(d.Exclusions, 0),
		KeepsData: countOr(d.KeepsData, 0), Returned: countOr(d.Returned, 0),
		ForceExclusion: countOr(d.ForceExclusion, 0)}
}

// FileRing is one ring: data centers that together hold one full copy of the data.
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
		panic(err) // the file is embedded, and a test parses it
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

// Parse parses a topology. It refuses unknown fields, which are most likely misspelled.
func Parse(b []byte) (*Topology, error) {
	var f File
	if err := yaml.UnmarshalStrict(b, &f); err != nil {
		return nil, err
	}
	return f.Topology()
}

// Topology validates the file and returns the topology that it describes.
func (f *File) Topology() (*Topology, error) {
	index := make(map[string]DC, len(f.DataCenters))
	dcs := make([]DataCenter, len(f.DataCenters))
	for i, d := range f.DataCenters {
		index[d.Name] = DC(i)
		dcs[i] = d.Counts()
		var err error
		if dcs[i].Place, err = d.place(); err != nil {
			return nil, err
		}
		for _, b := range []struct {
			name  string
			count *int
		}{{"shardsBefore", d.ShardsBefore}, {"coordinatorsBefore", d.CoordinatorsBefore},
			{"coordinatorMembers", d.CoordinatorMembers},
			{"coordinatorMembersBefore", d.CoordinatorMembersBefore}, {"shardMembers", d.ShardMembers},
			{"shardMembersBefore", d.ShardMembersBefore}} {
			if b.count != nil && *b.count < 1 {
				return nil, fmt.Errorf("data center %q: %s is %d; set it to at least 1, or omit it", d.Name,
					b.name, *b.count)
			}
		}
	}
	rings := make([]Ring, len(f.Rings))
	for i, r := range f.Rings {
		rings[i].Name = r.Name
		for _, name := range r.DataCenters {
			dc, ok := index[name]
			if !ok {
				return nil, fmt.Errorf("ring %q names data center %q, which dataCenters does not list", r.Name, name)
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
				return nil, fmt.Errorf("roundTripMs names %q and %q, but dataCenters does not list both", a, b)
			}
			if ms < 0 || i == j {
				return nil,
					fmt.Errorf("roundTripMs is %g from %q to %q; set at least 0, between different data centers", ms, a,
						b)
			}
			if old := rtt[i][j]; old != 0 && old != ms {
				return nil, fmt.Errorf("roundTripMs declares %q to %q twice, as %g and %g; keep one", a, b, old, ms)
			}
			rtt[i][j], rtt[j][i] = ms, ms
		}
	}
	t, err := New(f.Epoch, dcs, rings, rtt)
	if err != nil {
		return nil, err
	}
	t.TieBreaker = f.TieBreaker
	return t, t.validateExclusions()
}

func countOr(n *int, missing int) int {
	if n == nil {
		return missing
	}
	return *n
}
