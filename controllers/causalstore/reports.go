package causalstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/causalstore/status"
)

// askReports asks the parts that are involved in a change for their reports, whether they are ready or not, those that
// are not ready for the reason, and the first coordinators for what they know of other data centers.
func (r *Reconciler) askReports(ctx context.Context, seen *status.Observed) map[string]plan.Report {
	if r.Prober == nil {
		return map[string]plan.Report{}
	}
	involved := seen.InvolvedPods()
	return r.askPods(ctx, seen.Pods, func(p *corev1.Pod) bool {
		first := p.Labels[plan.LabelComponent] == plan.ComponentCoordinator && plan.Index(p) == 0
		return involved[p.Name] || seen.HasGroup(p) || p.Status.PodIP != "" && (first || !plan.Ready(p))
	})
}

// askPods asks the parts in some pods for their reports.
func (r *Reconciler) askPods(ctx context.Context, pods []corev1.Pod,
	which func(*corev1.Pod) bool) map[string]plan.Report {
	all := map[string]plan.Report{}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var mu sync.Mutex
	var asked sync.WaitGroup
	for i := range pods {
		p := &pods[i]
		if plan.IsOfEtcd(p) || !which(p) {
			continue
		}
		asked.Go(func() {
			report := r.askReport(ctx, p)
			mu.Lock()
			defer mu.Unlock()
			all[p.Name] = report
		})
	}
	asked.Wait()
	return all
}

func (r *Reconciler) askReport(ctx context.Context, p *corev1.Pod) plan.Report {
	if p.Status.PodIP == "" {
		return plan.Report{Err: errors.New("its pod has no address yet")}
	}
	readiness, err := r.Prober.Readiness(ctx, p)
	if err != nil {
		return plan.Report{Err: err}
	}
	return plan.Report{Readiness: readiness}
}

// Readiness implements Prober.
func (h HTTPProber) Readiness(ctx context.Context, pod *corev1.Pod) (contract.Readiness, error) {
	return h.readReadiness(ctx, address(pod)+contract.PathReady)
}

// readReadiness reads a report. A part that is not ready sends one as well, with the status 503.
func (h HTTPProber) readReadiness(ctx context.Context, url string) (contract.Readiness, error) {
	answer, err := h.get(ctx, url)
	if err != nil {
		return contract.Readiness{}, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusServiceUnavailable {
		return contract.Readiness{}, fmt.Errorf("%s: %s", url, answer.Status)
	}
	var report contract.Readiness
	if err := json.NewDecoder(http.MaxBytesReader(nil, answer.Body, maxAnswerBytes)).Decode(&report); err != nil {
		return contract.Readiness{}, fmt.Errorf("%s: %w", url, err)
	}
	return report, nil
}
