package causalstore

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/causalstore/status"
)

// Prober asks parts how they are.
type Prober interface {
	// Coordinator says how far the rings are.
	Coordinator(ctx context.Context, pod *corev1.Pod) (status.Measure, error)
	// Move says what a coordinator or middleman does for a change of shards.
	Move(ctx context.Context, pod *corev1.Pod) (plan.Move, error)
}

// probeTimeout bounds all questions of one reconciliation, which are asked at once. Who does not answer is not measured.
const probeTimeout = 2 * time.Second

// measure asks the coordinators that serve.
func (r *Reconciler) measure(ctx context.Context, seen *status.Observed) map[string]status.Measure {
	all := map[string]status.Measure{}
	if r.Prober == nil {
		return all
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var mu sync.Mutex
	var asked sync.WaitGroup
	for i := range seen.Pods {
		p := &seen.Pods[i]
		if p.Labels[plan.LabelComponent] != plan.ComponentCoordinator || p.Status.PodIP == "" || !plan.Ready(p) {
			continue
		}
		asked.Go(func() {
			if m, err := r.Prober.Coordinator(ctx, p); err == nil { // a pod that cannot be asked is seen by its own condition
				mu.Lock()
				defer mu.Unlock()
				all[p.Name] = m
			}
		})
	}
	asked.Wait()
	return all
}

// MetricsProber reads what parts serve over HTTP: metrics and readiness.
type MetricsProber struct{ Client *http.Client }

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 4 << 20

// Coordinator implements Prober.
func (m MetricsProber) Coordinator(ctx context.Context, pod *corev1.Pod) (status.Measure, error) {
	return m.read(ctx, address(pod)+"/metrics")
}

func address(pod *corev1.Pod) string {
	return "http://" + net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(plan.PortHTTP))
}

func (m MetricsProber) get(ctx context.Context, url string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return m.Client.Do(request)
}

func (m MetricsProber) read(ctx context.Context, url string) (status.Measure, error) {
	answer, err := m.get(ctx, url)
	if err != nil {
		return status.Measure{}, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return status.Measure{}, fmt.Errorf("%s: %s", url, answer.Status)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(http.MaxBytesReader(nil, answer.Body, maxAnswer))
	if err != nil {
		return status.Measure{}, fmt.Errorf("%s: %w", url, err)
	}
	return measureOf(families), nil
}

func measureOf(families map[string]*dto.MetricFamily) status.Measure {
	out := status.Measure{RingLag: map[string]time.Duration{}}
	for _, g := range families["causalstore_coordinator_incomplete_writes"].GetMetric() {
		out.Incomplete = int64(g.GetGauge().GetValue())
	}
	for _, g := range families["causalstore_coordinator_stability_lag_seconds"].GetMetric() {
		out.Published, out.StabilityLag = true, seconds(g)
	}
	for _, g := range families["causalstore_coordinator_ring_lag_seconds"].GetMetric() {
		for _, l := range g.GetLabel() {
			if l.GetName() == "to_ring" {
				out.RingLag[l.GetValue()] = seconds(g)
			}
		}
	}
	return out
}

func seconds(m *dto.Metric) time.Duration {
	return time.Duration(m.GetGauge().GetValue() * float64(time.Second))
}
