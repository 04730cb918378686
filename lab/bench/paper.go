package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// PaperOptions describe what to measure, how long and how hard. FullPaper and QuickPaper fill them in.
type PaperOptions struct {
	Setup
	// Sections are the sections to measure, in this order.
	Sections []string
	Rounds   int
	// Length is the length of a round. Sections with many cells use a part of it. Lead, before each round, is
	// discarded.
	Length, Lead time.Duration
	// WarmReads is how often every data center reads before the measurement, as a multiple of the number of keys.
	WarmReads float64
	// WarmMost bounds the warm-up reads, because a million keys would take minutes.
	WarmMost int
	// Clients of the closed loop, spread over the data centers; each is a session. Between a reply and the next request
	// each waits for Think.
	Clients    int
	Think      time.Duration
	Keys       int
	ValueBytes int
	ReadRatio  float64
	Theta      float64
	// Mixes are the read ratios of the sweep, beside that of the section throughput; LoadMixes are those at which the
	// load is varied.
	Mixes, LoadMixes []float64
	// The search for saturation ends when doubling the clients gains less than Gain, or at MaxClients.
	Gain       float64
	MaxClients int
	Sizes      []int // of values
	Sessions   []int // connections to each data center
	Centers    []int // data centers
	KeyCounts  []int
	// Congestion is the added one-way delays in milliseconds; each lasts for CongestFor, with Around before and after
	// it. CongestMost replaces CongestFor for the longest delay, which has the time series.
	Congestion                      []int
	CongestFor, CongestMost, Around time.Duration
	CongestedDC                     string
	Burst                           int // dependent puts
	// Topology is a file; "" is the default topology.
	Topology string
	Seed     uint64
}

// FullPaper returns the options of the whole evaluation, which takes less than half an hour.
func FullPaper() *PaperOptions {
	return &PaperOptions{
		Sections: sectionNames, Rounds: 7, Length: 2 * time.Second, Lead: 500 * time.Millisecond, WarmReads: 1,
		WarmMost: 100000, Clients: 64,
		Think: 5 * time.Millisecond, Keys: 20000, ValueBytes: 200, ReadRatio: 0.95, Theta: 0.99, Seed: 1,
		Mixes: []float64{0.8, 0.5}, LoadMixes: []float64{0.95, 0.8, 0.5}, Gain: 0.1, MaxClients: 2048,
		Sizes: []int{200, 1024, 4096}, Sessions: []int{1, 10, 100}, Centers: []int{4, 8, 16},
		KeyCounts:  []int{10000, 100000, 1000000},
		Congestion: []int{300, 600, 1200}, CongestFor: 20 * time.Second, CongestMost: 2 * time.Minute,
		Around:      10 * time.Second,
		CongestedDC: "eu-west-1", Burst: 100,
	}
}

// quickSections are those of --quick, which take a few minutes.
var quickSections = []string{"throughput", "mixes", "load", "congestion", "burst"}

// shorten makes --quick shorter than flags can.
func (o *PaperOptions) shorten() {
	o.LoadMixes, o.MaxClients = []float64{0.95, 0.5}, 512
	o.Congestion, o.CongestMost, o.Around = []int{1200}, 15*time.Second, 6*time.Second
}

func (o *PaperOptions) experiment() *Experiment {
	return &Experiment{
		Name:  "paper",
		Short: "Repeat the evaluation of the Karma paper: throughput, latency, congestion, mixes, loads, sizes",
		Long: `Repeats sections 5 and 6 of the Karma paper with eight data centers in three
rings on an emulated WAN. Each scheme is this program with different flags, in its own process:
CausalStore, Karma as published, Karma without caches, COPS-PR (sessions stay in their ring) and
COPS-Ideal (full replication). Closed-loop clients load them in turn, with YCSB's zipfian
distribution. The results are printed beside the paper's figures.

Sections: ` + strings.Join(sectionNames, ", ") + `.`,
		Example: `  causalstore bench paper --quick
  causalstore bench paper --sections throughput,mixes --rounds 5
  causalstore bench paper --report docs/benchmarks --json docs/benchmarks/paper.json`,
		quick:   fmt.Sprintf("measure three rounds of %d of the sections, in about six minutes", len(quickSections)),
		quickly: map[string]string{"sections": strings.Join(quickSections, ","), "rounds": "3", "keys": "10000"},
		setup:   &o.Setup, declare: o.declare, measure: measuring(o.Measure),
	}
}

func (o *PaperOptions) declare(f *flags) {
	f.StringSliceVar(&o.Sections, "sections", o.Sections,
		"sections to measure; default all, or with --quick "+strings.Join(quickSections, ","))
	f.in(time.Second, &o.Length, "seconds", "length of a round; sections with many cells use a part of it")
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "number of rounds")
	f.Float64Var(&o.WarmReads, "warm-reads", o.WarmReads,
		"reads in every data center to warm its cache, as a multiple of the number of keys")
	f.count(&o.Clients, "clients", "total number of clients, each a session")
	f.in(time.Millisecond, &o.Think, "think",
		"milliseconds between a reply and the next request of a client; with 0, data centers that hold everything "+
			"starve the others of CPU")
	f.count(&o.Keys, "keys", "number of keys")
	f.count(&o.ValueBytes, "value-bytes", "size of values in bytes")
	f.Float64Var(&o.ReadRatio, "read-ratio", o.ReadRatio, "share of reads")
	f.StringVar(&o.Topology, "topology", "", "topology file (default eight AWS regions in three rings)")
	f.positive("seconds")
	f.between(1, 50, "rounds")
	f.between(0, 60, "seconds")
	f.between(0, 20, "warm-reads")
	f.between(0, 1, "read-ratio")
	f.notNegative("think")
	f.oneOf(sectionNames, "sections")
	f.must(func() error {
		if len(o.Sections) == 0 {
			return fmt.Errorf("--sections is empty; choose from %s", strings.Join(sectionNames, ", "))
		}
		if quick, err := f.GetBool("quick"); err == nil && quick {
			o.shorten()
		}
		return nil
	})
}

func (o *PaperOptions) warmReads(keys int) int {
	return min(int(o.WarmReads*float64(keys)), o.WarmMost)
}

// Paper is the evaluation of section 6 of the Karma paper, on this machine.
type Paper struct {
	Origin

	Sections []string `json:"sections"`
	// Unmeasured lists the sections that failed, each with its error.
	Unmeasured  []string `json:"unmeasured,omitempty"`
	Rounds      int      `json:"rounds"`
	Seconds     float64  `json:"secondsPerRound"`
	Clients     int      `json:"clients"`
	ThinkMs     float64  `json:"thinkMs"`
	Keys        int      `json:"keys"`
	ValueBytes  int      `json:"valueBytes"`
	ReadRatio   float64  `json:"readRatio"`
	Theta       float64  `json:"theta"`
	WarmReads   float64  `json:"warmReads"`
	Burst       int      `json:"burst"`
	DataCenters int      `json:"dataCenters"`
	Rings       int      `json:"rings"`

	Schemes    []Scheme      `json:"schemes"`
	Cells      []*Cell       `json:"cells,omitempty"`
	Saturation []*Saturation `json:"saturation,omitempty"`
	Congestion []*Congestion `json:"congestion,omitempty"`
	Bursts     []*Burst      `json:"bursts,omitempty"`
	// TookSeconds is how long the evaluation took. OthersCores is the CPU time of unrelated processes per second.
	TookSeconds float64 `json:"tookSeconds"`
	OthersCores float64 `json:"othersCores"`
}

// paperRun is an evaluation in progress.
type paperRun struct {
	o     *PaperOptions
	res   *Paper
	fleet *fleet
	// last was measured last: its writes may still be in flight.
	last *system
	// others are the processes that are not measured.
	others bystanders
	// planned are the systems and records that earlier sections have created already.
	planned map[string]bool
}

// Measure starts the systems of each section, each in its own process, and loads them in turn.
func (o *PaperOptions) Measure(ctx context.Context) (res *Paper, err error) {
	begun := time.Now()
	err = o.withDataDir(func(dir string) error {
		f, err := newFleet(o, dir)
		if err != nil {
			return err
		}
		p := &paperRun{o: o, fleet: f, planned: map[string]bool{}, res: &Paper{
			Origin: o.origin(), Sections: o.Sections, Rounds: o.Rounds,
			Seconds: o.Length.Seconds(), Clients: o.Clients, ThinkMs: o.Think.Seconds() * 1e3, Keys: o.Keys,
			ValueBytes: o.ValueBytes,
			ReadRatio:  o.ReadRatio, Theta: o.Theta, WarmReads: o.WarmReads, Burst: o.Burst,
			DataCenters: len(f.base.DCs), Rings: len(f.base.Rings),
		}}
		res, err = p.res, p.run(ctx)
		res.Schemes, res.OthersCores = schemesIn(res.schemes()), p.others.processors()
		return errors.Join(err, f.keep(nil))
	})
	if err != nil {
		return nil, err
	}
	res.TookSeconds = time.Since(begun).Seconds()
	return res, nil
}

// run measures the sections in turn.
func (p *paperRun) run(ctx context.Context) error {
	sections := p.sections()
	left := time.Duration(0)
	for _, s := range sections {
		left += s.estimate
	}
	for i, s := range sections {
		p.o.progress("%s (section %d of %d, about %s left)", s.title, i+1, len(sections),
			left.Round(10*time.Second))
		if err := s.measure(ctx); err != nil {
			err = fmt.Errorf("section %s: %w", s.name, err)
			if i == 0 || ctx.Err() != nil {
				return err
			}
			// Keep what was measured so far.
			p.res.Unmeasured = append(p.res.Unmeasured, err.Error())
			p.o.progress("%s; continuing with the next section", err)
			if err := p.fleet.keep(nil); err != nil {
				return err
			}
		}
		left -= s.estimate
		var needed []systemSpec
		for _, later := range sections[i+1:] {
			needed = append(needed, later.systems...)
		}
		p.last = nil
		if err := p.fleet.keep(needed); err != nil {
			return err
		}
	}
	return nil
}

// schemes returns the names of the measured schemes.
func (p *Paper) schemes() (names []string) {
	for _, c := range p.Cells {
		names = append(names, c.Scheme)
	}
	for _, c := range p.Congestion {
		names = append(names, c.Scheme)
	}
	for _, b := range p.Bursts {
		names = append(names, b.Scheme)
	}
	return names
}

// cells returns the cells of a section and a scheme, in the order of measurement.
func (p *Paper) cells(section, scheme string) (out []*Cell) {
	for _, c := range p.Cells {
		if c.Section == section && c.Scheme == scheme {
			out = append(out, c)
		}
	}
	return out
}

// cell returns the cell with a label; nil if it was not measured.
func (p *Paper) cell(section, scheme, label string) *Cell {
	for _, c := range p.cells(section, scheme) {
		if c.Label == label {
			return c
		}
	}
	return nil
}
