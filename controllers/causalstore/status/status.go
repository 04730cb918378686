// Package status builds the status of a store from what was observed. It is pure. One function decides each condition,
// with status, reason and message, so that the condition, its event and its log line agree.
package status

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/trust"
)

// Observed is the input of a status.
type Observed struct {
	plan.Observed
	// Refused are reasons not to apply the spec; Forbidden are those that follow from the last spec that was applied.
	Refused, Forbidden []string
	// Conflicts name objects that are not the store's and have the names of planned ones. While there are any, nothing
	// is applied.
	Conflicts []string
	// Failed is why the last attempt to apply the spec did not succeed.
	Failed error
	// Epoch of the topology that the parts are configured with; 0 if it is unknown.
	Epoch int64
	// Rollout, Resharding and Scaling are those of the last plan.
	Rollout    plan.Rollout
	Resharding plan.Resharding
	Scaling    plan.CoordinatorScaling
	// Unmeasured are the coordinators that could not be asked, by the names of their pods, with the reason. It is nil
	// if nobody was asked.
	Unmeasured map[string]string
	// Pending describes what would change if the store were not paused.
	Pending []string
	// Uncreated has why pods of a StatefulSet cannot be made, by its name; Unbound why a claim gets no volume, by its
	// name.
	Uncreated, Unbound map[string]string
	// Growing names the claims that do not have their planned size yet.
	Growing []string
	// Authority is what is known of the authorities of regions, or nil.
	Authority *trust.State
	// AuthorityRefusedBy names the data centers of other regions that do not accept the authority which issues here.
	AuthorityRefusedBy []string
	// AuthorityWaits says what keeps the next authority of the region from issuing, as far as this store goes.
	AuthorityWaits []string
	// Certificates are those of the parts in this region.
	Certificates Certificates
	// WebhookInstalled says whether this operator is to inject sidecars, Webhook whether it does: the API server trusts
	// it.
	WebhookInstalled, Webhook bool
}

// verdict is the content of a condition.
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
	v := newView(in)
	s.DataCenters, s.Rings, s.Summary, s.Problems = v.dataCenters, v.rings, v.summary(), v.publicProblems()
	if v.local > 0 {
		if port := plan.FrontPort(&in.Store.Spec.Clients.Front); port > 0 {
			s.Endpoint = fmt.Sprintf("%s.%s.svc:%d", in.Store.Name, in.Store.Namespace, port)
		}
	}
	for _, c := range []struct {
		name   string
		decide func(*view) verdict
	}{
		{v1alpha1.ConditionTopologyValid, topologyValid},
		{v1alpha1.ConditionStorageReady, storageReady},
		{v1alpha1.ConditionPeersConnected, peersConnected},
		{v1alpha1.ConditionClientsReady, clientsReady},
		{v1alpha1.ConditionPeersTrusted, peersTrusted},
		{v1alpha1.ConditionCertificatesCurrent, certificatesCurrent},
		{v1alpha1.ConditionEdgesReady, edgesReady},
		{v1alpha1.ConditionEtcdReady, etcdReady},
		{v1alpha1.ConditionUnderReplicated, underReplicated},
		{v1alpha1.ConditionVolumesKept, volumesKept},
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
	s.HeartbeatTime = heartbeat(before, &s, in.Now)
	return s
}

// heartbeatInterval is how old the heartbeat may be until the status is written for its sake alone.
const heartbeatInterval = time.Minute

// heartbeat returns the heartbeat of a status: the present time if the status is to be written, or else the one from
// before.
func heartbeat(before, s *v1alpha1.CausalStoreStatus, now time.Time) *metav1.Time {
	s.HeartbeatTime = before.HeartbeatTime
	if at := before.HeartbeatTime; at != nil && now.Sub(at.Time) < heartbeatInterval &&
		equality.Semantic.DeepEqual(before, s) {
		return at
	}
	return &metav1.Time{Time: now}
}
