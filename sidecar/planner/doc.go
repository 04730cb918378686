// Package planner proposes rings: which data centres should hold one copy of the data together.
//
// A plan weighs three things, each relative to something that does not depend on the rings: the expected latency of reads
// (relative to that with one copy in all), the price of the traffic between data centres, and compute and storage (both
// relative to a copy in each data centre). Constraints bound the number and the size of rings, keep data centres together
// or apart, and ask for rings that outlive the failure of availability zones.
//
// Up to MaxExact data centres every way to make rings is looked at. Beyond, it is a search from several starts, the same in
// each run, that may miss the best.
package planner

import "github.com/causalstore/causalstore/sidecar/cost"

// MaxExact is the greatest number of data centres for which all partitions are looked at. 12 have 4.2 million.
const MaxExact = 12

// Weights say what counts how much. They matter only relative to each other.
type Weights struct {
	Latency   float64
	Bandwidth float64
	Capex     float64
}

// Options are what a plan is made with beside the scenario.
type Options struct {
	Weights Weights
	// Alpha is the storage's share of what a server costs, for CAPEX.
	Alpha float64
}

// Figures are what a layout gives.
type Figures struct {
	Rings int `json:"rings"`
	// ReadMs is the expected round trip of a read, over all reads, those answered in the data centre with 0.
	ReadMs float64 `json:"readMs"`
	// LocalShare is the share of reads that are answered in the data centre: by its cache or its own shard.
	LocalShare float64 `json:"localShare"`
	// Bandwidth per operation, and what of full replication is saved.
	Bandwidth  cost.Bandwidth `json:"bandwidth"`
	SavedBytes float64        `json:"savedBytes"`
	SavedPrice float64        `json:"savedPrice"`
	SavedCapex float64        `json:"savedCapex"`
	// Score is the weighted sum; less is better.
	Score float64 `json:"score"`
}
