package cost

import (
	"fmt"
	"strconv"

	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/topology"
)

// inputPuts is the rate of puts in the inputs of the Twitter cases; only proportions matter.
const inputPuts = 100.0

// Input returns the case as an input file, so that the planner can search for better rings.
func (c TwitterCase) Input() ([]byte, error) {
	s := c.Scenario
	f := OfTopology(topology.Default())
	for i, d := range s.DCs {
		dc := &f.DataCenters[i]
		dc.Coordinators, dc.Caches, dc.Shards = nil, nil, nil
		dc.ReadsPerSecond = rounded(d.Reads * inputPuts * (1 - c.PutFraction) / c.PutFraction)
		dc.WritesPerSecond = rounded(d.Writes * inputPuts)
		dc.MissRatio = rounded(d.MissRatio)
		for other := range f.RoundTripMs[d.Name] {
			if f.RoundTripMs[other][d.Name] > 0 { // each pair once
				delete(f.RoundTripMs[d.Name], other)
			}
		}
		if len(f.RoundTripMs[d.Name]) == 0 {
			delete(f.RoundTripMs, d.Name)
		}
	}
	f.BoundReads, f.ValueBytes = &s.BoundReads, rounded(DefaultValueBytes)
	f.Constraints.Copies = Range{Min: len(s.Today), Max: len(s.Today)}
	b, err := yaml.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("write input: %w", err)
	}
	return append([]byte("# Karma's Twitter analysis. Where gets miss: "+c.Name+".\n"), b...), nil
}

// rounded keeps four significant digits.
func rounded(v float64) *float64 {
	short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	if err != nil {
		return &v // not a number: parsing the file reports it
	}
	return &short
}
