package metrics

import (
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/cache"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/front"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/topology"
)

var _ front.Metrics = (*Commands)(nil)

// values gathers a registry and returns the value of each series, by name and labels as `name{a="b"}`.
func values(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		if f.GetHelp() == "" {
			t.Errorf("%s has no help", f.GetName())
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+`="`+l.GetValue()+`"`)
			}
			all[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = m.GetCounter().GetValue() + m.GetGauge().GetValue() +
				float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

func TestPartsOfSeveralDataCentersShareARegistry(t *testing.T) {
	topo := topology.Default()
	r := NewRegistry()
	net := transport.NewLocal(nil)
	defer net.Close()
	down := false
	for dc := range topo.DCs {
		clock := node.NewClock()
		of := func(p topology.Part) topology.Node {
			return topology.Node{DC: topology.DC(dc), Part: p, Index: uint64(dc) + 1}
		}
		s := node.NewSidecar(node.SidecarOptions{Config: session.DefaultConfig(topo, of(topology.Sidecar)),
			Clock: clock, Net: net, Scope: node.ScopePod})
		c := node.NewCache(cache.DefaultConfig(topo, of(topology.Cache)), clock, net)
		prometheus.WrapRegistererWith(PartLabels(topo, of(topology.Sidecar)),
			r).MustRegister(Sidecar(func() *node.Sidecar { return s }), NewCommands())
		prometheus.WrapRegistererWith(PartLabels(topo, of(topology.Cache)), r).MustRegister(Cache(func() *node.Cache {
			if down {
				return nil
			}
			return c
		}))
	}
	r.MustRegister(Network(net.Stats, func() uint64 { return 1 }), Topology(func() *topology.Topology { return topo }))

	got := values(t, r)
	for series, want := range map[string]float64{
		`causalstore_sidecar_sessions{data_center="eu-west-1",ring="americas-europe"}`:                      1,
		`causalstore_sidecar_reads_total{data_center="sa-east-1",ring="south-america",source="remote"}`:     0,
		`causalstore_sidecar_reads_total{data_center="sa-east-1",ring="south-america",source="home"}`:       0,
		`causalstore_sidecar_home_waits_total{data_center="sa-east-1",reason="apart",ring="south-america"}`: 0,
		`causalstore_cache_entries{data_center="us-east-1",index="1",ring="americas-europe"}`:               0,
		`causalstore_topology_epoch{}`: 1,
	} {
		if v, ok := got[series]; !ok || v != want {
			t.Errorf("%s is %v, %v", series, v, ok)
		}
	}
	if _, ok := got[`causalstore_sidecar_stability_lag_seconds{data_center="eu-west-1",ring="americas-europe"}`]; ok {
		t.Error("a lag is exported before any stability vector has arrived")
	}
	down = true
	for series := range values(t, r) {
		if strings.HasPrefix(series, "causalstore_cache_") {
			t.Errorf("%s is exported while the caches are down", series)
		}
	}
}

func TestConcurrentCommandsAreCountedByName(t *testing.T) {
	c := NewCommands()
	r := prometheus.NewRegistry()
	r.MustRegister(c)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			c.ConnectionOpened()
			for i := range 100 {
				c.CommandsDone("get", 4, 0, .001)
				failed := 0
				if i%10 == 0 {
					failed = 1
				}
				c.CommandsDone("set", 1, failed, .002)
			}
			c.ConnectionClosed()
		})
	}
	all.Wait()
	got := values(t, r)
	for series, want := range map[string]float64{
		`causalstore_redis_command_duration_seconds{command="get"}`: 3200,
		`causalstore_redis_command_errors_total{command="set"}`:     80,
		`causalstore_redis_command_errors_total{command="get"}`:     0,
		`causalstore_redis_connections{}`:                           0,
		`causalstore_redis_connections_opened_total{}`:              8,
	} {
		if v, ok := got[series]; !ok || v != want {
			t.Errorf("%s is %v, %v", series, v, ok)
		}
	}
	if n := testing.AllocsPerRun(100, func() { c.CommandsDone("get", 4, 0, .001) }); n > 0 {
		t.Errorf("counting a command takes %v allocations", n)
	}
}

func TestLinksAreCountedByDirectionAndState(t *testing.T) {
	r := prometheus.NewRegistry()
	r.MustRegister(Network(func() transport.Stats {
		return transport.Stats{
			Messages: []transport.MessageStats{{Kind: causal.KindPut, Sent: 3, Received: 2}},
			Drops:    []transport.DropStats{{Kind: causal.KindGet, Reason: transport.DropBroken, Count: 4}},
			Links: []transport.LinkStats{{Dialed: true, Up: true, TopologyEpoch: 5, QueuedBytes: 10},
				{Dialed: true, QueuedBytes: 5},
				{Up: true, TopologyEpoch: 4}, {Up: true, TopologyEpoch: 5}},
		}
	}, func() uint64 { return 5 }))
	got := values(t, r)
	for series, want := range map[string]float64{
		`causalstore_transport_messages_sent_total{kind="put"}`:                         3,
		`causalstore_transport_messages_received_total{kind="put"}`:                     2,
		`causalstore_transport_messages_dropped_total{kind="get",reason="broken-link"}`: 4,
		`causalstore_transport_links{direction="dialed",state="up"}`:                    1,
		`causalstore_transport_links{direction="dialed",state="down"}`:                  1,
		`causalstore_transport_links{direction="accepted",state="up"}`:                  2,
		`causalstore_transport_queued_bytes{}`:                                          15,
		`causalstore_transport_links_of_other_epoch{}`:                                  1,
	} {
		if v, ok := got[series]; !ok || v != want {
			t.Errorf("%s is %v, %v", series, v, ok)
		}
	}
}

func TestACoordinatorExportsTheSizesAtWhichItRefusesWrites(t *testing.T) {
	topo := topology.Default()
	net := transport.NewLocal(nil)
	defer net.Close()
	config := coordinator.DefaultConfig(topo, topology.Node{Part: topology.Coordinator})
	config.MaxBytes = 1 << 20
	c, err := node.NewCoordinator(node.CoordinatorOptions{Config: config, Clock: node.NewClock(), Net: net,
		Dir:         t.TempDir(),
		MaxLogBytes: 100 << 20, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	r := prometheus.NewRegistry()
	// As a process registers it: a label of a series must not be one of the part's, or the process ends.
	self := topology.Node{Part: topology.Coordinator}
	prometheus.WrapRegistererWith(PartLabels(topo, self), r).MustRegister(Coordinator(topo, func() *node.Coordinator {
		return c
	}), Peers(topo, 0, func() []contract.Peer { return nil }, net.Stats))
	got := values(t, r)
	const part = `{data_center="us-east-1",index="0",member="1",ring="americas-europe"}`
	for series, want := range map[string]float64{
		`causalstore_coordinator_write_buffer_limit_bytes` + part: 1 << 20,
		`causalstore_coordinator_log_limit_bytes` + part:          90 << 20,
	} {
		if v, ok := got[series]; !ok || v != want {
			t.Errorf("%s is %v, %v; want %v", series, v, ok, want)
		}
	}
}

func TestEachDataCenterIsInOneState(t *testing.T) {
	top := topology.Default()
	r := prometheus.NewRegistry()
	r.MustRegister(Peers(top, 0, func() []contract.Peer {
		return []contract.Peer{{DataCenter: "eu-west-1", State: contract.PeerNotTrusted, Links: 3, LinksUp: 1}}
	}, func() transport.Stats {
		return transport.Stats{Traffic: []transport.TrafficStats{{DC: 0, Sent: 1, Received: 2},
			{DC: 3, Sent: 5, Received: 6}, {DC: 63, Sent: 7, Received: 8}}}
	}))
	got := values(t, r)
	for series, want := range map[string]float64{
		contract.MetricPeerState + `{` + contract.LabelState + `="notTrusted",` + contract.LabelToDataCenter +
			`="eu-west-1"}`: 1,
		`causalstore_peer_state{state="connected",to_data_center="eu-west-1"}`:          0,
		`causalstore_peer_links{state="up",to_data_center="eu-west-1"}`:                 1,
		`causalstore_peer_links{state="down",to_data_center="eu-west-1"}`:               2,
		`causalstore_peer_bytes_total{direction="sent",to_data_center="eu-west-1"}`:     5,
		`causalstore_peer_bytes_total{direction="received",to_data_center="eu-west-1"}`: 6,
	} {
		if v, ok := got[series]; !ok || v != want {
			t.Errorf("%s is %v, %v", series, v, ok)
		}
	}
	if len(got) != len(contract.PeerStates)+4 {
		t.Errorf("%d series: %v", len(got), got)
	}
}
