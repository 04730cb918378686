package local

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/causalstore/causalstore/sidecar/metrics"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/topology"
)

// register registers every part, with the same metrics that it has in its own process. A part that is down has none.
func (d *Deployment) register() {
	epoch := func() uint64 { return d.topo.Epoch }
	d.metrics.MustRegister(metrics.Network(d.net.Stats, epoch), metrics.Topology(func() *topology.Topology {
		return d.topo
	}))
	for n, p := range d.parts {
		r := prometheus.WrapRegistererWith(metrics.PartLabels(d.topo, n), d.metrics)
		switch n.Part {
		case topology.Coordinator:
			r.MustRegister(metrics.Coordinator(d.topo, func() *node.Coordinator { return locked(d, &p.coordinator) }))
		case topology.Middleman:
			r.MustRegister(metrics.Middleman(func() metrics.Shard {
				if s := locked(d, &p.shard); s != nil {
					return s
				}
				return nil // not a shardHost without a value
			}))
			if d.topo.DCs[n.DC].Members(n.Part) > 1 {
				r.MustRegister(metrics.ShardGroup(func() *node.ShardMember { return locked(d, &p.member) }))
			}
		case topology.Cache:
			r.MustRegister(metrics.Cache(func() *node.Cache { return locked(d, &p.cache) }))
		}
	}
	for _, f := range d.fronts {
		labels := metrics.PartLabels(d.topo, f.sidecar.ID())
		if d.o.Sidecars > 1 {
			labels["index"] = strconv.Itoa(f.number)
		}
		r := prometheus.WrapRegistererWith(labels, d.metrics)
		r.MustRegister(metrics.Sidecar(func() *node.Sidecar { return f.sidecar }), f.commands)
	}
}

// locked reads what faults may change.
func locked[T any](d *Deployment, p *T) T {
	d.mu.Lock()
	defer d.mu.Unlock()
	return *p
}

// scrape serves GET /metrics.
func (d *Deployment) scrape() http.Handler {
	return promhttp.HandlerFor(d.metrics, promhttp.HandlerOpts{})
}
