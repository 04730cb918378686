package causalstore

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/causalstore/status"
	"github.com/causalstore/causalstore/controllers/partmetrics"
	"github.com/causalstore/causalstore/topology"
)

// Prober asks parts about their state.
type Prober interface {
	// Measure returns how far the rings are behind a coordinator.
	Measure(ctx context.Context, pod *corev1.Pod) (plan.Measure, error)
	// Readiness returns the readiness report of a part.
	Readiness(ctx context.Context, pod *corev1.Pod) (contract.Readiness, error)
}

// probeTimeout bounds the requests of one kind in a reconciliation, which are sent at once. A part that does not answer
// in time is not measured.
const probeTimeout = 2 * time.Second

// measure asks all coordinators, and the members of shards, whether they are ready or not, and records whose log has
// not drained.
func (r *Reconciler) measure(ctx context.Context, seen *status.Observed) {
	if r.Prober == nil {
		return
	}
	seen.Measured, seen.Unmeasured = r.askMeasures(ctx, seen)
	seen.UndrainedSince = r.drains.update(client.ObjectKeyFromObject(seen.Store), seen)
}

// askMeasures returns what coordinators and members of shards report, and why the others could not be asked, both by
// the names of their pods.
func (r *Reconciler) askMeasures(ctx context.Context, seen *status.Observed) (map[string]plan.Measure,
	map[string]string) {
	all, failed := map[string]plan.Measure{}, map[string]string{}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var mu sync.Mutex
	var asked sync.WaitGroup
	for i := range seen.Pods {
		p := &seen.Pods[i]
		if !seen.IsGroupMember(p) {
			continue
		}
		if p.Status.PodIP == "" {
			mu.Lock()
			failed[p.Name] = "its pod has no address"
			mu.Unlock()
			continue
		}
		asked.Go(func() {
			m, err := r.Prober.Measure(ctx, p)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed[p.Name] = "it does not answer"
				return
			}
			all[p.Name] = m
		})
	}
	asked.Wait()
	return all, failed
}

// HTTPProber reads the metrics and readiness reports that parts serve over HTTP.
type HTTPProber struct{ Client *http.Client }

// maxAnswerBytes bounds an answer.
const maxAnswerBytes = 4 << 20

// Measure implements Prober.
func (h HTTPProber) Measure(ctx context.Context, pod *corev1.Pod) (plan.Measure, error) {
	return h.readMeasure(ctx, address(pod)+contract.PathMetrics)
}

func address(pod *corev1.Pod) string {
	return "http://" + net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(plan.PortHTTP))
}

func (h HTTPProber) get(ctx context.Context, url string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return h.Client.Do(request)
}

func (h HTTPProber) readMeasure(ctx context.Context, url string) (plan.Measure, error) {
	answer, err := h.get(ctx, url)
	if err != nil {
		return plan.Measure{}, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return plan.Measure{}, fmt.Errorf("%s: %s", url, answer.Status)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(http.MaxBytesReader(nil, answer.Body, maxAnswerBytes))
	if err != nil {
		return plan.Measure{}, fmt.Errorf("%s: %w", url, err)
	}
	return measureOf(families), nil
}

func measureOf(families map[string]*dto.MetricFamily) plan.Measure {
	out := plan.Measure{RingLag: map[string]time.Duration{}, Answering: map[string]bool{}}
	for _, g := range families[contract.MetricIncompleteWrites].GetMetric() {
		out.Incomplete = int64(g.GetGauge().GetValue())
	}
	for _, g := range families[contract.MetricStabilityLag].GetMetric() {
		out.Published, out.StabilityLag = true, seconds(g)
	}
	for _, p := range []topology.Part{topology.Coordinator, topology.Middleman} { // a process is one of them
		for _, g := range families[contract.MetricServes(p)].GetMetric() {
			out.Follows = g.GetGauge().GetValue() == 0
		}
		for name, into := range map[string]*int{contract.MetricGroupMembers(p): &out.Members,
			contract.MetricGroupMembersWanted(p):  &out.MembersWanted,
			contract.MetricGroupMembersLeaving(p): &out.MembersLeaving} {
			for _, g := range families[name].GetMetric() {
				*into = int(g.GetGauge().GetValue())
			}
		}
	}
	for _, g := range families[contract.MetricRingLag].GetMetric() {
		for _, l := range g.GetLabel() {
			if l.GetName() == contract.LabelToRing {
				out.RingLag[l.GetValue()] = seconds(g)
			}
		}
	}
	addExclusions(&out, families)
	for _, g := range families[contract.MetricRoundTrip].GetMetric() {
		for _, l := range g.GetLabel() {
			if l.GetName() == contract.LabelToDataCenter {
				out.Answering[l.GetValue()] = !math.IsInf(g.GetGauge().GetValue(), 1)
			}
		}
	}
	return out
}

// addExclusions adds what a coordinator says of data centers that were excluded.
func addExclusions(out *plan.Measure, families partmetrics.Families) {
	for _, name := range []string{contract.MetricExclusions, contract.MetricExcludedShards} {
		for _, g := range families[name].GetMetric() {
			dc, n := partmetrics.Label(g, contract.LabelOfDataCenter), int32(g.GetGauge().GetValue())
			x := out.Exclusions[dc]
			switch partmetrics.Label(g, contract.LabelState) {
			case contract.ExclusionApplied:
				x.Applied = n
			case contract.ExclusionLastCopy:
				x.LastCopy = n > 0
			case contract.ExcludedWithout:
				x.Without = n
			case contract.ExcludedAll:
				x.Shards = n
			}
			if out.Exclusions == nil {
				out.Exclusions = map[string]plan.Exclusion{}
			}
			out.Exclusions[dc] = x
		}
	}
}

func seconds(m *dto.Metric) time.Duration {
	return time.Duration(m.GetGauge().GetValue() * float64(time.Second))
}
