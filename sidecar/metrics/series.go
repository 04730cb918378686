// Package metrics exports the counters of the data plane to Prometheus.
//
// The machines keep their own counters. The collectors read them when they are scraped, so the request path has no
// extra cost. Only the latencies of Redis commands are observed as they occur.
//
// A collector takes a function that returns its part, or nil while the part is down; then it exports nothing. If
// several parts run in one process, the registerer adds the labels that distinguish them.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// namespace is the prefix of every metric name.
const namespace = "causalstore"

// series is one metric with its labels.
type series struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

// family holds the series of one subsystem.
type family struct {
	subsystem string
	all       []series
}

func (f *family) newSeries(kind prometheus.ValueType, name, help string, labels []string) series {
	s := series{prometheus.NewDesc(prometheus.BuildFQName(namespace, f.subsystem, name), help, labels, nil), kind}
	f.all = append(f.all, s)
	return s
}

// counter adds a series that counts from the start of the part.
func (f *family) counter(name, help string, labels ...string) series {
	return f.newSeries(prometheus.CounterValue, name, help, labels)
}

// gauge adds a series with a current value.
func (f *family) gauge(name, help string, labels ...string) series {
	return f.newSeries(prometheus.GaugeValue, name, help, labels)
}

// emitFunc exports one value.
type emitFunc func(s series, value float64, labels ...string)

// collector is a prometheus.Collector that reads all values when it is scraped.
type collector struct {
	family *family
	read   func(emitFunc)
}

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, s := range c.family.all {
		ch <- s.desc
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	c.read(func(s series, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(s.desc, s.kind, value, labels...)
	})
}

// several are collectors that are registered together.
type several []prometheus.Collector

// Describe implements prometheus.Collector.
func (s several) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range s {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (s several) Collect(ch chan<- prometheus.Metric) {
	for _, c := range s {
		c.Collect(ch)
	}
}

// lagSeconds returns how far a timestamp is behind the wall clock, in seconds; 0 if it is ahead.
func lagSeconds(h causal.HLC, now time.Time) float64 {
	return max(0, float64(now.UnixMilli()-h.WallMs())/1e3)
}
