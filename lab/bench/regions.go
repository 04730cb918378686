package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The forms of a pair of regions.
const (
	formPlain = "plain"
	formTLS   = "tls"
	formEdges = "edges"
)

// RegionForms are the forms of a pair of regions: parts that dial each other without TLS, with mutual TLS, and with
// mutual TLS through an Envoy on each side.
var RegionForms = []string{formPlain, formTLS, formEdges}

// RegionsOptions describe what to measure of two data centers with a long path between them.
type RegionsOptions struct {
	Binary string
	Dir    string
	// Envoy is the program for the form with edges, which is left out without it.
	Envoy string
	Forms []string
	// Delays are the delays of the path, one way, and Window is what one TCP connection may have under way on it.
	Delays []time.Duration
	Window int
	// Each of Rounds measures every form once, for Length with GETs and for Length with SETs.
	Rounds      int
	Length      time.Duration
	Connections int
	Keys        int
	ValueBytes  int
	// Probes is how many writes a round follows to the other region.
	Probes int
	// BacklogBytes are the values that are written in a round while the path is cut; 0 measures no backlog.
	BacklogBytes int
	// Cuts is how often the path is cut to see when it is used again, for ShortestCut to LongestCut.
	Cuts                    int
	ShortestCut, LongestCut time.Duration
	Progress                io.Writer
}

// Regions is what two regions cost and take.
type Regions struct {
	Machine      string         `json:"machine"`
	Window       int            `json:"windowBytes"`
	Connections  int            `json:"connections"`
	Keys         int            `json:"keys"`
	ValueBytes   int            `json:"valueBytes"`
	Rounds       int            `json:"rounds"`
	Seconds      float64        `json:"secondsPerRound"`
	BacklogBytes int            `json:"backlogBytes"`
	Delays       []*RegionDelay `json:"delays"`
	// Omitted says which forms were not measured, and why.
	Omitted string `json:"omitted,omitempty"`
}

// RegionDelay is what was measured with one delay.
type RegionDelay struct {
	DelayMs float64 `json:"delayMs"`
	// Ceiling is what one TCP connection carries over the path, in bytes per second.
	Ceiling spread        `json:"ceilingBytesPerSecond"`
	Forms   []*RegionForm `json:"forms"`
}

// RegionForm is one form of a pair of regions. Clients are those of one region.
type RegionForm struct {
	Form string      `json:"form"`
	Get  *RegionLoad `json:"get"`
	Set  *RegionLoad `json:"set"`
	// Propagation is the time from sending a write in one region until a client of the other one sees it, less the
	// delay of the path.
	PropagationP50Ms float64 `json:"propagationP50Ms"`
	PropagationP99Ms float64 `json:"propagationP99Ms"`
	Propagations     int64   `json:"propagations"`
	// SentPerWrite and BackPerWrite are the bytes that cross the path for a SET.
	SentPerWrite float64 `json:"sentBytesPerWrite"`
	BackPerWrite float64 `json:"backBytesPerWrite"`
	// Backlog is the rate of the values of a backlog, in bytes per second, from the heal to the last acknowledgement,
	// and Steady that of those from the first tenth to the last. BacklogShare and SteadyShare are by what one TCP
	// connection carries.
	Backlog      spread `json:"backlogBytesPerSecond"`
	BacklogShare spread `json:"backlogShare"`
	Steady       spread `json:"steadyBytesPerSecond"`
	SteadyShare  spread `json:"steadyShare"`
	// HealsMs are how long after each cut a write of each region was seen in the other one.
	HealsMs []float64 `json:"healsMs,omitempty"`
	Heal    spread    `json:"healMs"`

	propagation                  *hdrhistogram.Histogram
	backlogs, shares             []float64
	steadyBacklogs, steadyShares []float64
}

// RegionLoad is what the clients of one region measure with one command.
type RegionLoad struct {
	Side
	// Costs are those of the processes of both regions, by kind.
	Costs []ProcessCost `json:"costs"`

	cpu        map[string]time.Duration
	sent, back int64 // bytes on the path
}

// MeasureRegions measures a pair of regions in each form and with each delay.
func MeasureRegions(ctx context.Context, o RegionsOptions) (*Regions, error) {
	dir, err := makeDataDir(o.Dir)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	res := &Regions{Machine: machine(), Window: o.Window, Connections: o.Connections, Keys: o.Keys,
		ValueBytes: o.ValueBytes, Rounds: o.Rounds,
		Seconds: o.Length.Seconds(), BacklogBytes: o.BacklogBytes}
	if at := slices.Index(o.Forms, formEdges); at >= 0 && o.Envoy == "" {
		o.Forms = slices.Delete(slices.Clone(o.Forms), at, at+1)
		res.Omitted = "The form with edges is left out: give the program of Envoy with --envoy or in " +
			"CAUSALSTORE_ENVOY; `go run ./e2e/cluster envoy` downloads one."
		reportProgress(o.Progress, "%s", res.Omitted)
	}
	for _, delay := range o.Delays {
		d := &RegionDelay{DelayMs: delay.Seconds() * 1e3}
		res.Delays = append(res.Delays, d)
		if err := d.measure(ctx, o, filepath.Join(dir, delay.String()), delay); err != nil {
			return nil, fmt.Errorf("with a delay of %s: %w", delay, err)
		}
	}
	return res, nil
}

// measure starts a pair in each form and measures them in turns.
func (d *RegionDelay) measure(ctx context.Context, o RegionsOptions, dir string, delay time.Duration) (err error) {
	var pairs []*pair
	defer func() {
		for _, p := range pairs {
			err = errors.Join(err, p.stop())
		}
	}()
	for _, form := range o.Forms {
		reportProgress(o.Progress, "delay %s: starting two regions, %s", delay, form)
		p, err := startPair(ctx, o, form, filepath.Join(dir, form), delay)
		if err != nil {
			return fmt.Errorf("%s: %w", form, err)
		}
		pairs = append(pairs, p)
		d.Forms = append(d.Forms, p.result)
	}
	var ceilings []float64
	for round := range o.Rounds {
		ceiling, err := measureCeiling(ctx, o, delay)
		if err != nil {
			return err
		}
		ceilings = append(ceilings, ceiling)
		for _, p := range pairs {
			reportProgress(o.Progress, "delay %s: round %d of %d, %s", delay, round+1, o.Rounds, p.result.Form)
			if err := p.measure(ctx, ceiling); err != nil {
				return fmt.Errorf("%s: %w", p.result.Form, err)
			}
		}
	}
	d.Ceiling = spreadOf(ceilings)
	if err := measureHeals(ctx, o, pairs); err != nil {
		return err
	}
	for _, p := range pairs {
		p.result.conclude()
	}
	return nil
}

func newRegionForm(form string) *RegionForm {
	load := func() *RegionLoad {
		return &RegionLoad{Side: Side{latency: newLatency()}, cpu: map[string]time.Duration{}}
	}
	return &RegionForm{Form: form, Get: load(), Set: load(), propagation: newLatency()}
}

// conclude computes the figures from the rounds.
func (f *RegionForm) conclude() {
	for _, l := range []*RegionLoad{f.Get, f.Set} {
		l.Side.conclude()
		for _, kind := range pairKinds() {
			if cpu, ran := l.cpu[kind]; ran {
				l.Costs = append(l.Costs, ProcessCost{Process: kind, CPUMs: perOp(float64(cpu.Microseconds()), l.ops)})
			}
		}
	}
	f.PropagationP50Ms, f.PropagationP99Ms = float64(f.propagation.ValueAtQuantile(50))/1e6,
		float64(f.propagation.ValueAtQuantile(99))/1e6
	f.Propagations = f.propagation.TotalCount()
	f.SentPerWrite, f.BackPerWrite = perOp(float64(f.Set.sent), f.Set.ops), perOp(float64(f.Set.back), f.Set.ops)
	f.Backlog, f.BacklogShare = spreadOf(f.backlogs), spreadOf(f.shares)
	f.Steady, f.SteadyShare = spreadOf(f.steadyBacklogs), spreadOf(f.steadyShares)
	f.Heal = spreadOf(f.HealsMs)
}
