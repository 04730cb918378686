package cost

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/topology"
)

// File is the input of `causalstore cost` and `causalstore plan`, in YAML or JSON. A topology file is also an input,
// with the same traffic in each data center.
type File struct {
	Epoch       uint64           `json:"epoch,omitempty"`
	DataCenters []FileDataCenter `json:"dataCenters"`
	// Rings are the current ones. The planner compares its proposals with them.
	Rings       []topology.FileRing           `json:"rings,omitempty"`
	RoundTripMs map[string]map[string]float64 `json:"roundTripMs,omitempty"`
	// PricePerGB is the price of a GB by source and destination; "*" stands for all destinations that are not named. If
	// only one direction has a price, the other has the same. DefaultPricePerGB is for the rest. It defaults to 1, so
	// that without prices costs are GB.
	PricePerGB        map[string]map[string]float64 `json:"pricePerGB,omitempty"`
	DefaultPricePerGB *float64                      `json:"defaultPricePerGB,omitempty"`
	// PutFraction is the share of puts among the operations; PutFractions are those for which costs are shown.
	PutFraction  *float64  `json:"putFraction,omitempty"`
	PutFractions []float64 `json:"putFractions,omitempty"`
	MissRatio    *float64  `json:"missRatio,omitempty"`
	// BoundReads is as in Scenario.
	BoundReads *float64  `json:"boundReads,omitempty"`
	Alphas     []float64 `json:"alphas,omitempty"`
	// MissOperations and CacheShare are as in Capex.
	MissOperations *float64 `json:"missOperations,omitempty"`
	CacheShare     *float64 `json:"cacheShare,omitempty"`
	// ValueBytes is the default of PutBytes and GetBytes.
	ValueBytes  *float64    `json:"valueBytes,omitempty"`
	PutBytes    *float64    `json:"putBytes,omitempty"`
	GetBytes    *float64    `json:"getBytes,omitempty"`
	Constraints Constraints `json:"constraints,omitzero"`
}

// FileDataCenter is one data center. Its traffic is either Users, a weight, or rates.
type FileDataCenter struct {
	topology.FileDataCenter
	// Zones is the number of availability zones; one of them is the front. Default 2.
	Zones           *int     `json:"zones,omitempty"`
	Users           *float64 `json:"users,omitempty"`
	ReadsPerSecond  *float64 `json:"readsPerSecond,omitempty"`
	WritesPerSecond *float64 `json:"writesPerSecond,omitempty"`
	// MissRatio overrides the one of the file.
	MissRatio *float64 `json:"missRatio,omitempty"`
}

// Constraints restrict the rings. Only the planner reads them.
type Constraints struct {
	Copies   Range `json:"copies,omitzero"`
	RingSize Range `json:"ringSize,omitzero"`
	// Together and Apart list groups of data centers that must share a ring, or of which no two may share one.
	Together [][]string `json:"together,omitempty"`
	Apart    [][]string `json:"apart,omitempty"`
	// RingsSurviveZones is how many zones may fail, anywhere, without any ring losing a part of its copy.
	RingsSurviveZones int `json:"ringsSurviveZones,omitempty"`
	// KeysSurviveZones is how many zones may fail with at least one ring intact.
	KeysSurviveZones int `json:"keysSurviveZones,omitempty"`
}

// Range is from Min to Max; 0 leaves that side open.
type Range struct {
	Min int `json:"min,omitempty"`
	Max int `json:"max,omitempty"`
}

// Defaults of files.
const (
	DefaultMissRatio      = 0.035 // the paper's figure for one day of Twitter
	DefaultPutFraction    = 0.05  // the paper's main workload
	DefaultBoundReads     = 0.02  // the maximum that the paper measured with it
	DefaultMissOperations = 2
	DefaultCacheShare     = 0.25 // 2 of 8 servers, as in the paper's section 5
	DefaultValueBytes     = 200
)

var (
	defaultAlphas       = []float64{0.2, 0.5, 0.8}
	defaultPutFractions = []float64{0.05, 0.1, 0.2, 0.3, 0.4, 0.5}
)

// Load reads a file.
func Load(path string) (*File, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read input: %w", err)
	}
	f, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("input %s: %w", path, err)
	}
	return f, nil
}

// Parse parses the text of a file. It refuses unknown fields, which are most likely misspelled.
func Parse(b []byte) (*File, error) {
	var f File
	if err := yaml.UnmarshalStrict(b, &f); err != nil {
		return nil, err
	}
	return &f, nil
}

// OfTopology returns the file for a topology, with the same traffic everywhere.
func OfTopology(t *topology.Topology) *File {
	f := &File{Epoch: t.Epoch, RoundTripMs: map[string]map[string]float64{}}
	for i, d := range t.DCs {
		f.DataCenters = append(f.DataCenters, FileDataCenter{FileDataCenter: topology.FileDataCenter{Name: d.Name,
			Coordinators: &d.Coordinators, Caches: &d.Caches, Shards: &d.Shards}})
		row := map[string]float64{}
		for j := range t.DCs {
			if i != j {
				row[t.DCs[j].Name] = t.RTT[i][j]
			}
		}
		f.RoundTripMs[d.Name] = row
	}
	for _, r := range t.Rings {
		ring := topology.FileRing{Name: r.Name}
		for _, d := range r.DCs {
			ring.DataCenters = append(ring.DataCenters, t.DCs[d].Name)
		}
		f.Rings = append(f.Rings, ring)
	}
	return f
}

// Scenario validates the file and builds the scenario that it describes.
func (f *File) Scenario() (*Scenario, error) {
	if len(f.DataCenters) == 0 {
		return nil, fmt.Errorf("dataCenters is empty; list at least one, such as - {name: us-east-1}")
	}
	s := &Scenario{Epoch: f.Epoch, Constraints: f.Constraints, Alphas: slices.Clone(f.Alphas),
		PutFractions: slices.Clone(f.PutFractions)}
	if err := f.places(s); err != nil {
		return nil, err
	}
	if err := f.numbers(s); err != nil {
		return nil, err
	}
	if err := f.traffic(s); err != nil {
		return nil, err
	}
	return s, f.prices(s)
}

// places sets data centers, rings and round trips. Package topology validates them.
func (f *File) places(s *Scenario) error {
	t := topology.File{Epoch: f.Epoch, Rings: f.Rings, RoundTripMs: f.RoundTripMs}
	all := topology.FileRing{Name: "all"}
	for _, d := range f.DataCenters {
		t.DataCenters = append(t.DataCenters, d.FileDataCenter)
		all.DataCenters = append(all.DataCenters, d.Name)
	}
	if len(t.Rings) == 0 {
		t.Rings = []topology.FileRing{all}
	}
	topo, err := t.Topology()
	if err != nil {
		return err
	}
	s.RTT = topo.RTT
	for i, d := range topo.DCs {
		zones := 2
		if z := f.DataCenters[i].Zones; z != nil {
			zones = *z
		}
		if zones < 1 {
			return fmt.Errorf("zones of data center %q is %d; give at least 1", d.Name, zones)
		}
		s.DCs = append(s.DCs, DataCenter{Name: d.Name, Zones: zones, Shards: d.Shards, Coordinators: d.Coordinators,
			Caches: d.Caches})
		for j := range topo.DCs {
			s.HasRTT = s.HasRTT || topo.RTT[i][j] > 0
		}
	}
	if len(f.Rings) == 0 {
		return nil
	}
	for _, r := range topo.Rings {
		var ring []int
		for _, d := range r.DCs {
			ring = append(ring, int(d))
		}
		s.Today, s.RingNames = append(s.Today, ring), append(s.RingNames, r.Name)
	}
	return nil
}

// numbers sets everything that does not belong to a data center.
func (f *File) numbers(s *Scenario) error {
	value := or(f.ValueBytes, DefaultValueBytes)
	s.PutBytes, s.GetBytes = or(f.PutBytes, value), or(f.GetBytes, value)
	s.PutFraction, s.BoundReads = or(f.PutFraction, DefaultPutFraction), or(f.BoundReads, DefaultBoundReads)
	s.MissOperations, s.CacheShare = or(f.MissOperations, DefaultMissOperations), or(f.CacheShare, DefaultCacheShare)
	if len(s.Alphas) == 0 {
		s.Alphas = defaultAlphas
	}
	if len(s.PutFractions) == 0 {
		s.PutFractions = defaultPutFractions
	}
	for _, c := range []struct {
		field string
		value float64
	}{{"valueBytes", value}, {"putBytes", s.PutBytes}, {"getBytes", s.GetBytes}, {"missOperations", s.MissOperations}} {
		if c.value < 0 || math.IsInf(c.value, 0) || math.IsNaN(c.value) {
			return fmt.Errorf("%s is %g; it must not be negative", c.field, c.value)
		}
	}
	return errors.Join(checkShares("putFraction", s.PutFraction), checkShares("putFractions", s.PutFractions...),
		checkShares("alphas", s.Alphas...),
		checkShares("missRatio", or(f.MissRatio, DefaultMissRatio)), checkShares("boundReads",
			s.BoundReads), checkShares("cacheShare", s.CacheShare))
}

func checkShares(field string, values ...float64) error {
	for _, v := range values {
		if !(v >= 0 && v <= 1) {
			return fmt.Errorf("%s is %g; it is a share and must be between 0 and 1", field, v)
		}
	}
	return nil
}

func or(v *float64, otherwise float64) float64 {
	if v == nil {
		return otherwise
	}
	return *v
}
