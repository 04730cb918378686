package metrics

import (
	"runtime"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/causalstore/causalstore/topology"
	"github.com/causalstore/causalstore/version"
)

var (
	buildFamily = &family{}
	buildInfo   = buildFamily.gauge("build_info", "Always 1. The labels identify the build.", "version", "revision",
		"go_version")

	topologyFamily = &family{subsystem: "topology"}
	topologyEpoch  = topologyFamily.gauge("epoch", "Epoch of the topology in use.")
)

// Build collects the version of the build.
func Build() prometheus.Collector {
	return collector{buildFamily, func(emit emitFunc) {
		emit(buildInfo, 1, version.Number(), version.Revision(), runtime.Version())
	}}
}

// Topology collects the epoch of the topology in use.
func Topology(get func() *topology.Topology) prometheus.Collector {
	return collector{topologyFamily, func(emit emitFunc) { emit(topologyEpoch, float64(get().Epoch)) }}
}

// NewRegistry returns a registry with the metrics of the build, the Go runtime and the process.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(Build(), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// PartLabels returns the labels that distinguish the parts of a deployment, for prometheus.WrapRegistererWith. A
// sidecar has no index label, because its index changes at every start. Coordinators and middlemen have the label of
// their member.
func PartLabels(t *topology.Topology, n topology.Node) prometheus.Labels {
	dc := t.DCs[n.DC]
	l := prometheus.Labels{"data_center": dc.Name, "ring": t.Rings[dc.Ring].Name}
	if n.Part != topology.Sidecar {
		l["index"] = strconv.FormatUint(n.Index, 10)
	}
	if n.HasGroup() {
		l["member"] = strconv.Itoa(max(int(n.Member), 1))
	}
	return l
}
