package causalstore

import (
	"context"
	"fmt"
	"slices"

	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/controllers/causalstore/status"
)

// missingPriorityClasses returns which PriorityClasses of the spec do not exist. Kubernetes creates no pod with such a
// class, so a change to it would take away the pod that restarts first.
func (r *Reconciler) missingPriorityClasses(ctx context.Context, seen *status.Observed) (why []string, err error) {
	var names []string
	for i := range seen.Store.Spec.DataCenters {
		dc := &seen.Store.Spec.DataCenters[i]
		if name := seen.Store.Spec.PodsOf(dc).PriorityClassName; name != "" && dc.Region == r.Region {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		err := r.Uncached.Get(ctx, client.ObjectKey{Name: name}, &schedulingv1.PriorityClass{})
		switch {
		case apierrors.IsNotFound(err):
			why = append(why,
				fmt.Sprintf(
					"priorityClassName: PriorityClass %s does not exist in this cluster; create it, or correct "+
						"the name", name))
		case err != nil:
			return nil, fmt.Errorf("read PriorityClass %s: %w", name, err)
		}
	}
	return why, nil
}
