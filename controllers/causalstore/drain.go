package causalstore

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/causalstore/status"
)

// drainTracker remembers since when the log of a coordinator has not been seen drained, by store and pod. An operator
// that restarts starts to count again.
type drainTracker struct {
	mu     sync.Mutex
	stores map[types.NamespacedName]map[string]time.Time
}

// update adds what was measured just now, and returns the times for a store. The log of a coordinator that did not
// answer counts as it did before.
func (d *drainTracker) update(store types.NamespacedName, seen *status.Observed) map[string]time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, now, leaving := d.stores[store], map[string]time.Time{}, seen.LeavingPods()
	for i := range seen.Pods {
		p := &seen.Pods[i]
		if p.Labels[plan.LabelComponent] != plan.ComponentCoordinator {
			continue
		}
		since, known := before[p.Name]
		m, answered := seen.Measured[p.Name]
		switch {
		case answered && m.Drained() && (plan.Ready(p) || leaving[p.Name]): // one that starts has not read its log yet
		case known:
			now[p.Name] = since
		case plan.Ready(p):
			now[p.Name] = seen.Now
		}
	}
	if d.stores == nil {
		d.stores = map[types.NamespacedName]map[string]time.Time{}
	}
	d.stores[store] = now
	return now
}

func (d *drainTracker) forget(store types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.stores, store)
}
