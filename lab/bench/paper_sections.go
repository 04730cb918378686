package bench

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// section is a part of the evaluation.
type section struct {
	name, title string
	// systems are those that the section needs: running ones keep running until no later section needs them.
	systems  []systemSpec
	estimate time.Duration
	measure  func(context.Context) error
}

// sectionNames are the sections of the full evaluation, in order.
var sectionNames = []string{"throughput", "mixes", "load", "ablation", "congestion", "burst", "sessions", "centers",
	"sizes", "keys"}

// The schemes of the sections.
var (
	comparedSchemes   = []Scheme{causalStore, latestReads, karma, karmaNC, copsPR, copsIdeal}
	throughputSchemes = []Scheme{causalStore, oneRedis, latestReads, karma, karmaNC, copsPR, copsIdeal}
	mixSchemes        = []Scheme{causalStore, karma, copsPR, copsIdeal}
	loadSchemes       = []Scheme{causalStore, karma}
	ablationSchemes   = []Scheme{causalStore, latestReads, withoutRingSets, withoutPipelining, withoutSVLifting}
	congestSchemes    = []Scheme{causalStore, karmaNC, copsPR}
	burstSchemes      = []Scheme{causalStore, latestReads, karma}
	sizeSchemes       = []Scheme{causalStore, karma}
	scaleSchemes      = []Scheme{causalStore, copsPR}
)

// sections returns the requested sections.
func (p *paperRun) sections() []section {
	plans := map[string]func() section{
		"throughput": p.throughputSection, "load": p.loadSection, "ablation": p.ablationSection,
		"congestion": p.congestionSection, "burst": p.burstSection, "sessions": p.sessionSection,
		"centers": p.centerSection,
		"sizes":   p.sizeSection, "keys": p.keySection,
	}
	var out []section
	for _, name := range sectionNames {
		switch {
		case !slices.Contains(p.o.Sections, name):
		case name == "mixes":
			out = append(out, p.mixSections()...)
		default:
			out = append(out, plans[name]())
		}
	}
	return out
}

// cellSection measures cells, each for a part of the length of a round.
func (p *paperRun) cellSection(name, title string, part float64, cells []*Cell) section {
	length := time.Duration(part * float64(p.o.Length))
	s := section{name: name, title: title, measure: func(ctx context.Context) error {
		return p.sweep(ctx, length, cells)
	}}
	for _, c := range cells {
		s.systems = append(s.systems, c.spec)
	}
	s.estimate = time.Duration(len(cells)*p.o.Rounds) * (length + p.o.Lead + settleFor/2)
	for _, c := range cells {
		s.estimate += p.preparation(c)
	}
	return s
}

// preparation estimates how long it takes to start a system, write its records and warm its caches the first time.
func (p *paperRun) preparation(c *Cell) time.Duration {
	r := c.records()
	took := time.Duration(0)
	if name := c.spec.name(); !p.planned[name] {
		p.planned[name] = true
		took += 1500 * time.Millisecond
	}
	if name := c.spec.name() + r.prefix; !p.planned[name] {
		p.planned[name] = true
		took += 1200*time.Millisecond + time.Duration(r.count)*50*time.Microsecond
		if c.spec.scheme.caches() {
			took += time.Duration(p.o.warmReads(r.count)*c.DataCenters) * 20 * time.Microsecond
		}
	}
	return took
}

// throughputSection is Figure 6: all schemes with the same number of clients.
func (p *paperRun) throughputSection() section {
	var cells []*Cell
	for _, s := range throughputSchemes {
		cells = append(cells, p.newCell("throughput", systemSpec{scheme: s}, mixName(p.o.ReadRatio),
			100*(1-p.o.ReadRatio)))
	}
	return p.cellSection("throughput", "Throughput and latency", 1, cells)
}

// mixSections are Figure 9: a growing share of puts. Each mix has systems of its own, which run while it is measured:
// the writes of another mix would take entries out of the caches.
func (p *paperRun) mixSections() (sections []section) {
	for _, mix := range p.o.Mixes {
		var cells []*Cell
		for _, s := range mixSchemes {
			c := p.newCell("mixes", systemSpec{scheme: s, mix: mixName(mix)}, mixName(mix), 100*(1-mix))
			c.ReadRatio = mix
			cells = append(cells, c)
		}
		sections = append(sections, p.cellSection("mixes", "Reads and writes mixed, "+mixName(mix), 1, cells))
	}
	return sections
}

func mixName(reads float64) string { return fmt.Sprintf("%.0f-%.0f", 100*reads, 100*(1-reads)) }

// ablationReads is the read ratio of the ablation: with enough writes to show the effect of the improvements.
const ablationReads = 0.8

// ablationSection disables the improvements over Karma, one at a time.
func (p *paperRun) ablationSection() section {
	var cells []*Cell
	for _, s := range ablationSchemes {
		c := p.newCell("ablation", systemSpec{scheme: s}, mixName(ablationReads), 100*(1-ablationReads))
		c.ReadRatio = ablationReads
		cells = append(cells, c)
	}
	return p.cellSection("ablation", "Each improvement off", 0.8, cells)
}

// sessionSection varies the number of connections that share one session in each data center.
func (p *paperRun) sessionSection() section {
	var cells []*Cell
	for _, n := range p.o.Sessions {
		c := p.newCell("sessions", systemSpec{scheme: causalStore, pod: true}, fmt.Sprint(n), float64(n))
		c.Clients = n * len(p.fleet.base.DCs)
		cells = append(cells, c)
	}
	return p.cellSection("sessions", "Connections that share a sidecar's session", 0.6, cells)
}

// centerSection varies the number of data centers, with the same number of clients in each.
func (p *paperRun) centerSection() section {
	var cells []*Cell
	base := len(p.fleet.base.DCs)
	for _, n := range p.o.Centers {
		spec := systemSpec{dcs: n}
		if n == base {
			spec.dcs = 0
		}
		for _, s := range scaleSchemes {
			spec.scheme = s
			c := p.newCell("centers", spec, fmt.Sprint(n), float64(n))
			c.Clients = max(1, p.o.Clients*n/base)
			cells = append(cells, c)
		}
	}
	return p.cellSection("centers", "Data centers", 0.6, cells)
}

// sizeSection varies the size of records.
func (p *paperRun) sizeSection() section {
	var cells []*Cell
	for _, n := range p.o.Sizes {
		for _, s := range sizeSchemes {
			c := p.newCell("sizes", systemSpec{scheme: s}, sizeName(n), float64(n))
			c.ValueBytes, c.Keys = n, min(p.o.Keys, 10000)
			cells = append(cells, c)
		}
	}
	return p.cellSection("sizes", "Sizes of records", 0.6, cells)
}

func sizeName(bytes int) string {
	if bytes >= 1024 && bytes%1024 == 0 {
		return fmt.Sprintf("%d KB", bytes/1024)
	}
	return fmt.Sprintf("%d B", bytes)
}

// keySection varies the number of keys.
func (p *paperRun) keySection() section {
	var cells []*Cell
	for _, n := range p.o.KeyCounts {
		for _, s := range scaleSchemes {
			c := p.newCell("keys", systemSpec{scheme: s}, countName(n), float64(n))
			c.Keys = n
			cells = append(cells, c)
		}
	}
	return p.cellSection("keys", "Numbers of keys", 0.6, cells)
}

// countName prints a count with thousands separators.
func countName(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
