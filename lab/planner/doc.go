// Package planner proposes rings: which data centers should together hold one copy of the data.
//
// A plan weighs three objectives, each relative to a value that does not depend on the rings: the expected latency of
// reads (relative to that with a single copy), the price of the traffic between data centers, and compute and storage
// (both relative to a copy in each data center). Constraints bound the number and the size of rings, keep data centers
// together or apart, and require rings to survive the failure of availability zones.
//
// For up to MaxExact data centers the planner examines every partition. Beyond that it searches from several starting
// points; the search is deterministic, but may miss the best layout.
package planner

import (
	"github.com/causalstore/causalstore/lab/cost"
)

// MaxExact is the largest number of data centers for which all partitions are examined. 12 have 4.2 million.
const MaxExact = 12

// Weights are the relative importance of the objectives.
type Weights struct {
	Latency   float64
	Bandwidth float64
	Capex     float64
}

// Options are the parameters of a plan besides the scenario.
type Options struct {
	Weights Weights
	// Alpha is the storage share of the cost of a server, for CAPEX.
	Alpha float64
}

// Figures are the properties of a layout.
type Figures struct {
	Rings int `json:"rings"`
	// ReadMs is the expected round trip of a read, over all reads; those answered in the data center count as 0.
	ReadMs float64 `json:"readMs"`
	// LocalShare is the share of reads that are answered in the data center: by its cache or its own shard.
	LocalShare float64 `json:"localShare"`
	// Bandwidth per operation, and the savings compared with full replication.
	Bandwidth  cost.Bandwidth `json:"bandwidth"`
	SavedBytes float64        `json:"savedBytes"`
	SavedPrice float64        `json:"savedPrice"`
	SavedCapex float64        `json:"savedCapex"`
	// Score is the weighted sum; lower is better.
	Score float64 `json:"score"`
}
