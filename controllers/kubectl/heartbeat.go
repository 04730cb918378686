package kubectl

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// maxHeartbeatAge is how old the heartbeat of a status may be. The operator writes it at least every 75 seconds; the
// rest is for clocks that differ.
const maxHeartbeatAge = 3 * time.Minute

// describeStaleness says that no operator keeps a status up to date; it is empty if one does.
func describeStaleness(s *v1alpha1.CausalStore, now time.Time) string {
	at := s.Status.HeartbeatTime
	switch {
	case at == nil:
		return "its status has no heartbeat of an operator"
	case now.Sub(at.Time) > maxHeartbeatAge:
		return fmt.Sprintf("no operator has looked at it for %s", duration.HumanDuration(now.Sub(at.Time)))
	}
	return ""
}

// settlingTime is how old a heartbeat has to be until a difference between the status and the pods counts: an operator
// that runs writes a change within a second.
const settlingTime = 30 * time.Second

// compareWithPods returns where the pods that serve differ in number from those that the status counts, which shows
// that no operator keeps it up to date, before its heartbeat does.
func compareWithPods(s *v1alpha1.CausalStore, pods []corev1.Pod, now time.Time) (lines []string) {
	if at := s.Status.HeartbeatTime; at != nil && now.Sub(at.Time) < settlingTime {
		return nil
	}
	for i := range s.Status.DataCenters {
		dc := &s.Status.DataCenters[i]
		if !dc.Here {
			continue
		}
		for _, c := range []struct {
			component, name string
			count           v1alpha1.Count
			limit           int32
		}{
			{plan.ComponentCoordinator, "coordinators", dc.Coordinators, dc.Coordinators.Desired},
			{plan.ComponentCache, "caches", dc.Caches, dc.Caches.Desired},
			{plan.ComponentShard, "shards", dc.Shards, dc.Shards.Desired},
		} {
			if ready := countReady(pods, dc.Name, c.component, c.limit); ready != c.count.Ready {
				lines = append(lines, fmt.Sprintf("%s has %d %s that serve, and the status says %d", dc.Name, ready,
					c.name, c.count.Ready))
			}
		}
	}
	return lines
}

// countReady counts the pods of a component that serve. Of coordinators and shards, those with numbers up to a limit
// count: others leave.
func countReady(pods []corev1.Pod, dc, component string, limit int32) (n int32) {
	for i := range pods {
		p := &pods[i]
		if p.Labels[plan.LabelDataCenter] != dc || p.Labels[plan.LabelComponent] != component || !plan.Ready(p) ||
			p.DeletionTimestamp != nil {
			continue
		}
		if component == plan.ComponentCoordinator && int32(plan.Index(p)) >= limit {
			continue
		}
		n++
	}
	return min(n, limit)
}
