package metrics

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// commandBuckets are the upper bounds of the latency histogram, in seconds: from a read of an own write in memory to a
// retried read in another region.
var commandBuckets = []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// Commands counts the commands and connections of Redis clients. It implements resp.Metrics and prometheus.Collector.
type Commands struct {
	latency        *prometheus.HistogramVec
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
	latency prometheus.Observer
	errors  prometheus.Counter
}

// NewCommands returns counters at zero.
func NewCommands() *Commands {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: "redis", Name: name, Help: help})
	}
	c := &Commands{
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Subsystem: "redis", Name: "command_duration_seconds",
			Help: "Time until the reply of a command was ready or, for a pipelined write, until it was issued, in seconds.", Buckets: commandBuckets}, []string{"command"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: "redis", Name: "command_errors_total",
			Help: "Commands answered with an error."}, []string{"command"}),
		connections: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Subsystem: "redis", Name: "connections",
			Help: "Open connections of Redis clients."}),
		opened:         counter("connections_opened_total", "Connections opened by Redis clients."),
		refused:        counter("connections_refused_total", "Connections refused because the limit was reached."),
		evicted:        counter("connections_evicted_total", "Connections closed because all clients together took more memory than the limit."),
		protocolErrors: counter("protocol_errors_total", "Connections closed because of malformed input."),
		panics:         counter("panics_total", "Connections closed because a command panicked. This is always a bug; please report it."),
	}
	c.byName.Store(&map[string]*commandSeries{})
	return c
}

// ConnectionOpened implements resp.Metrics.
func (c *Commands) ConnectionOpened() { c.opened.Inc(); c.connections.Inc() }

// ConnectionClosed implements resp.Metrics.
func (c *Commands) ConnectionClosed() { c.connections.Dec() }

// ConnectionRefused implements resp.Metrics.
func (c *Commands) ConnectionRefused() { c.refused.Inc() }

// ConnectionEvicted implements resp.Metrics.
func (c *Commands) ConnectionEvicted() { c.evicted.Inc() }

// ProtocolError implements resp.Metrics.
func (c *Commands) ProtocolError() { c.protocolErrors.Inc() }

// Panicked implements resp.Metrics.
func (c *Commands) Panicked() { c.panics.Inc() }

// CommandDone implements resp.Metrics.
func (c *Commands) CommandDone(name string, seconds float64, failed bool) {
	s := (*c.byName.Load())[name]
	if s == nil {
		s = c.addCommand(name)
	}
	s.latency.Observe(seconds)
	if failed {
		s.errors.Inc()
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
	s := &commandSeries{c.latency.WithLabelValues(name), c.errors.WithLabelValues(name)}
	more[name] = s
	c.byName.Store(&more)
	return s
}

func (c *Commands) collectors() []prometheus.Collector {
	return []prometheus.Collector{c.latency, c.errors, c.connections, c.opened, c.refused, c.evicted, c.protocolErrors, c.panics}
}

// Describe implements prometheus.Collector.
func (c *Commands) Describe(ch chan<- *prometheus.Desc) {
	for _, o := range c.collectors() {
		o.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (c *Commands) Collect(ch chan<- prometheus.Metric) {
	for _, o := range c.collectors() {
		o.Collect(ch)
	}
}
