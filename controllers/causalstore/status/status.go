// Package status says how a store is, from what was observed. It is pure. Each condition comes from one function that returns
// (status, reason, message), so that condition, event and log say the same.
package status

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// Observed is what a status is made of.
type Observed struct {
	plan.Observed
	// Refused are reasons not to carry out the spec; Forbidden are those that come from what was carried out before.
	Refused, Forbidden []string
	// Failed is why the last attempt to carry it out did not succeed.
	Failed error
	// Epoch that the parts are given; 0 if it is not known.
	Epoch   int64
	Rollout plan.Rollout
	Reshape plan.Reshape
	Regroup plan.Regroup
	// Growing claims do not have the size yet that they should have.
	Growing []string
	// Webhook says whether sidecars are injected by this operator.
	Webhook bool
}

// verdict is what a condition says.
type verdict struct {
	status          metav1.ConditionStatus
	reason, message string
}

func yes(reason, format string, args ...any) verdict {
	return verdict{metav1.ConditionTrue, reason, fmt.Sprintf(format, args...)}
}

func no(reason, format string, args ...any) verdict {
	return verdict{metav1.ConditionFalse, reason, fmt.Sprintf(format, args...)}
}

func unknown(reason, format string, args ...any) verdict {
	return verdict{metav1.ConditionUnknown, reason, fmt.Sprintf(format, args...)}
}

// Of returns the status of a store.
func Of(in Observed) v1alpha1.CausalStoreStatus {
	before := &in.Store.Status
	s := v1alpha1.CausalStoreStatus{
		ObservedGeneration: in.Store.Generation, Conditions: append([]metav1.Condition{}, before.Conditions...),
		Topology: v1alpha1.TopologyStatus{Epoch: max(in.Epoch, before.Topology.Epoch)},
	}
	v := look(in)
	s.DataCenters, s.Rings, s.Summary = v.dataCenters, v.rings, v.summary()
	if v.here > 0 {
		s.Endpoint = fmt.Sprintf("%s.%s.svc:%d", in.Store.Name, in.Store.Namespace, plan.PortRedis)
	}
	for _, c := range []struct {
		name   string
		decide func(*view) verdict
	}{
		{v1alpha1.ConditionTopologyValid, topologyValid},
		{v1alpha1.ConditionStorageReady, storageReady},
		{v1alpha1.ConditionPeersConnected, peersConnected},
		{v1alpha1.ConditionInjectionReady, injectionReady},
		{v1alpha1.ConditionPaused, paused},
		{v1alpha1.ConditionProgressing, progressing},
		{v1alpha1.ConditionDegraded, degraded},
		{v1alpha1.ConditionReady, ready},
	} {
		d := c.decide(v)
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: c.name, Status: d.status, Reason: d.reason,
			Message:            d.message,
			ObservedGeneration: in.Store.Generation, LastTransitionTime: metav1.NewTime(in.Now)})
	}
	return s
}
