package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/causalstore/causalstore/sidecar/causal/group"
)

// registerBuckets are the upper bounds of the latency histogram, in seconds: from a server nearby to
// register.RequestTimeout.
var registerBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2}

// registerOutcomes are the outcomes of requests, as the label names them.
var registerOutcomes = map[group.Outcome]string{group.Done: "done", group.Failed: "failed", group.Unknown: "unknown"}

// Register counts the requests to the register of groups. It implements register.Metrics and prometheus.Collector.
type Register struct {
	requests    *prometheus.CounterVec
	latency     *prometheus.HistogramVec
	connections prometheus.Gauge
	connected   prometheus.Counter
	lastSuccess prometheus.Gauge
}

// NewRegister returns counters at zero.
func NewRegister() *Register {
	const subsystem = "register"
	return &Register{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem,
			Name: "requests_total",
			Help: "Requests to the register of groups: done, failed (a swap too that came too late), or a swap of " +
				"unknown outcome."}, []string{"operation", "outcome"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Subsystem: subsystem,
			Name:    "request_duration_seconds",
			Help:    "Time until a request to the register of groups had an outcome, in seconds.",
			Buckets: registerBuckets}, []string{"operation"}),
		connections: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem,
			Name: "connections",
			Help: "Servers of the register of groups to which this process is connected."}),
		connected: prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem,
			Name: "watches_started_total",
			Help: "Connections to servers of the register of groups. Each one watches it again."}),
		lastSuccess: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem,
			Name: "last_success_timestamp_seconds",
			Help: "When a request to the register of groups was last done, in seconds since 1970; 0: never."}),
	}
}

// RequestDone implements register.Metrics.
func (r *Register) RequestDone(swap bool, o group.Outcome, took time.Duration) {
	operation := "read"
	if swap {
		operation = "swap"
	}
	r.requests.WithLabelValues(operation, registerOutcomes[o]).Inc()
	r.latency.WithLabelValues(operation).Observe(took.Seconds())
	if o == group.Done {
		r.lastSuccess.SetToCurrentTime()
	}
}

// Connected implements register.Metrics.
func (r *Register) Connected() { r.connections.Inc(); r.connected.Inc() }

// Disconnected implements register.Metrics.
func (r *Register) Disconnected() { r.connections.Dec() }

func (r *Register) collectors() []prometheus.Collector {
	return []prometheus.Collector{r.requests, r.latency, r.connections, r.connected, r.lastSuccess}
}

// Describe implements prometheus.Collector.
func (r *Register) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range r.collectors() {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (r *Register) Collect(ch chan<- prometheus.Metric) {
	for _, c := range r.collectors() {
		c.Collect(ch)
	}
}
