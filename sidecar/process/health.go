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

	"github.com/causalstore/causalstore/sidecar/topology"
)

// phase is where a process is in its life.
type phase string

const (
	phaseStarting phase = "starting"
	phaseRunning  phase = "running"
	phaseStopping phase = "stopping"
)

// Readiness is the answer to /readyz: 200 if Ready, else 503.
type Readiness struct {
	Ready      bool   `json:"ready"`
	Phase      string `json:"phase"`
	Part       string `json:"part"`
	DataCenter string `json:"dataCenter"`
	Index      int    `json:"index"`
	Epoch      uint64 `json:"topologyEpoch"`
	// Reason says why it is not ready.
	Reason string `json:"reason,omitempty"`
	// Shards says what a middleman does for a change of shards: see node.Middleman.Change.
	Shards string `json:"shards,omitempty"`
	// Membership says whether a coordinator takes part in the writing of its data centre: joining, serving, leaving or left.
	Membership string `json:"membership,omitempty"`
	// CoordinatorsInUse are, by index, the coordinators that the first one of a data centre has let in and that have not left. One that is
	// not among them, and not among those of the topology that this one runs, has nothing that is not in every ring, and does not come back.
	CoordinatorsInUse []int `json:"coordinatorsInUse,omitempty"`
	// RingsBefore are the rings that a coordinator still uses as before a change of shards.
	RingsBefore []string `json:"ringsBefore,omitempty"`
	// RestartNeeded names the fields of the configuration file whose changes wait for a restart.
	RestartNeeded []string `json:"restartNeeded,omitempty"`
	// ConfigProblem says why the configuration file, as it stands now, is not used.
	ConfigProblem string `json:"configProblem,omitempty"`
}

// health serves what a kubelet, Prometheus and people ask.
type health struct {
	p        *process
	registry *prometheus.Registry
	server   *http.Server

	mu      sync.Mutex
	phase   phase
	waiting error // what the start waits for

	readyDesc *prometheus.Desc
}

func newHealth(p *process, registry *prometheus.Registry) *health {
	return &health{p: p, registry: registry, phase: phaseStarting,
		readyDesc: prometheus.NewDesc("causalstore_ready", "Whether this process can do its work (1) or not (0), as /readyz says.", nil, nil)}
}

// serve answers until close.
func (h *health) serve(addr string, withPprof bool, fail func(error)) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen.http: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", h.healthz)
	mux.HandleFunc("GET /readyz", h.readyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(h.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	if withPprof {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	h.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := h.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			fail(fmt.Errorf("serve HTTP: %w", err))
		}
	}()
	return nil
}

func (h *health) close() { _ = h.server.Close() } // whoever asks now finds nobody

func (h *health) set(p phase) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.phase, h.waiting = p, nil
}

// waitFor notes what the start waits for.
func (h *health) waitFor(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting = err
}

// stuckAfter is when a part that does not let go of its lock counts as dead.
const stuckAfter = 5 * time.Second

// healthz: alive is what still moves. A machine takes microseconds for anything it does.
func (h *health) healthz(w http.ResponseWriter, r *http.Request) {
	if part := h.p.running(); part != nil {
		moved := make(chan struct{})
		go func() {
			part.host().View(func(any) {})
			close(moved)
		}()
		select {
		case <-moved:
		case <-r.Context().Done():
			return
		case <-time.After(stuckAfter):
			http.Error(w, "the part is stuck", http.StatusServiceUnavailable)
			return
		}
	}
	fmt.Fprintln(w, "ok")
}

// readiness says whether the part can do its work.
func (h *health) readiness() Readiness {
	h.mu.Lock()
	phase, waiting := h.phase, h.waiting
	h.mu.Unlock()
	p := h.p
	r := Readiness{Phase: string(phase), Part: p.self.Part.String(), DataCenter: p.topo().DCs[p.self.DC].Name,
		Index: p.o.Settings.Config.Index, Epoch: p.topo().Epoch}
	r.RestartNeeded, r.ConfigProblem = p.files.state()
	switch part := p.running().(type) {
	case *middleman:
		r.Shards, _, _ = part.m.Change()
	case *coordinator:
		r.Membership = part.c.Membership().String()
		r.CoordinatorsInUse = part.c.InUse()
		before := part.c.Before()
		for i, ring := range p.topo().Rings {
			if before.Has(topology.RingID(i)) {
				r.RingsBefore = append(r.RingsBefore, ring.Name)
			}
		}
	}
	var err error
	switch part := p.running(); {
	case waiting != nil:
		err = fmt.Errorf("waiting: %w", waiting)
	case phase != phaseRunning:
		err = errors.New(string(phase))
	default:
		err = part.ready()
	}
	if r.Ready = err == nil; err != nil {
		r.Reason = err.Error()
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
	_ = enc.Encode(r) // whoever asked has gone
}

// Describe implements prometheus.Collector.
func (h *health) Describe(ch chan<- *prometheus.Desc) { ch <- h.readyDesc }

// Collect implements prometheus.Collector.
func (h *health) Collect(ch chan<- prometheus.Metric) {
	value := 0.0
	if h.readiness().Ready {
		value = 1
	}
	ch <- prometheus.MustNewConstMetric(h.readyDesc, prometheus.GaugeValue, value)
}
