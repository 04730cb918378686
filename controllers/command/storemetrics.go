package command

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// storesTimeout bounds one scrape: until the operator's cache is filled, a list waits for it.
const storesTimeout = 2 * time.Second

// storeMetrics exports the status of all stores in the cluster. The operator knows what each store should run, so they
// also report processes that are gone, of which Prometheus has no target.
type storeMetrics struct{ stores client.Reader }

func describeStore(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("causalstore_store_"+name, help, append([]string{"store_namespace", "store"}, labels...),
		nil)
}

var (
	storeCondition = describeStore("condition",
		"Condition in the status of a CausalStore: 1 if it is True, 0 if it is False, -1 if it is Unknown.",
		"condition", "reason")
	storeHeartbeat = describeStore("heartbeat_timestamp_seconds",
		"When the operator last looked at a CausalStore, in seconds since 1970.")
	storePartsReady = describeStore("parts_ready", "Pods that serve, by data center of this cluster and component.",
		"data_center", "component")
	storePartsDesired = describeStore("parts_desired",
		"Pods that the spec asks for, by data center of this cluster and component.", "data_center", "component")
	storePartsUpdated = describeStore("parts_updated",
		"Pods that run what the spec asks for now, by data center of this cluster and component.",
		"data_center", "component")
	storePodProblem = describeStore("pod_problem", "1 for each pod that does not serve, with the cause in one word.",
		"store_pod", "reason")
	storeRing = describeStore("ring_availability",
		"1 for the availability that a ring has in this cluster, 0 for the others.",
		"ring", "availability")
	storeRingLag = describeStore("ring_lag_seconds",
		"How far a ring is behind the coordinators of this cluster; the worst counts.", "ring")
	storeStabilityLag = describeStore("stability_lag_seconds",
		"Stability lag of the coordinators of a data center; the worst counts.", "data_center")
	storeIncomplete = describeStore("incomplete_writes",
		"Writes of the coordinators of a data center that are not in every ring yet.", "data_center")
)

// NewStoreMetrics returns a collector that reads the stores at every scrape. Every replica of the operator exports the
// same values; the labels do not say which replica wrote the status.
func NewStoreMetrics(stores client.Reader) prometheus.Collector { return storeMetrics{stores} }

// Describe implements prometheus.Collector.
func (storeMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{storeCondition, storeHeartbeat, storePartsReady, storePartsDesired,
		storePartsUpdated, storePodProblem,
		storeRing, storeRingLag, storeStabilityLag, storeIncomplete} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. If the stores cannot be listed it exports none, and the other metrics of the
// operator are still served.
func (c storeMetrics) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), storesTimeout)
	defer cancel()
	var list v1alpha1.CausalStoreList
	if err := c.stores.List(ctx, &list); err != nil {
		return
	}
	for i := range list.Items {
		s := &list.Items[i]
		collectStore(s, func(d *prometheus.Desc, value float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value,
				append([]string{s.Namespace, s.Name}, labels...)...)
		})
	}
}

// collectStore emits the metrics of one store.
func collectStore(s *v1alpha1.CausalStore, emit func(d *prometheus.Desc, value float64, labels ...string)) {
	values := map[metav1.ConditionStatus]float64{metav1.ConditionTrue: 1, metav1.ConditionFalse: 0,
		metav1.ConditionUnknown: -1}
	for _, c := range s.Status.Conditions {
		emit(storeCondition, values[c.Status], c.Type, c.Reason)
	}
	if at := s.Status.HeartbeatTime; at != nil {
		emit(storeHeartbeat, float64(at.Unix()))
	}
	for _, p := range s.Status.Problems {
		emit(storePodProblem, 1, p.Pod, p.Reason)
	}
	for i := range s.Status.DataCenters {
		if dc := &s.Status.DataCenters[i]; dc.Here {
			collectDataCenter(dc, emit)
		}
	}
	for _, r := range s.Status.Rings {
		for _, a := range []v1alpha1.Availability{v1alpha1.RingComplete, v1alpha1.RingDegraded,
			v1alpha1.RingUnavailable, v1alpha1.RingUnknown} {
			is := 0.0
			if r.Availability == a {
				is = 1
			}
			emit(storeRing, is, r.Name, string(a))
		}
		if r.LagMs != nil {
			emit(storeRingLag, float64(*r.LagMs)/1e3, r.Name)
		}
	}
}

func collectDataCenter(dc *v1alpha1.DataCenterStatus, emit func(d *prometheus.Desc, value float64, labels ...string)) {
	parts := map[string]v1alpha1.Count{plan.ComponentCoordinator: dc.Coordinators, plan.ComponentCache: dc.Caches,
		plan.ComponentShard: dc.Shards}
	if dc.Edge != nil {
		parts[plan.ComponentEdge] = dc.Edge.Pods
	}
	if dc.Etcd != nil {
		parts[plan.ComponentEtcd] = *dc.Etcd
	}
	for component, n := range parts {
		emit(storePartsReady, float64(n.Ready), dc.Name, component)
		emit(storePartsDesired, float64(n.Desired), dc.Name, component)
		emit(storePartsUpdated, float64(n.Updated), dc.Name, component)
	}
	if dc.StabilityLagMs != nil {
		emit(storeStabilityLag, float64(*dc.StabilityLagMs)/1e3, dc.Name)
	}
	if dc.IncompleteWrites != nil {
		emit(storeIncomplete, float64(*dc.IncompleteWrites), dc.Name)
	}
}
