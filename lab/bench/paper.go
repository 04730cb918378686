package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// PaperOptions describe what to measure, how long and how hard. FullPaper and QuickPaper fill them in.
type PaperOptions struct {
	Binary string
	Dir    string
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
	// Command is the command line, for the report.
	Command  string
	Progress io.Writer
}

// FullPaper is the whole evaluation, which takes less than half an hour.
func FullPaper() PaperOptions {
	return PaperOptions{
		Sections: SectionNames(), Rounds: 7, Length: 2 * time.Second, Lead: 500 * time.Millisecond, WarmReads: 1,
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

// QuickPaper is a part of it that takes a few minutes.
func QuickPaper() PaperOptions {
	o := FullPaper()
	o.Sections = []string{"throughput", "mixes", "load", "congestion", "burst"}
	o.Rounds, o.Keys = 3, 10000
	o.LoadMixes, o.MaxClients = []float64{0.95, 0.5}, 512
	o.Congestion, o.CongestMost, o.Around = []int{1200}, 15*time.Second, 6*time.Second
	return o
}

// Check validates the options.
func (o *PaperOptions) Check() error {
	switch {
	case o.Length <= 0 || o.Rounds < 1 || o.Clients < 1 || o.Keys < 1 || o.ValueBytes < 1:
		return errors.New("--seconds, --rounds, --clients, --keys and --value-bytes must be positive")
	case o.Rounds > 50 || o.Length > time.Minute:
		return errors.New("--rounds must be at most 50, and --seconds at most 60")
	case o.Think < 0 || o.Lead < 0 || o.WarmReads < 0 || o.WarmReads > 20:
		return errors.New("--think must not be negative, and --warm-reads must be between 0 and 20")
	case o.ReadRatio < 0 || o.ReadRatio > 1:
		return errors.New("--read-ratio must be between 0 and 1")
	}
	if len(o.Sections) == 0 {
		return fmt.Errorf("--sections is empty; choose from %s", strings.Join(SectionNames(), ", "))
	}
	for _, s := range o.Sections {
		if !slices.Contains(SectionNames(), s) {
			return fmt.Errorf("--sections: unknown section %q; choose from %s", s, strings.Join(SectionNames(), ", "))
		}
	}
	return nil
}

func (o *PaperOptions) warmReads(keys int) int {
	return min(int(o.WarmReads*float64(keys)), o.WarmMost)
}

// Paper is the evaluation of section 6 of the Karma paper, on this machine.
type Paper struct {
	Machine string `json:"machine"`
	Commit  string `json:"commit"`
	Command string `json:"command"`
	Date    string `json:"date"`

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
	// watched is the time measured so far; mine and busy are the CPU time of the benchmark and of the machine during
	// it.
	watched, mine, busy time.Duration
	// planned are the systems and records that earlier sections have created already.
	planned map[string]bool
}

// MeasurePaper starts the systems of each section, each in its own process, and loads them in turn.
func MeasurePaper(ctx context.Context, o PaperOptions) (*Paper, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	dir, err := makeDataDir(o.Dir)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	f, err := newFleet(&o, dir)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	if o.Progress != nil {
		o.Progress = &timestampedWriter{out: o.Progress, begun: begun}
	}
	p := &paperRun{o: &o, fleet: f, planned: map[string]bool{}, res: &Paper{
		Machine: machine(), Commit: commit(), Command: o.Command, Date: begun.Format("2 January " +
			"2006"), Sections: o.Sections, Rounds: o.Rounds,
		Seconds: o.Length.Seconds(), Clients: o.Clients, ThinkMs: o.Think.Seconds() * 1e3, Keys: o.Keys,
		ValueBytes: o.ValueBytes,
		ReadRatio:  o.ReadRatio, Theta: o.Theta, WarmReads: o.WarmReads, Burst: o.Burst, DataCenters: len(f.base.DCs),
		Rings: len(f.base.Rings),
	}}
	err = p.run(ctx)
	err = errors.Join(err, f.keep(nil))
	if err != nil {
		return nil, err
	}
	p.res.Schemes = schemesIn(p.res.schemes())
	p.res.TookSeconds = time.Since(begun).Seconds()
	if p.watched > 0 {
		p.res.OthersCores = max(0, (p.busy-p.mine).Seconds()/p.watched.Seconds())
	}
	return p.res, nil
}

// timestampedWriter prefixes lines with the time since the start.
type timestampedWriter struct {
	out   io.Writer
	begun time.Time
}

// Write implements io.Writer. It expects one line per call.
func (s *timestampedWriter) Write(line []byte) (int, error) {
	at := time.Since(s.begun)
	if _, err := fmt.Fprintf(s.out, "%2d:%02d %s", int(at.Minutes()), int(at.Seconds())%60, line); err != nil {
		return 0, err
	}
	return len(line), nil
}

// run measures the sections in turn.
func (p *paperRun) run(ctx context.Context) error {
	sections := p.sections()
	left := time.Duration(0)
	for _, s := range sections {
		left += s.estimate
	}
	for i, s := range sections {
		reportProgress(p.o.Progress, "%s (section %d of %d, about %s left)", s.title, i+1, len(sections),
			left.Round(10*time.Second))
		if err := s.measure(ctx); err != nil {
			err = fmt.Errorf("section %s: %w", s.name, err)
			if i == 0 || ctx.Err() != nil {
				return err
			}
			// Keep what was measured so far.
			p.res.Unmeasured = append(p.res.Unmeasured, err.Error())
			reportProgress(p.o.Progress, "%s; continuing with the next section", err)
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
