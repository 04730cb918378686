package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// PaperOptions say how long and how hard to measure.
type PaperOptions struct {
	Binary string
	Dir    string
	Rounds int
	// Length is that of a round on one side; Warm goes before the first one, on each side.
	Length, Warm time.Duration
	// Clients in a closed loop, spread over the data centres; each is a session. Between an answer and the next request
	// each waits for Think.
	Clients    int
	Think      time.Duration
	Keys       int
	ValueBytes int
	ReadRatio  float64
	Theta      float64
	// Topology is a file; "" is the default one.
	Topology string
	Seed     uint64
	Progress io.Writer
}

// Figures are one of the two systems.
type Figures struct {
	Throughput spread  `json:"throughput"`
	GetMeanMs  float64 `json:"getMeanMs"`
	GetP50Ms   float64 `json:"getP50Ms"`
	GetP90Ms   float64 `json:"getP90Ms"`
	GetP99Ms   float64 `json:"getP99Ms"`
	PutP50Ms   float64 `json:"putP50Ms"`
	PutP99Ms   float64 `json:"putP99Ms"`
	Failed     int64   `json:"failed"`
	// Shares of reads: where they were answered, those of bound sessions, and those that returned an in-flight value.
	Own      float64 `json:"own"`
	Cache    float64 `json:"cache"`
	Local    float64 `json:"local"`
	Remote   float64 `json:"remote"`
	Bound    float64 `json:"bound"`
	InFlight float64 `json:"inFlight"`

	rounds   []float64
	perDC    [][]float64 // by DC, operations a second of each round
	get, put *hdrhistogram.Histogram
	reads    causal.SidecarStats
}

// NearReads is the share of reads that no other data centre was asked for.
func (f *Figures) NearReads() float64 { return f.Own + f.Cache + f.Local }

// Paper is the evaluation of Karma's section 6, on this machine: dynamic rings with caches, against sessions that stay in
// the ring of their data centre (COPS-PR).
type Paper struct {
	Machine    string  `json:"machine"`
	Clients    int     `json:"clients"`
	ThinkMs    float64 `json:"thinkMs"`
	Keys       int     `json:"keys"`
	ValueBytes int     `json:"valueBytes"`
	ReadRatio  float64 `json:"readRatio"`
	Theta      float64 `json:"theta"`
	Rounds     int     `json:"rounds"`
	Seconds    float64 `json:"secondsPerRound"`
	Karma      Figures `json:"karma"`
	COPSPR     Figures `json:"copsPR"`
	// Ratio is the throughput of a round by that of COPS-PR just after.
	Ratio spread `json:"ratio"`
	// PerDC is the same for the clients of each data centre.
	PerDC map[string]spread `json:"ratioByDataCenter"`
}

// paperSide is a running system and what is measured of it.
type paperSide struct {
	name    string
	args    []string
	plane   *deployment
	figures *Figures
}

// MeasurePaper runs both systems at a time, each in a process of its own, and loads them in turn.
func MeasurePaper(ctx context.Context, o PaperOptions) (*Paper, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	if dir, err = os.MkdirTemp(dir, "causalstore-bench-"); err != nil {
		return nil, fmt.Errorf("make a folder for the data: %w", err)
	}
	defer os.RemoveAll(dir)
	res := &Paper{Machine: machine(), Clients: o.Clients, ThinkMs: o.Think.Seconds() * 1e3, Keys: o.Keys, ValueBytes: o.ValueBytes, ReadRatio: o.ReadRatio, Theta: o.Theta,
		Rounds: o.Rounds, Seconds: o.Length.Seconds()}
	sides := []*paperSide{
		{name: "CausalStore", figures: &res.Karma},
		{name: "COPS-PR", figures: &res.COPSPR, args: []string{"--binding", "static", "--cache=false"}},
	}
	for _, s := range sides {
		s.figures.get, s.figures.put = newLatency(), newLatency()
		say(o.Progress, "%s: starting, writing %d keys, warming up for %s", s.name, o.Keys, o.Warm)
		if err := s.start(ctx, o, filepath.Join(dir, s.name)); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		defer s.plane.stop()
	}
	for round := range o.Rounds {
		for _, s := range sides {
			say(o.Progress, "round %d of %d: %s", round+1, o.Rounds, s.name)
			if err := s.measure(ctx, o, uint64(round)+1); err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	var ratios []float64
	for i, r := range res.Karma.rounds {
		ratios = append(ratios, r/res.COPSPR.rounds[i])
	}
	res.Ratio = spreadOf(ratios)
	res.PerDC = map[string]spread{}
	for dc, e := range sides[0].plane.DataCenters {
		ratios = ratios[:0]
		for i, r := range res.Karma.perDC[dc] {
			ratios = append(ratios, r/res.COPSPR.perDC[dc][i])
		}
		res.PerDC[e.Name] = spreadOf(ratios)
	}
	res.Karma.conclude()
	res.COPSPR.conclude()
	return res, nil
}

const paperPrefix = "user"

func (s *paperSide) start(ctx context.Context, o PaperOptions, dir string) (err error) {
	args := append([]string{"--session-scope", "connection"}, s.args...)
	if o.Topology != "" {
		file, err := filepath.Abs(o.Topology)
		if err != nil {
			return err
		}
		args = append(args, "--topology", file)
	}
	if s.plane, err = startDeployment(ctx, o.Binary, dir, args...); err != nil {
		return err
	}
	err = sendAll(s.plane.DataCenters[0].RESP, setFrames(paperPrefix, o.Keys, o.ValueBytes))
	if err == nil {
		_, _, err = s.plane.drain(ctx)
	}
	if err == nil && o.Warm > 0 {
		_, err = s.loop(o, o.Warm, 0).run(ctx)
	}
	if err != nil {
		return errors.Join(err, s.plane.stop())
	}
	return nil
}

// loop is the load, as YCSB makes it.
func (s *paperSide) loop(o PaperOptions, length time.Duration, round uint64) *closedLoop {
	l := &closedLoop{clients: o.Clients, length: length, think: o.Think, gets: getFrames(paperPrefix, o.Keys),
		sets: setFrames(paperPrefix, o.Keys, o.ValueBytes), reads: o.ReadRatio, popular: newPopularity(o.Keys, o.Theta), seed: o.Seed + round}
	for _, e := range s.plane.DataCenters {
		l.addrs = append(l.addrs, e.RESP)
	}
	return l
}

func (s *paperSide) measure(ctx context.Context, o PaperOptions, round uint64) error {
	before, err := s.reads(ctx)
	if err != nil {
		return err
	}
	r, err := s.loop(o, o.Length, round).run(ctx)
	if err != nil {
		return err
	}
	after, err := s.reads(ctx)
	if err != nil {
		return err
	}
	f := s.figures
	f.rounds = append(f.rounds, r.throughput())
	f.perDC = append(f.perDC, make([][]float64, len(r.ops)-len(f.perDC))...)
	for dc, n := range r.ops {
		f.perDC[dc] = append(f.perDC[dc], float64(n)/r.elapsed.Seconds())
	}
	f.get.Merge(r.get)
	f.put.Merge(r.put)
	f.Failed += r.failed
	f.reads = plus(f.reads, before, after)
	_, _, err = s.plane.drain(ctx)
	return err
}

// reads sums the counters of all sidecars.
func (s *paperSide) reads(ctx context.Context) (causal.SidecarStats, error) {
	st, err := s.plane.state(ctx)
	var sum causal.SidecarStats
	for _, dc := range st.DataCenters {
		sum = plus(sum, causal.SidecarStats{}, dc.Sidecar)
	}
	return sum, err
}

// plus adds what has come between two states of the counters that are of interest.
func plus(sum, before, after causal.SidecarStats) causal.SidecarStats {
	sum.Gets += after.Gets - before.Gets
	sum.Own += after.Own - before.Own
	sum.CacheHits += after.CacheHits - before.CacheHits
	sum.Local += after.Local - before.Local
	sum.Remote += after.Remote - before.Remote
	sum.Bound += after.Bound - before.Bound
	sum.InFlight += after.InFlight - before.InFlight
	return sum
}

func (f *Figures) conclude() {
	ms := func(h *hdrhistogram.Histogram, q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1e6 }
	f.Throughput = spreadOf(f.rounds)
	f.GetMeanMs, f.GetP50Ms, f.GetP90Ms, f.GetP99Ms = f.get.Mean()/1e6, ms(f.get, 50), ms(f.get, 90), ms(f.get, 99)
	f.PutP50Ms, f.PutP99Ms = ms(f.put, 50), ms(f.put, 99)
	r := f.reads
	share := func(n, of uint64) float64 { return float64(n) / float64(max(of, 1)) }
	all := r.Own + r.CacheHits + r.Local + r.Remote
	f.Own, f.Cache, f.Local, f.Remote = share(r.Own, all), share(r.CacheHits, all), share(r.Local, all), share(r.Remote, all)
	f.Bound, f.InFlight = share(r.Bound, r.Gets), share(r.InFlight, r.Gets)
}

// sendAll sends every request once over one connection, in lots.
func sendAll(addr string, f frames) error {
	c, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	const lot = 256
	var batch []byte
	in := make([]byte, 64<<10)
	for at := 0; at < len(f.requests); at += lot {
		requests := f.requests[at:min(at+lot, len(f.requests))]
		batch = batch[:0]
		for _, r := range requests {
			batch = append(batch, r...)
		}
		if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
			return err
		}
		if _, err := c.Write(batch); err != nil {
			return fmt.Errorf("write keys: %w", err)
		}
		for left, got := len(requests), 0; left > 0; {
			n, err := c.Read(in[got:])
			if err != nil {
				return fmt.Errorf("write keys: %w", err)
			}
			got += n
			replies, wrong, used, err := skipReplies(in[:got], left, f.reply)
			if err == nil && wrong > 0 {
				err = fmt.Errorf("refused: %.120q", in[:used])
			}
			if err != nil {
				return fmt.Errorf("write keys: %w", err)
			}
			left, got = left-replies, copy(in, in[used:got])
		}
	}
	return nil
}
