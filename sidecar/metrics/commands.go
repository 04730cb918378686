package metrics

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// commandBuckets are the upper bounds of the latency histogram, in seconds: from a read of an own write in memory to a
// retried read in another region.
var commandBuckets = [...]float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1,
	2.5, 5, 10}

// Commands counts the commands and connections of Redis clients. It implements front.Metrics and prometheus.Collector.
type Commands struct {
	latency        *prometheus.Desc
	errors         *prometheus.CounterVec
	connections    prometheus.Gauge
	opened         prometheus.Counter
	refused        prometheus.Counter
	evicted        prometheus.Counter
	protocolErrors prometheus.Counter
	panics         prometheus.Counter

	mu     sync.Mutex // guards updates of byName
	byName atomic.Pointer[map[string]*commandSeries]
}

// commandSeries are the series of one command, cached to avoid a lookup by label.
type commandSeries struct {
	latency histogram
	errors  prometheus.Counter
}

// histogram counts durations by commandBuckets. Prometheus' own takes one at a time, which costs as much as to answer a
// GET of a pipeline.
type histogram struct {
	counts [len(commandBuckets) + 1]atomic.Uint64 // by bucket; the last one is above all of them
	nanos  atomic.Uint64                          // their sum
}

// observe counts n durations of so many seconds.
func (h *histogram) observe(n int, seconds float64) {
	i, _ := slices.BinarySearch(commandBuckets[:], seconds)
	h.counts[i].Add(uint64(n))
	h.nanos.Add(uint64(max(seconds, 0)*1e9) * uint64(n))
}

// metric returns the histogram as Prometheus has it.
func (h *histogram) metric(desc *prometheus.Desc, labels ...string) prometheus.Metric {
	upTo, count := make(map[float64]uint64, len(commandBuckets)), uint64(0)
	for i, bound := range commandBuckets {
		count += h.counts[i].Load()
		upTo[bound] = count
	}
	count += h.counts[len(commandBuckets)].Load()
	return prometheus.MustNewConstHistogram(desc, count, float64(h.nanos.Load())/1e9, upTo, labels...)
}

// NewCommands returns counters at zero.
func NewCommands() *Commands {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: "redis", Name: name,
			Help: help})
	}
	c := &Commands{
		latency: prometheus.NewDesc(prometheus.BuildFQName(namespace, "redis", "command_duration_seconds"),
			"Time until the reply of a command was ready (of pipelined GETs that were read together: the replies of "+
				"all) or, for a pipelined write, until it was issued, in seconds.",
			[]string{"command"}, nil),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: "redis",
			Name: "command_errors_total",
			Help: "Commands answered with an error."}, []string{"command"}),
		connections: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Subsystem: "redis",
			Name: "connections",
			Help: "Open connections of Redis clients."}),
		opened:  counter("connections_opened_total", "Connections opened by Redis clients."),
		refused: counter("connections_refused_total", "Connections refused because the limit was reached."),
		evicted: counter("connections_evicted_total",
			"Connections closed because all clients together took more memory than the limit."),
		protocolErrors: counter("protocol_errors_total", "Connections closed because of malformed input."),
		panics: counter("panics_total",
			"Connections closed because a command panicked. This is always a bug; please report it."),
	}
	c.byName.Store(&map[string]*commandSeries{})
	return c
}

// ConnectionOpened implements front.Metrics.
func (c *Commands) ConnectionOpened() { c.opened.Inc(); c.connections.Inc() }

// ConnectionClosed implements front.Metrics.
func (c *Commands) ConnectionClosed() { c.connections.Dec() }

// ConnectionRefused implements front.Metrics.
func (c *Commands) ConnectionRefused() { c.refused.Inc() }

// ConnectionEvicted implements front.Metrics.
func (c *Commands) ConnectionEvicted() { c.evicted.Inc() }

// ProtocolError implements front.Metrics.
func (c *Commands) ProtocolError() { c.protocolErrors.Inc() }

// Panicked implements front.Metrics.
func (c *Commands) Panicked() { c.panics.Inc() }

// CommandsDone implements front.Metrics.
func (c *Commands) CommandsDone(name string, n, failed int, seconds float64) {
	s := (*c.byName.Load())[name]
	if s == nil {
		s = c.addCommand(name)
	}
	s.latency.observe(n, seconds)
	if failed > 0 {
		s.errors.Add(float64(failed))
	}
}

// addCommand adds the series of a command. Names come from the command table, so their number is bounded.
func (c *Commands) addCommand(name string) *commandSeries {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := (*c.byName.Load())[name]; s != nil {
		return s
	}
	more := maps.Clone(*c.byName.Load())
	s := &commandSeries{errors: c.errors.WithLabelValues(name)}
	more[name] = s
	c.byName.Store(&more)
	return s
}

func (c *Commands) collectors() []prometheus.Collector {
	return []prometheus.Collector{c.errors, c.connections, c.opened, c.refused, c.evicted, c.protocolErrors, c.panics}
}

// Describe implements prometheus.Collector.
func (c *Commands) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.latency
	for _, o := range c.collectors() {
		o.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (c *Commands) Collect(ch chan<- prometheus.Metric) {
	for name, s := range *c.byName.Load() {
		ch <- s.latency.metric(c.latency, name)
	}
	for _, o := range c.collectors() {
		o.Collect(ch)
	}
}
