package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc/status"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/topology"
)

// health serves liveness, readiness and metrics over HTTP.
type health struct {
	p        *process
	registry *prometheus.Registry
	server   *http.Server

	mu      sync.Mutex
	phase   contract.Phase
	stopped error // why the start does not go on, if it does not

	readyDesc, dataLostDesc *prometheus.Desc
}

func newHealth(p *process, registry *prometheus.Registry) *health {
	return &health{p: p, registry: registry, phase: contract.PhaseStarting,
		readyDesc: prometheus.NewDesc("causalstore_ready",
			"Whether this process can do its work (1) or not (0), as /readyz says.", nil, nil),
		dataLostDesc: prometheus.NewDesc("causalstore_data_lost",
			"Whether the disk of this process has lost data that it had acknowledged (1) or not (0).", nil, nil)}
}

// serve starts to serve; close ends it.
func (h *health) serve(addr string, withPprof bool, fail func(error)) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen.http: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+contract.PathHealth, h.healthz)
	mux.HandleFunc("GET "+contract.PathReady, h.readyz)
	mux.Handle("GET "+contract.PathMetrics, promhttp.HandlerFor(h.registry,
		promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError,
			MaxRequestsInFlight: maxScrapes}))
	if withPprof {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	server, limit := defaultHTTPBounds.server(mux, h.p.log)
	h.server = server
	go func() {
		if err := h.server.Serve(limit(l)); !errors.Is(err, http.ErrServerClosed) {
			fail(fmt.Errorf("serve HTTP: %w", err))
		}
	}()
	return nil
}

func (h *health) close() { _ = h.server.Close() } // requests in flight are cut

func (h *health) setPhase(p contract.Phase) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.phase, h.stopped = p, nil
}

// setWaiting records why the start waits. Once the part has started, it has no effect.
func (h *health) setWaiting(err error) { h.setRefused(fmt.Errorf("waiting: %w", err)) }

// setRefused records why the part does not start. Once it has started, it has no effect.
func (h *health) setRefused(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase == contract.PhaseStarting {
		h.stopped = err
	}
}

// stuckTimeout is how long a part may hold its lock before it counts as dead.
const stuckTimeout = 5 * time.Second

// healthz reports a part as alive if its machine can be entered: every step of a machine takes microseconds.
func (h *health) healthz(w http.ResponseWriter, r *http.Request) {
	if part := h.p.running(); part != nil {
		entered := make(chan struct{})
		go func() {
			part.host().Probe()
			close(entered)
		}()
		select {
		case <-entered:
		case <-r.Context().Done():
			return
		case <-time.After(stuckTimeout):
			http.Error(w, "the part is stuck: its lock has been held for too long", http.StatusServiceUnavailable)
			return
		}
	}
	fmt.Fprintln(w, "ok")
}

// readiness builds the report that contract.PathReady serves.
func (h *health) readiness() contract.Readiness {
	h.mu.Lock()
	phase, stopped := h.phase, h.stopped
	h.mu.Unlock()
	p := h.p
	r := contract.Readiness{Phase: phase, Part: p.self.Part.String(), DataCenter: p.topo().DCs[p.self.DC].Name,
		Index: p.o.Settings.Config.Index, Epoch: p.topo().Epoch}
	pending, problem := p.files.state()
	if r.RestartNeeded = pending; problem != nil {
		r.ConfigProblem = problem.Error()
	}
	if p.running() != nil {
		r.Acceptance = p.acceptance()
	}
	switch part := p.running().(type) {
	case *middlemanPart:
		stage, _, _ := part.m.Resharding()
		r.Shards = contract.ReshardingState(stage)
		if part.member != nil {
			r.Group = describeGroup(part.member.s)
		}
	case *coordinatorPart:
		r.Membership = memberships[part.c.Membership()]
		r.Group = describeGroup(part.c)
		r.CoordinatorsInUse = part.c.CoordinatorsInUse()
		r.Peers = p.peers(part)
		before := part.c.PendingRings()
		for i, ring := range p.topo().Rings {
			if before.Has(topology.RingID(i)) {
				r.RingsBefore = append(r.RingsBefore, ring.Name)
			}
		}
	}
	var err error
	switch part := p.running(); {
	case stopped != nil:
		err = stopped
	case phase != contract.PhaseRunning:
		err = errors.New(string(phase))
	default:
		if err = p.net.Duplicate(); err != nil {
			err = inState(contract.StateDuplicateIdentity,
				fmt.Errorf("refused by its peers: %s", status.Convert(err).Message()))
		} else {
			err = part.ready()
		}
	}
	if r.Ready = err == nil; err != nil {
		r.Reason, r.State = err.Error(), stateOf(err)
	}
	return r
}

func (h *health) readyz(w http.ResponseWriter, _ *http.Request) {
	r := h.readiness()
	w.Header().Set("Content-Type", "application/json")
	if !r.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(r) // fails only if the client has gone
}

// Describe implements prometheus.Collector.
func (h *health) Describe(ch chan<- *prometheus.Desc) {
	ch <- h.readyDesc
	ch <- h.dataLostDesc
}

// Collect implements prometheus.Collector.
func (h *health) Collect(ch chan<- prometheus.Metric) {
	r := h.readiness()
	ch <- gauge(h.readyDesc, r.Ready)
	ch <- gauge(h.dataLostDesc, r.State == contract.StateDataLost)
}

func gauge(desc *prometheus.Desc, is bool) prometheus.Metric {
	value := 0.0
	if is {
		value = 1
	}
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value)
}
