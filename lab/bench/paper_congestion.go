package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/causalstore/causalstore/lab/local"
)

// Congestion is how a scheme performed while all traffic of one data center was delayed (Figures 7 and 8).
type Congestion struct {
	Scheme string `json:"scheme"`
	AddMs  int    `json:"addMs"`
	DC     string `json:"dataCenter"`
	// From and To bound the congestion, in seconds since the start of Series.
	From   float64      `json:"fromSecond"`
	To     float64      `json:"toSecond"`
	Series []SeriesTick `json:"series"`
	// Kept is the throughput during the congestion divided by that before it, second by second. KeptPerDC is the same
	// ratio for the clients of each data center over the whole time, and KeptMean the geometric mean of these.
	Kept      summary            `json:"keptThroughput"`
	KeptPerDC map[string]float64 `json:"keptThroughputByDataCenter"`
	KeptMean  float64            `json:"keptThroughputGeometricMean"`
	// GetBeforeMs and GetDuringMs are mean read latencies.
	GetBeforeMs float64 `json:"getBeforeMs"`
	GetDuringMs float64 `json:"getDuringMs"`
	Failed      int64   `json:"failed"`
	Example     string  `json:"failure,omitempty"`
}

// SeriesTick is one second of a time series.
type SeriesTick struct {
	Second     float64 `json:"second"`
	Throughput float64 `json:"throughput"`
	// GetMeanMs is 0 if no read ended in this second.
	GetMeanMs float64 `json:"getMeanMs"`
}

// congestionSection loads the schemes concurrently, because the measurement is long and they should share the same
// conditions.
func (p *paperRun) congestionSection() section {
	s := section{name: "congestion", title: "Congestion of " + p.congested()}
	for _, scheme := range congestSchemes {
		s.systems = append(s.systems, systemSpec{scheme: scheme})
	}
	for _, ms := range p.o.Congestion {
		s.estimate += 2*p.o.Around + p.congestFor(ms) + 2*time.Second
	}
	s.measure = func(ctx context.Context) error {
		for _, ms := range p.o.Congestion {
			p.o.progress("  +%d ms for %s", ms, p.congestFor(ms))
			if err := p.congest(ctx, ms); err != nil {
				return err
			}
		}
		return nil
	}
	return s
}

// congested is the name of the congested data center: the first one if the topology lacks the usual one.
func (p *paperRun) congested() string {
	if _, ok := p.fleet.base.ByName(p.o.CongestedDC); ok {
		return p.o.CongestedDC
	}
	return p.fleet.base.DCs[0].Name
}

func (p *paperRun) congestFor(ms int) time.Duration {
	if ms == slices.Max(p.o.Congestion) {
		return p.o.CongestMost
	}
	return p.o.CongestFor
}

func (p *paperRun) congest(ctx context.Context, ms int) error {
	var cells []*Cell
	var systems []*system
	for _, scheme := range congestSchemes {
		c := p.newCell("congestion", systemSpec{scheme: scheme}, fmt.Sprintf("+%d ms", ms), float64(ms))
		s, err := p.fleet.system(ctx, c.spec, c.records())
		if err != nil {
			return err
		}
		cells, systems = append(cells, c), append(systems, s)
	}
	results := make([]*Congestion, len(cells))
	err := forEachConcurrently(len(cells), func(i int) (err error) {
		results[i], err = p.underCongestion(ctx, systems[i], cells[i], ms)
		return err
	})
	p.res.Congestion = append(p.res.Congestion, results...)
	return err
}

func (p *paperRun) underCongestion(ctx context.Context, s *system, c *Cell, ms int) (*Congestion, error) {
	around, during := p.o.Around, p.congestFor(ms)
	l := p.loop(s, c, uint64(ms), 2*around+during)
	l.window = time.Second
	if l.length < 10*time.Second {
		l.window = l.length / 10 // a short test run
	}
	harmed := make(chan error, 1)
	l.ready = func() error {
		go func() { harmed <- s.congestBetween(ctx, p.congested(), ms, around, during) }()
		return nil
	}
	l.over = func() error { return <-harmed }
	s.pulse.measured.Store(true)
	defer s.pulse.measured.Store(false)
	r, err := l.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.spec.name(), err)
	}
	res := &Congestion{Scheme: c.Scheme, AddMs: ms, DC: p.congested(), From: around.Seconds(),
		To: (around + during).Seconds()}
	res.conclude(r, l.window, s.sites)
	return res, s.awaitIdle(ctx, 10*time.Second)
}

// congestBetween congests a deployment for a while.
func (s *system) congestBetween(ctx context.Context, dc string, ms int, after, during time.Duration) error {
	for _, step := range []struct {
		wait time.Duration
		ms   int
	}{{after, ms}, {during, 0}} {
		if err := sleep(ctx, step.wait); err != nil {
			return err
		}
		if err := s.plane.inject(ctx, local.Fault{Kind: "congest", DC: dc, AddMs: step.ms}); err != nil {
			return err
		}
	}
	return nil
}

// inject posts a fault to a deployment.
func (d *deployment) inject(ctx context.Context, f local.Fault) error {
	b, err := json.Marshal(f)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+d.Admin+"/fault", bytes.NewReader(b))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := d.http.Do(req)
	if err != nil {
		return fmt.Errorf("inject %s: %w", f.Kind, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 200)) // the status suffices
		return fmt.Errorf("inject %s: %s: %s", f.Kind, resp.Status, bytes.TrimSpace(b))
	}
	return nil
}

// conclude compares the windows before and during the congestion. Windows in which it starts or ends count as during.
func (c *Congestion) conclude(r *loopResult, window time.Duration, sites []string) {
	width := window.Seconds()
	n := len(r.sites[0].series)
	before := max(1, int(c.From/width))
	until := min(n, int(c.To/width+0.999))
	var rates []float64
	perDC := make([][2]float64, len(sites))
	var gets, getSeconds [2]float64
	for i := range n {
		var all windowResult
		for dc, s := range r.sites {
			w := s.series[i]
			all.ops, all.gets, all.getTime = all.ops+w.ops, all.gets+w.gets, all.getTime+w.getTime
			if phase := phaseOf(i, before, until); phase < 2 {
				perDC[dc][phase] += float64(w.ops)
				gets[phase] += float64(w.gets)
				getSeconds[phase] += w.getTime.Seconds()
			}
		}
		tick := SeriesTick{Second: (float64(i) + 0.5) * width, Throughput: float64(all.ops) / width}
		if all.gets > 0 {
			tick.GetMeanMs = all.getTime.Seconds() * 1e3 / float64(all.gets)
		}
		c.Series = append(c.Series, tick)
		rates = append(rates, tick.Throughput)
	}
	c.keep(rates, before, until)
	c.GetBeforeMs, c.GetDuringMs = 1e3*getSeconds[0]/max(gets[0], 1), 1e3*getSeconds[1]/max(gets[1], 1)
	c.KeptPerDC = map[string]float64{}
	var kept []float64
	for dc, ops := range perDC {
		ratio := ops[1] / float64(max(until-before, 1)) / max(ops[0]/float64(before), 1e-9)
		c.KeptPerDC[sites[dc]] = ratio
		kept = append(kept, ratio)
	}
	c.KeptMean = geometricMean(kept)
	for _, s := range r.sites {
		c.Failed += s.failed
		if s.failed > 0 {
			c.Example = s.example
		}
	}
}

// phaseOf is 0 before, 1 during and 2 after the congestion.
func phaseOf(window, before, until int) int {
	switch {
	case window < before:
		return 0
	case window < until:
		return 1
	}
	return 2
}

func (c *Congestion) keep(rates []float64, before, until int) {
	usual := summaryOf(rates[:before]).Mean
	var kept []float64
	for _, r := range rates[before:until] {
		kept = append(kept, r/max(usual, 1e-9))
	}
	c.Kept = summaryOf(kept)
}
