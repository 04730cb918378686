package bench

import (
	"context"
	"fmt"
	"time"
)

// Saturation is how a scheme's throughput grew with its clients.
type Saturation struct {
	Scheme string           `json:"scheme"`
	Steps  []SaturationStep `json:"steps"`
	// Clients is the number beyond which doubling and quadrupling gained less than the bound; 0 during the search.
	Clients int `json:"clients"`
	// Bounded is set if the throughput still grew at the largest number of clients that was tried.
	Bounded bool `json:"bounded,omitempty"`
}

// SaturationStep is one number of clients.
type SaturationStep struct {
	Clients    int     `json:"clients"`
	Throughput float64 `json:"throughput"`
	GetMeanMs  float64 `json:"getMeanMs"`
}

// loads are the loads of Figures 10 and 11, as shares of saturation. The full load comes first, since the others are
// shares of its result.
var loads = []float64{1, 0.66, 0.33}

// loadSection is Figures 10 and 11: the share of reads under DRR, and of reads answered near, at shares of the load
// that saturates a scheme.
func (p *paperRun) loadSection() section {
	length := p.o.Length * 2 / 5
	s := section{name: "load", title: "Saturation and load"}
	for _, scheme := range comparedSchemes {
		s.systems = append(s.systems, systemSpec{scheme: scheme})
	}
	cells := len(p.o.LoadMixes)*len(loadSchemes)*len(loads) + len(comparedSchemes) - len(loadSchemes)
	s.estimate = time.Duration(cells*p.o.Rounds+4*len(comparedSchemes)) * (length + p.o.Lead + settleFor/2)
	s.measure = func(ctx context.Context) error {
		if err := p.saturate(ctx, length); err != nil {
			return err
		}
		return p.underLoads(ctx, length)
	}
	return s
}

// saturate doubles the clients of every scheme until the throughput hardly grows.
func (p *paperRun) saturate(ctx context.Context, length time.Duration) error {
	var seeking []*Saturation
	for _, s := range comparedSchemes {
		seeking = append(seeking, &Saturation{Scheme: s.Name})
	}
	p.res.Saturation = seeking
	for clients, open := p.o.Clients/2, len(seeking); open > 0; clients *= 2 {
		clients = max(clients, 1)
		for i, s := range seeking {
			if s.Clients > 0 {
				continue
			}
			c := p.newCell("saturation", systemSpec{scheme: comparedSchemes[i]}, fmt.Sprint(clients), float64(clients))
			c.Clients = clients
			r, err := p.measure(ctx, c, uint64(clients), length, nil)
			if err != nil {
				return err
			}
			p.o.progress("  %s: %d clients, %.0f operations per second", s.Scheme, clients,
				r.throughput())
			if s.take(SaturationStep{clients, r.throughput(), c.rounds[0].getMs}, p.o.Gain, p.o.MaxClients) {
				open--
			}
		}
	}
	return nil
}

// take adds a step and reports whether the search ends: when two steps have gained little over the best step before
// them. A single one may be chance.
func (s *Saturation) take(step SaturationStep, gain float64, most int) (found bool) {
	s.Steps = append(s.Steps, step)
	best := 0
	for i, other := range s.Steps {
		if other.Throughput >= (1+gain)*s.Steps[best].Throughput {
			best = i
		}
	}
	last := len(s.Steps) - 1
	if last-best < 2 && 2*step.Clients <= most {
		return false
	}
	s.Clients, s.Bounded = s.Steps[best].Clients, best == last
	return true
}

// underLoads measures the schemes with rings at all loads and mixes, and the others at saturation.
func (p *paperRun) underLoads(ctx context.Context, length time.Duration) error {
	var groups [][]*Cell // per scheme and mix: one cell per load
	for i, s := range comparedSchemes {
		mixes, parts := []float64{p.o.ReadRatio}, loads[:1]
		for _, l := range loadSchemes {
			if l.Name == s.Name {
				mixes, parts = p.o.LoadMixes, loads
			}
		}
		for _, mix := range mixes {
			var group []*Cell
			for _, part := range parts {
				c := p.newCell("load", systemSpec{scheme: s}, loadName(mix, part), 100*(1-mix))
				c.ReadRatio, c.Load, c.Clients = mix, part, p.res.Saturation[i].Clients
				group = append(group, c)
			}
			groups = append(groups, group)
		}
	}
	for n := range p.o.Rounds {
		p.o.progress("  round %d of %d", n+1, p.o.Rounds)
		for _, group := range groups {
			if err := p.atLoads(ctx, group, uint64(n)+1, length); err != nil {
				return err
			}
		}
	}
	for _, group := range groups {
		p.keep(group)
	}
	return nil
}

func loadName(mix, part float64) string { return fmt.Sprintf("%s at %.0f %%", mixName(mix), 100*part) }

// atLoads measures the full load, and then shares of its result in each data center.
func (p *paperRun) atLoads(ctx context.Context, group []*Cell, round uint64, length time.Duration) error {
	var full []float64
	for _, c := range group {
		var rates []float64
		for _, r := range full {
			rates = append(rates, c.Load*r)
		}
		r, err := p.measure(ctx, c, round, length, rates)
		if err != nil {
			return err
		}
		if full == nil {
			full = r.rates()
		}
	}
	return nil
}
