package bench

import "fmt"

// headline is a measure that the paper reports: the paper's figure, the goal of CausalStore, and the measurements of
// Karma as published and of CausalStore.
type headline struct {
	measure, paper string
	goal           goal
	karma, ours    float64
	// measured reports whether each figure exists.
	karmaMeasured, measured bool
	share                   bool // in percent
}

// headlines returns those that this run has figures for.
func (p *Paper) headlines() []headline {
	all := []headline{
		p.ratioLine("throughput over COPS-PR, 95-5", "1.43", goal{Least: 2}, "throughput", mixName(0.95), copsPR,
			(*Cell).sum1),
		p.ratioLine("  by data center, geometric mean", "-", goal{}, "throughput", mixName(0.95), copsPR, byDataCenter),
		p.ratioLine("throughput over COPS-Ideal, 80-20", "0.87", goal{Least: 1}, "mixes", mixName(0.8), copsIdeal,
			(*Cell).sum1),
		p.ratioLine("throughput over COPS-Ideal, 50-50", "1.32", goal{Least: 1.6}, "mixes", mixName(0.5), copsIdeal,
			(*Cell).sum1),
		p.shareLine("reads answered in the data center, 95-5", "77 %", goal{Least: 0.88}, "throughput", mixName(0.95),
			func(c *Cell) float64 { return c.Near.Mean }),
		p.shareLine("reads under DRR, 95-5, full load", "< 2 %", goal{Most: 0.01}, "load", loadName(0.95, 1),
			func(c *Cell) float64 { return c.Bound.Mean }),
		p.shareLine("reads under DRR, 50-50, full load", "< 70 %", goal{Most: 0.25}, "load", loadName(0.5, 1),
			func(c *Cell) float64 { return c.Bound.Mean }),
		p.burstLine(),
		p.congestionLine(),
		p.latencyLine(),
		p.sizeLine("throughput with 1 KB over 200 B", "0.87", 1024),
		p.sizeLine("throughput with 4 KB over 200 B", "0.68", 4096),
	}
	var out []headline
	for _, h := range all {
		if h.measured || h.karmaMeasured {
			out = append(out, h)
		}
	}
	return out
}

// sum1 compares the total throughput of all clients.
func (c *Cell) sum1(other *Cell) float64 { return against(c, other).Mean }

// fill sets the figures of the two schemes that were measured.
func (h headline) fill(figure func(Scheme) (float64, bool)) headline {
	h.karma, h.karmaMeasured = figure(karma)
	h.ours, h.measured = figure(causalStore)
	return h
}

func (p *Paper) ratioLine(measure, paper string, g goal, section, label string, other Scheme, compare func(a,
	b *Cell) float64) headline {
	base := p.cell(section, other.Name, label)
	return headline{measure: measure, paper: paper, goal: g}.fill(func(s Scheme) (float64, bool) {
		c := p.cell(section, s.Name, label)
		if c == nil || base == nil {
			return 0, false
		}
		return compare(c, base), true
	})
}

func (p *Paper) shareLine(measure, paper string, g goal, section, label string, figure func(*Cell) float64) headline {
	return headline{measure: measure, paper: paper, goal: g, share: true}.fill(func(s Scheme) (float64, bool) {
		c := p.cell(section, s.Name, label)
		if c == nil {
			return 0, false
		}
		return figure(c), true
	})
}

func (p *Paper) burstLine() headline {
	return headline{measure: fmt.Sprintf("%d dependent puts visible everywhere, by one put", p.Burst),
		paper: "round trips: 100",
		goal:  goal{Most: 1.5}}.
		fill(func(s Scheme) (float64, bool) {
			for _, b := range p.Bursts {
				if b.Scheme == s.Name && !b.Unfinished {
					return b.Ratio, true
				}
			}
			return 0, false
		})
}

// congestionLine is about the longest delay. Karma runs without its caches there, as in the paper.
func (p *Paper) congestionLine() headline {
	most := 0
	for _, c := range p.Congestion {
		most = max(most, c.AddMs)
	}
	h := headline{measure: fmt.Sprintf("throughput kept at +%d ms", most), paper: "falls", goal: goal{Least: 0.85},
		share: true}
	return h.fill(func(s Scheme) (float64, bool) {
		for _, c := range p.Congestion {
			if c.AddMs == most && (c.Scheme == s.Name || s.Name == karma.Name && c.Scheme == karmaNC.Name) {
				return c.Kept.Mean, true
			}
		}
		return 0, false
	})
}

func (p *Paper) latencyLine() headline {
	return headline{measure: "read, p50 ms, 95-5", paper: "local",
		goal: goal{Most: 0.3}}.fill(func(s Scheme) (float64, bool) {
		c := p.cell("throughput", s.Name, mixName(0.95))
		if c == nil {
			return 0, false
		}
		return c.Get.P50Ms, true
	})
}

func (p *Paper) sizeLine(measure, paper string, bytes int) headline {
	return headline{measure: measure, paper: paper}.fill(func(s Scheme) (float64, bool) {
		small, great := p.cell("sizes", s.Name, sizeName(200)), p.cell("sizes", s.Name, sizeName(bytes))
		if small == nil || great == nil {
			return 0, false
		}
		return against(great, small).Mean, true
	})
}

// headlineTable is the summary at the top of the report.
func (p *Paper) headlineTable() *table {
	t := &table{title: "The paper's figures, and these",
		head: []string{"Measure", "Paper", "Karma here", "CausalStore here",
			"Goal", ""},
		note: "\"Karma here\" is the same program without what goes beyond Karma; under congestion it is Karma-NC, " +
			"as in the paper."}
	for _, h := range p.headlines() {
		figure := func(v float64, measured bool) string {
			switch {
			case !measured:
				return "-"
			case h.share:
				return percent(v)
			}
			return fmt.Sprintf("%.2f", v)
		}
		verdict := ""
		if h.measured {
			verdict = h.goal.verdict(h.ours)
		}
		t.add(h.measure, h.paper, figure(h.karma, h.karmaMeasured), figure(h.ours, h.measured), h.goalText(), verdict)
	}
	return t
}

func (h headline) goalText() string {
	switch {
	case h.goal == goal{}:
		return "-"
	case h.share && h.goal.Least > 0:
		return fmt.Sprintf(">= %.0f %%", 100*h.goal.Least)
	case h.share:
		return fmt.Sprintf("<= %.0f %%", 100*h.goal.Most)
	}
	return h.goal.String()
}
