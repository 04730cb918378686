package causalstore

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/causalstore/status"
)

// moves asks parts how far a change is, if there is one that they have to do with. They are asked whether they are ready or not.
func (r *Reconciler) moves(ctx context.Context, seen *status.Observed) map[string]plan.Move {
	all := map[string]plan.Move{}
	if r.Prober == nil {
		return all
	}
	involved := seen.Involved()
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var mu sync.Mutex
	var asked sync.WaitGroup
	for i := range seen.Pods {
		p := &seen.Pods[i]
		if !involved[p.Name] {
			continue
		}
		asked.Go(func() {
			m, err := plan.Move{Failed: "its pod has no address yet"}, error(nil)
			if p.Status.PodIP != "" {
				if m, err = r.Prober.Move(ctx, p); err != nil {
					m = plan.Move{Failed: err.Error()}
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all[p.Name] = m
		})
	}
	asked.Wait()
	return all
}

// readiness is what matters here of the answer to /readyz; package process, which gives it, must not be imported here.
type readiness struct {
	Epoch       int64    `json:"topologyEpoch"`
	Shards      string   `json:"shards"`
	RingsBefore []string `json:"ringsBefore"`
	Membership  string   `json:"membership"`
	InUse       []int    `json:"coordinatorsInUse"`
	Reason      string   `json:"reason"`
	Problem     string   `json:"configProblem"`
}

// Move implements Prober.
func (m MetricsProber) Move(ctx context.Context, pod *corev1.Pod) (plan.Move, error) {
	return m.readMove(ctx, address(pod)+"/readyz")
}

func (m MetricsProber) readMove(ctx context.Context, url string) (plan.Move, error) {
	answer, err := m.get(ctx, url)
	if err != nil {
		return plan.Move{}, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusServiceUnavailable {
		return plan.Move{}, fmt.Errorf("%s: %s", url, answer.Status)
	}
	var is readiness
	if err := json.NewDecoder(http.MaxBytesReader(nil, answer.Body, maxAnswer)).Decode(&is); err != nil {
		return plan.Move{}, fmt.Errorf("%s: %w", url, err)
	}
	return plan.Move{Epoch: is.Epoch, State: is.Shards, Before: is.RingsBefore, Member: is.Membership, InUse: is.InUse,
		Reason: is.Reason, Problem: is.Problem}, nil
}
