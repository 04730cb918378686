// Package metrics shows what the parts of the data plane count, for Prometheus.
//
// The machines count for themselves; the collectors here look at them when they are scraped, so that the request path pays
// nothing for it. Only the latencies of Redis commands are observed as they happen.
//
// A collector is given a function that returns its part, or nil while that is down; then it shows nothing. Where several
// parts are in one process, the registerer adds the labels that tell them apart.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// namespace begins every name.
const namespace = "causalstore"

// series is one metric with its labels.
type series struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

// family makes the series of one subsystem and remembers them.
type family struct {
	subsystem string
	all       []series
}

func (f *family) add(kind prometheus.ValueType, name, help string, labels []string) series {
	s := series{prometheus.NewDesc(prometheus.BuildFQName(namespace, f.subsystem, name), help, labels, nil), kind}
	f.all = append(f.all, s)
	return s
}

// counter is a number since the start of the part.
func (f *family) counter(name, help string, labels ...string) series {
	return f.add(prometheus.CounterValue, name, help, labels)
}

// gauge is a number now.
func (f *family) gauge(name, help string, labels ...string) series {
	return f.add(prometheus.GaugeValue, name, help, labels)
}

// emit shows one value.
type emit func(s series, value float64, labels ...string)

// scrape is a collector that reads everything when it is asked.
type scrape struct {
	family *family
	read   func(emit)
}

// Describe implements prometheus.Collector.
func (c scrape) Describe(ch chan<- *prometheus.Desc) {
	for _, s := range c.family.all {
		ch <- s.desc
	}
}

// Collect implements prometheus.Collector.
func (c scrape) Collect(ch chan<- prometheus.Metric) {
	c.read(func(s series, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(s.desc, s.kind, value, labels...)
	})
}

// lagSeconds is how far a timestamp is behind the wall clock, in seconds; 0 if it is ahead.
func lagSeconds(h causal.HLC, now time.Time) float64 {
	return max(0, float64(now.UnixMilli()-h.WallMs())/1e3)
}
