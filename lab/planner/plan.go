package planner

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/causalstore/causalstore/lab/cost"
)

// found is the result of a planner: the best allowed layout of each number of rings.
type found struct {
	exact    bool
	examined int
	layouts  map[int]cost.Layout
}

// Proposal is a layout with its figures.
type Proposal struct {
	Name    string      `json:"name"`
	Rings   []Ring      `json:"layout"`
	Figures Figures     `json:"figures"`
	Layout  cost.Layout `json:"-"`
}

// Ring is a ring with the names of its data centers.
type Ring struct {
	Name        string   `json:"name"`
	DataCenters []string `json:"dataCenters"`
}

// DataCenter is the effect of the proposed rings on one data center.
type DataCenter struct {
	Name  string  `json:"name"`
	Ring  string  `json:"ring"`
	Reads float64 `json:"reads"`
	// Owned is the share of the keys of its ring that it holds.
	Owned float64 `json:"owned"`
	// LocalShare is the share of its reads that it answers itself.
	LocalShare float64 `json:"localShare"`
	// MissMs is the expected round trip of a read that misses its cache, BoundMs that of a read that is bound to its
	// ring, ReadMs that of any read.
	MissMs  float64 `json:"missMs"`
	BoundMs float64 `json:"boundMs"`
	ReadMs  float64 `json:"readMs"`
}

// Plan is the result of Make.
type Plan struct {
	// Exact: every allowed layout was examined. Otherwise Examined were, and a better one may exist.
	Exact    bool `json:"exact"`
	Examined int  `json:"examined"`
	// Proposed is the best layout for the given traffic and prices, as in section 6.4 of the paper.
	Proposed Proposal `json:"proposed"`
	// Others are for comparison: full replication, the current rings, and rings by delay alone, as in section 5.
	Others []Proposal `json:"others"`
	// ByCopies are the best layouts of each number of rings, if several are allowed.
	ByCopies    []Proposal   `json:"byCopies,omitempty"`
	DataCenters []DataCenter `json:"dataCenters"`
	Why         []string     `json:"why"`

	scenario *cost.Scenario
}

// Make proposes rings.
func Make(s *cost.Scenario, o Options) (*Plan, error) {
	if err := check(s, o); err != nil {
		return nil, err
	}
	r, err := newRules(s)
	if err != nil {
		return nil, err
	}
	f := find(s, r, o)
	if len(f.layouts) == 0 {
		return nil, impossible(s, f, o)
	}
	p := &Plan{Exact: f.exact, Examined: f.examined, scenario: s}
	for rings := range len(s.DCs) + 1 {
		l, ok := f.layouts[rings]
		if !ok {
			continue
		}
		c := propose(s, fmt.Sprintf("best of %d rings", rings), l, o)
		if p.Proposed.Layout == nil || c.Figures.Score < p.Proposed.Figures.Score-1e-12 {
			p.Proposed = c
		}
		p.ByCopies = append(p.ByCopies, c)
	}
	if len(p.ByCopies) == 1 {
		p.ByCopies = nil
	}
	p.Proposed.Name = "workload-aware"
	p.Others = append(p.Others, propose(s, "full replication", s.FullReplication(), o))
	if s.Today != nil {
		today := propose(s, "today", s.Today, o)
		for i := range today.Rings {
			today.Rings[i].Name = s.RingNames[i]
		}
		p.Others = append(p.Others, today)
	}
	if s.HasRTT {
		network, err := byDelay(s, len(p.Proposed.Layout))
		if err != nil {
			return nil, err
		}
		p.Others = append(p.Others, propose(s, "network-aware", network, o))
	}
	p.DataCenters = perDataCenter(s, p.Proposed)
	p.Why = explain(s, p, r, o)
	return p, nil
}

func check(s *cost.Scenario, o Options) error {
	w := o.Weights
	if !(w.Latency >= 0 && w.Bandwidth >= 0 && w.Capex >= 0 && w.Latency+w.Bandwidth+w.Capex > 0) {
		return fmt.Errorf(
			"the weights of latency, bandwidth and capex are %g, %g and %g; none may be negative, and one "+
				"must be above 0",
			w.Latency, w.Bandwidth, w.Capex)
	}
	if !(o.Alpha >= 0 && o.Alpha <= 1) {
		return fmt.Errorf("alpha is %g; it is a share and must be between 0 and 1", o.Alpha)
	}
	for a := range s.DCs {
		for b := range a {
			if w.Latency > 0 && s.RTT[a][b] == 0 {
				return fmt.Errorf(
					"roundTripMs has no value for %s and %s; add one (such as 0.1 if they are next to each other), "+
						"or set the weight of latency to 0",
					s.DCs[b].Name, s.DCs[a].Name)
			}
		}
	}
	return nil
}

func find(s *cost.Scenario, r *rules, o Options) found {
	e := newEvaluator(s, o)
	if len(s.DCs) <= MaxExact {
		return tryAll(e, r)
	}
	return tryMany(e, r)
}

// impossible explains which constraint prevents a layout, by omitting one at a time.
func impossible(s *cost.Scenario, f found, o Options) error {
	var helps []string
	for _, c := range []struct {
		name string
		drop func(*cost.Constraints)
	}{
		{"copies", func(c *cost.Constraints) { c.Copies = cost.Range{} }},
		{"ringSize", func(c *cost.Constraints) { c.RingSize = cost.Range{} }},
		{"together", func(c *cost.Constraints) { c.Together = nil }},
		{"apart", func(c *cost.Constraints) { c.Apart = nil }},
		{"keysSurviveZones", func(c *cost.Constraints) { c.KeysSurviveZones = 0 }},
	} {
		without := *s
		c.drop(&without.Constraints)
		if r, err := newRules(&without); err == nil && len(find(&without, r, o).layouts) > 0 {
			helps = append(helps, "constraints."+c.name)
		}
	}
	text := "no layout meets all constraints"
	if !f.exact {
		text = fmt.Sprintf("none of the %d examined layouts meets all constraints", f.examined)
	}
	if len(helps) == 0 {
		return errors.New(text + "; loosen several of them")
	}
	return fmt.Errorf("%s; there are layouts without %s", text, strings.Join(helps, ", or without "))
}

// byDelay returns the best rings by delay alone: every data center has the same traffic, and what counts is the
// distance to the copy in its own ring.
func byDelay(s *cost.Scenario, rings int) (cost.Layout, error) {
	blind := *s
	blind.DCs = slices.Clone(s.DCs)
	for i := range blind.DCs {
		blind.DCs[i].Reads = 1 / float64(len(s.DCs))
	}
	blind.BoundReads = 1
	blind.Constraints.Copies = cost.Range{Min: rings, Max: rings}
	r, err := newRules(&blind)
	if err != nil {
		return nil, err
	}
	o := Options{Weights: Weights{Latency: 1}}
	f := find(&blind, r, o)
	l, ok := f.layouts[rings]
	if !ok {
		return nil, impossible(&blind, f, o)
	}
	return l, nil
}

func propose(s *cost.Scenario, name string, l cost.Layout, o Options) Proposal {
	return Proposal{Name: name, Layout: l, Rings: nameRings(s, l), Figures: Evaluate(s, l, o)}
}

func perDataCenter(s *cost.Scenario, p Proposal) []DataCenter {
	all := make([]DataCenter, len(s.DCs))
	owns := s.Owners(p.Layout)
	for r, ring := range p.Layout {
		for _, d := range ring {
			missed, bound := *s, *s
			missed.DCs = slices.Clone(s.DCs)
			missed.DCs[d].MissRatio, missed.BoundReads, bound.BoundReads = 1, 0, 1
			all[d] = DataCenter{Name: s.DCs[d].Name, Ring: p.Rings[r].Name, Reads: s.DCs[d].Reads, Owned: owns[d],
				LocalShare: s.Answers(p.Layout, d)[d],
				MissMs:     missed.ReadMs(p.Layout, d), BoundMs: bound.ReadMs(p.Layout, d),
				ReadMs: s.ReadMs(p.Layout, d)}
		}
	}
	return all
}
