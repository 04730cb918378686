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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/causalstore/status"
)

// Prober asks parts how they are.
type Prober interface {
	// Coordinator says how far the rings are.
	Coordinator(ctx context.Context, pod *corev1.Pod) (plan.Measure, error)
	// Move says what a coordinator or middleman does for a change of shards or coordinators.
	Move(ctx context.Context, pod *corev1.Pod) (plan.Move, error)
}

// probeTimeout bounds all questions of one reconciliation, which are asked at once. Who does not answer is not measured.
const probeTimeout = 2 * time.Second

// measure asks the coordinators that serve and those that leave, and notes whose log has not drained.
func (r *Reconciler) measure(ctx context.Context, seen *status.Observed) {
	if r.Prober == nil {
		return
	}
	seen.Measured = r.ask(ctx, seen.Pods, seen.Leaving())
	seen.Undrained = r.undrained.note(client.ObjectKeyFromObject(seen.Store), seen)
}

func (r *Reconciler) ask(ctx context.Context, pods []corev1.Pod, leaving map[string]bool) map[string]plan.Measure {
	all := map[string]plan.Measure{}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var mu sync.Mutex
	var asked sync.WaitGroup
	for i := range pods {
		p := &pods[i]
		if p.Labels[plan.LabelComponent] != plan.ComponentCoordinator || p.Status.PodIP == "" || !plan.Ready(p) && !leaving[p.Name] {
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
func (m MetricsProber) Coordinator(ctx context.Context, pod *corev1.Pod) (plan.Measure, error) {
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

func (m MetricsProber) read(ctx context.Context, url string) (plan.Measure, error) {
	answer, err := m.get(ctx, url)
	if err != nil {
		return plan.Measure{}, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return plan.Measure{}, fmt.Errorf("%s: %s", url, answer.Status)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(http.MaxBytesReader(nil, answer.Body, maxAnswer))
	if err != nil {
		return plan.Measure{}, fmt.Errorf("%s: %w", url, err)
	}
	return measureOf(families), nil
}

func measureOf(families map[string]*dto.MetricFamily) plan.Measure {
	out := plan.Measure{RingLag: map[string]time.Duration{}}
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

// undrained remembers since when the log of a coordinator has not been seen drained, by store and pod. An operator that starts begins
// to count anew.
type undrained struct {
	mu     sync.Mutex
	stores map[types.NamespacedName]map[string]time.Time
}

// note takes over what was measured just now. Of a coordinator that does not serve nothing is known: it is as it was.
func (u *undrained) note(store types.NamespacedName, seen *status.Observed) map[string]time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	was, is := u.stores[store], map[string]time.Time{}
	for i := range seen.Pods {
		p := &seen.Pods[i]
		if p.Labels[plan.LabelComponent] != plan.ComponentCoordinator {
			continue
		}
		since, known := was[p.Name]
		m, asked := seen.Measured[p.Name]
		switch {
		case asked && m.Drained():
		case known:
			is[p.Name] = since
		case plan.Ready(p):
			is[p.Name] = seen.Now
		}
	}
	if u.stores == nil {
		u.stores = map[types.NamespacedName]map[string]time.Time{}
	}
	u.stores[store] = is
	return is
}

func (u *undrained) forget(store types.NamespacedName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.stores, store)
}
