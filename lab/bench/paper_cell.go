package bench

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Cell is one scheme under one load: a bar or a point of a chart.
type Cell struct {
	Section string `json:"section"`
	Scheme  string `json:"scheme"`
	// Label and X are its position on the axis of its section.
	Label string  `json:"label"`
	X     float64 `json:"x"`

	ReadRatio float64 `json:"readRatio"`
	Clients   int     `json:"clients"`
	// Load bounds the rate to a share of what the clients reach without a bound; 0 is no bound.
	Load        float64 `json:"load,omitempty"`
	Keys        int     `json:"keys"`
	ValueBytes  int     `json:"valueBytes"`
	DataCenters int     `json:"dataCenters"`

	Figures

	spec     systemSpec
	rounds   []round
	get, put *hdrhistogram.Histogram
	sum      counters
	elapsed  time.Duration
	ops      int64
}

// round holds the values of one round.
type round struct {
	rates                        []float64 // by data center
	throughput, getMs            float64
	near, bound, cores, resident float64
}

// Figures are the results of a cell.
type Figures struct {
	// Throughput is operations per second of all clients; PerDC is the same by data center.
	Throughput summary            `json:"throughput"`
	PerDC      map[string]summary `json:"throughputByDataCenter,omitempty"`
	// Get and Put are latencies as seen by clients. GetMeanMs is the mean per round.
	Get       Times   `json:"get"`
	Put       Times   `json:"put"`
	GetMeanMs summary `json:"getMeanMsByRound"`
	// GetCurve is the distribution of read latencies: milliseconds at some percentiles.
	GetCurve []CurvePoint `json:"getCurve,omitempty"`
	Failed   int64        `json:"failed"`
	Example  string       `json:"failure,omitempty"`

	// Shares of reads by where they were answered. Near is all but Remote.
	Near   summary `json:"near"`
	Own    float64 `json:"own"`
	Copies float64 `json:"nearCopies"`
	Home   float64 `json:"home"`
	Cache  float64 `json:"cache"`
	Local  float64 `json:"local"`
	Remote float64 `json:"remote"`
	// Bound is the share of reads by sessions under dynamic ring restriction, BoundMs how long a session stays
	// restricted, and InFlightReads the share of reads that returned a version that was not complete yet.
	Bound         summary `json:"bound"`
	BoundMs       float64 `json:"boundMs"`
	InFlightReads float64 `json:"inFlightReads"`

	// Per operation, between data centers. Metadata is everything but keys and values.
	WANMessages      float64 `json:"wanMessagesPerOperation"`
	WANBytes         float64 `json:"wanBytesPerOperation"`
	WANMetadataBytes float64 `json:"wanMetadataBytesPerOperation"`

	// Cores is the CPU time of the deployment per second, ResidentMiB its memory; the other two are the same per 1,000
	// operations per second.
	Cores       summary `json:"cores"`
	ResidentMiB summary `json:"residentMiB"`
	CoresPerK   float64 `json:"coresPer1000OperationsASecond"`
	MiBPerK     float64 `json:"residentMiBPer1000OperationsASecond"`

	Pairs    []PairTimes `json:"ringPairs,omitempty"`
	Complete []RingTime  `json:"complete,omitempty"`
}

// CurvePoint is one point of a distribution.
type CurvePoint struct {
	Percent float64 `json:"percent"`
	Ms      float64 `json:"ms"`
}

// PairTimes is how long writes accepted in one ring take to become visible in another ring, and to be acknowledged by
// it.
type PairTimes struct {
	From         string `json:"from"`
	To           string `json:"to"`
	Visible      Times  `json:"visible"`
	Acknowledged Times  `json:"acknowledged"`
}

// RingTime is how long writes accepted in a ring take to complete.
type RingTime struct {
	Ring     string `json:"ring"`
	Complete Times  `json:"complete"`
}

// add adds the result of a round.
func (c *Cell) add(r *loopResult, d counters) {
	if c.get == nil {
		c.get, c.put = newLatency(), newLatency()
	}
	one := round{rates: r.rates(), throughput: r.throughput(), cores: d.cpu.Seconds() / max(r.elapsed.Seconds(), 1e-9),
		resident: float64(d.resident) / (1 << 20)}
	get := newLatency()
	for _, s := range r.sites {
		get.Merge(s.get)
		c.put.Merge(s.put)
		c.Failed += s.failed
		if s.failed > 0 {
			c.Example = s.example
		}
	}
	c.get.Merge(get)
	one.getMs = get.Mean() / 1e6
	answered := answeredReads(d.reads)
	one.near, one.bound = partOf(answered-d.reads.RemoteReads, answered), partOf(d.reads.BoundGets, d.reads.Gets)
	c.rounds = append(c.rounds, one)
	c.sum.add(d)
	c.elapsed += r.elapsed
	c.ops += r.ops()
}

// partOf is a share; 0 of nothing.
func partOf(n, of uint64) float64 { return float64(n) / float64(max(of, 1)) }

// each applies f to every round.
func (c *Cell) each(f func(round) float64) []float64 {
	out := make([]float64, len(c.rounds))
	for i, r := range c.rounds {
		out[i] = f(r)
	}
	return out
}

// conclude computes the figures from the rounds. Sites are the names of the data centers.
func (c *Cell) conclude(sites []string) {
	c.Throughput = summaryOf(c.each(func(r round) float64 { return r.throughput }))
	c.GetMeanMs = summaryOf(c.each(func(r round) float64 { return r.getMs }))
	c.Near = summaryOf(c.each(func(r round) float64 { return r.near }))
	c.Bound = summaryOf(c.each(func(r round) float64 { return r.bound }))
	c.Cores = summaryOf(c.each(func(r round) float64 { return r.cores }))
	c.ResidentMiB = summaryOf(c.each(func(r round) float64 { return r.resident }))
	c.PerDC = map[string]summary{}
	for i, name := range sites {
		c.PerDC[name] = summaryOf(c.each(func(r round) float64 { return r.rates[i] }))
	}
	c.Get, c.Put = latencies(c.get), latencies(c.put)
	c.GetCurve = curve(c.get)
	r := c.sum.reads
	all := answeredReads(r)
	c.Copies, c.Home = partOf(r.NearHits, all), partOf(r.HomeReads, all)
	c.Own, c.Cache, c.Local, c.Remote = partOf(r.OwnReads, all), partOf(r.CacheHits, all), partOf(r.LocalReads, all),
		partOf(r.RemoteReads, all)
	c.InFlightReads = partOf(r.InFlightReads, r.Gets)
	c.BoundMs = float64(r.BoundNs) / 1e6 / float64(max(r.Bindings, 1))
	ops := uint64(max(c.ops, 1))
	c.WANMessages, c.WANBytes = partOf(c.sum.wan.Messages, ops), partOf(c.sum.wan.Bytes, ops)
	c.WANMetadataBytes = partOf(c.sum.wan.Bytes-c.sum.wan.PayloadBytes, ops)
	if thousands := c.Throughput.Mean / 1000; thousands > 0 {
		c.CoresPerK, c.MiBPerK = c.Cores.Mean/thousands, c.ResidentMiB.Mean/thousands
	}
	for _, p := range c.sum.pairs {
		c.Pairs = append(c.Pairs, PairTimes{From: p.From, To: p.To, Visible: timesOf(p.Visible),
			Acknowledged: timesOf(p.Acknowledged)})
	}
	for _, r := range c.sum.inFlight {
		c.Complete = append(c.Complete, RingTime{Ring: r.Ring, Complete: timesOf(r.Complete)})
	}
}

func latencies(h *hdrhistogram.Histogram) Times {
	if h.TotalCount() == 0 {
		return Times{}
	}
	ms := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1e6 }
	return Times{Count: uint64(h.TotalCount()), MeanMs: h.Mean() / 1e6, P50Ms: ms(50), P90Ms: ms(90), P99Ms: ms(99),
		P999Ms: ms(99.9)}
}

func curve(h *hdrhistogram.Histogram) []CurvePoint {
	if h.TotalCount() == 0 {
		return nil
	}
	var points []CurvePoint
	for p := 2.0; p < 99; p += 2 {
		points = append(points, CurvePoint{p, float64(h.ValueAtQuantile(p)) / 1e6})
	}
	for _, p := range []float64{99, 99.5, 99.9} {
		points = append(points, CurvePoint{p, float64(h.ValueAtQuantile(p)) / 1e6})
	}
	return points
}
