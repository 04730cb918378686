package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/causalstore/causalstore/lab/envoy"
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
	Setup
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
}

// FullRegions returns the options of a full run.
func FullRegions() *RegionsOptions {
	return &RegionsOptions{Envoy: os.Getenv(envoy.ProgramVariable), Forms: RegionForms,
		Delays: []time.Duration{40 * time.Millisecond, 125 * time.Millisecond}, Window: 3 << 20, Rounds: 3,
		Length: 2 * time.Second, Connections: 50, Keys: 10000, ValueBytes: 1024, Probes: 200, BacklogBytes: 100_000_000,
		Cuts: 10, ShortestCut: 3 * time.Second, LongestCut: 20 * time.Second}
}

func (o *RegionsOptions) experiment() *Experiment {
	return &Experiment{
		Name:  "regions",
		Short: "Measure two regions with a long path between them: latency, cost, propagation, backlogs and cuts",
		Long: `Runs two data centers, each a region and a ring of its own, with each part in its
own process and a path between them that delays every byte. It does so in three forms, which take
turns: parts that dial each other without TLS, with mutual TLS, and with mutual TLS through an Envoy
on each side. The path is emulated on this machine, by the bytes of TCP connections.

It prints what clients of one region see, how much later than the delay of the path a write is seen
in the other region, what each kind of process uses, how many bytes cross the path, how fast a
backlog that was written in a cut gets over it, by what one TCP connection carries, and how long
after cuts writes cross it again. Requires redis-server and Linux.`,
		Example: `  causalstore bench regions --quick
  causalstore bench regions --delays 125ms --forms edges --rounds 1 --cuts 0
  causalstore bench regions --rounds 1 --backlog-mb 0 --cuts 10 --forms tls,edges`,
		quick:   "measure one round of one second, a backlog of 20 MB and two short cuts, in about two minutes",
		quickly: map[string]string{"seconds": "1", "rounds": "1", "backlog-mb": "20", "cuts": "2", "longest-cut": "5s"},
		setup:   &o.Setup, declare: o.declare, measure: measuring(o.Measure),
	}
}

// maxBacklogMB is well below a coordinator's write buffer of 256 MiB, which also counts keys.
const maxBacklogMB = 150

func (o *RegionsOptions) declare(f *flags) {
	f.StringVar(&o.Envoy, "envoy", o.Envoy,
		"program of Envoy, for the form with edges (default: environment variable "+envoy.ProgramVariable+")")
	f.StringSliceVar(&o.Forms, "forms", o.Forms, "forms to measure")
	f.DurationSliceVar(&o.Delays, "delays", o.Delays, "delays of the path, one way")
	f.Var(&numberOf[int]{&o.Window, 1 << 20}, "window-mb",
		"what one TCP connection may have under way, in MiB; 3 is about what Linux allows by default")
	f.in(time.Second, &o.Length, "seconds", "length of each round of a command in a form")
	f.count(&o.Rounds, "rounds", "rounds of each form")
	f.count(&o.Connections, "connections", "number of client connections")
	f.count(&o.Keys, "keys", "number of keys")
	f.count(&o.ValueBytes, "value-bytes", "size of values in bytes")
	f.count(&o.Probes, "probes", "writes of each round that are followed to the other region")
	f.Var(&numberOf[int]{&o.BacklogBytes, 1e6}, "backlog-mb",
		"values written while the path is cut, in MB; 0 measures no backlog")
	f.IntVar(&o.Cuts, "cuts", o.Cuts, "cuts after which the first writes are followed")
	f.DurationVar(&o.ShortestCut, "shortest-cut", o.ShortestCut, "length of the first cut")
	f.DurationVar(&o.LongestCut, "longest-cut", o.LongestCut, "length of the last cut")
	f.positive("seconds", "delays")
	f.notNegative("cuts", "shortest-cut")
	f.between(0, maxBacklogMB, "backlog-mb")
	f.between(64./1024, 1024, "window-mb")
	f.between(0, 1, "delays")
	f.oneOf(RegionForms, "forms")
	f.must(func() error {
		switch {
		case len(o.Forms) == 0 || len(o.Delays) == 0:
			return errors.New("--forms, --delays: give at least one")
		case o.LongestCut < o.ShortestCut:
			return errors.New("--longest-cut must be at least --shortest-cut")
		}
		return nil
	})
}

// Regions is what two regions cost and take.
type Regions struct {
	Origin
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

// RegionLoad is what the clients of one region measure with one command. Costs are those of both regions.
type RegionLoad struct {
	*Side

	sent, back int64 // bytes on the path
}

// Measure measures a pair of regions in each form and with each delay.
func (o *RegionsOptions) Measure(ctx context.Context) (*Regions, error) {
	res := &Regions{Origin: o.origin(), Window: o.Window, Connections: o.Connections, Keys: o.Keys,
		ValueBytes: o.ValueBytes, Rounds: o.Rounds, Seconds: o.Length.Seconds(), BacklogBytes: o.BacklogBytes}
	if at := slices.Index(o.Forms, formEdges); at >= 0 && o.Envoy == "" {
		o.Forms = slices.Delete(slices.Clone(o.Forms), at, at+1)
		res.Omitted = "The form with edges is left out: give the program of Envoy with --envoy or in " +
			"CAUSALSTORE_ENVOY; `go run ./e2e/cluster envoy` downloads one."
		o.progress("%s", res.Omitted)
	}
	return res, o.withDataDir(func(dir string) error {
		for _, delay := range o.Delays {
			d := &RegionDelay{DelayMs: delay.Seconds() * 1e3}
			res.Delays = append(res.Delays, d)
			if err := d.measure(ctx, o, filepath.Join(dir, delay.String()), delay); err != nil {
				return fmt.Errorf("with a delay of %s: %w", delay, err)
			}
		}
		return nil
	})
}

// measure starts a pair in each form and measures them in turns.
func (d *RegionDelay) measure(ctx context.Context, o *RegionsOptions, dir string, delay time.Duration) (err error) {
	var pairs []*pair
	defer func() {
		for _, p := range pairs {
			err = errors.Join(err, p.stop())
		}
	}()
	for _, form := range o.Forms {
		o.progress("delay %s: starting two regions, %s", delay, form)
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
			o.progress("delay %s: round %d of %d, %s", delay, round+1, o.Rounds, p.result.Form)
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
	return &RegionForm{Form: form, Get: &RegionLoad{Side: newSide("")}, Set: &RegionLoad{Side: newSide("")},
		propagation: newLatency()}
}

// conclude computes the figures from the rounds.
func (f *RegionForm) conclude() {
	f.Get.conclude()
	f.Set.conclude()
	f.PropagationP50Ms, f.PropagationP99Ms = float64(f.propagation.ValueAtQuantile(50))/1e6,
		float64(f.propagation.ValueAtQuantile(99))/1e6
	f.Propagations = f.propagation.TotalCount()
	f.SentPerWrite, f.BackPerWrite = perOp(float64(f.Set.sent), f.Set.ops), perOp(float64(f.Set.back), f.Set.ops)
	f.Backlog, f.BacklogShare = spreadOf(f.backlogs), spreadOf(f.shares)
	f.Steady, f.SteadyShare = spreadOf(f.steadyBacklogs), spreadOf(f.steadyShares)
	f.Heal = spreadOf(f.HealsMs)
}
