package command

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

// storeList is a client.Reader that lists the given stores, or fails if there are none.
type storeList []v1alpha1.CausalStore

func (storeList) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("not used")
}

func (l storeList) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	if l == nil {
		return errors.New("the cache is not filled")
	}
	into.(*v1alpha1.CausalStoreList).Items = l
	return nil
}

func TestTheStatusOfEveryStoreIsExported(t *testing.T) {
	store := v1alpha1.CausalStore{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"}}
	lag, writes := int64(1500), int64(7)
	store.Status = v1alpha1.CausalStoreStatus{
		HeartbeatTime: &metav1.Time{Time: time.Unix(1000, 0)},
		Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonPartsNotReady},
			{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDataMissing},
			{Type: v1alpha1.ConditionPeersConnected, Status: metav1.ConditionUnknown,
				Reason: v1alpha1.ReasonPeersUnknown}},
		Problems: []v1alpha1.PodProblem{{Pod: "orders-east-shard-0-0", Reason: "OOMKilled"}},
		Rings:    []v1alpha1.RingStatus{{Name: "near", Availability: v1alpha1.RingUnavailable, LagMs: &lag}},
		DataCenters: []v1alpha1.DataCenterStatus{{Name: "far"},
			{Name: "east", Here: true, Shards: v1alpha1.Count{Ready: 1, Desired: 2, Updated: 2},
				StabilityLagMs: &lag, IncompleteWrites: &writes}},
	}
	const want = `
causalstore_store_condition{condition="Degraded",reason="DataUnavailable",store="orders",store_namespace="shop"} 1
causalstore_store_condition{condition="PeersConnected",reason="NotMeasured",store="orders",store_namespace="shop"} -1
causalstore_store_condition{condition="Ready",reason="PartsNotReady",store="orders",store_namespace="shop"} 0
causalstore_store_heartbeat_timestamp_seconds{store="orders",store_namespace="shop"} 1000
causalstore_store_incomplete_writes{data_center="east",store="orders",store_namespace="shop"} 7
causalstore_store_parts_desired{component="cache",data_center="east",store="orders",store_namespace="shop"} 0
causalstore_store_parts_desired{component="coordinator",data_center="east",store="orders",store_namespace="shop"} 0
causalstore_store_parts_desired{component="shard",data_center="east",store="orders",store_namespace="shop"} 2
causalstore_store_parts_ready{component="cache",data_center="east",store="orders",store_namespace="shop"} 0
causalstore_store_parts_ready{component="coordinator",data_center="east",store="orders",store_namespace="shop"} 0
causalstore_store_parts_ready{component="shard",data_center="east",store="orders",store_namespace="shop"} 1
causalstore_store_parts_updated{component="cache",data_center="east",store="orders",store_namespace="shop"} 0
causalstore_store_parts_updated{component="coordinator",data_center="east",store="orders",store_namespace="shop"} 0
causalstore_store_parts_updated{component="shard",data_center="east",store="orders",store_namespace="shop"} 2
causalstore_store_pod_problem{reason="OOMKilled",store="orders",store_namespace="shop",store_pod="orders-east-shard-0-0"} 1
causalstore_store_ring_availability{availability="Complete",ring="near",store="orders",store_namespace="shop"} 0
causalstore_store_ring_availability{availability="Degraded",ring="near",store="orders",store_namespace="shop"} 0
causalstore_store_ring_availability{availability="Unavailable",ring="near",store="orders",store_namespace="shop"} 1
causalstore_store_ring_availability{availability="Unknown",ring="near",store="orders",store_namespace="shop"} 0
causalstore_store_ring_lag_seconds{ring="near",store="orders",store_namespace="shop"} 1.5
causalstore_store_stability_lag_seconds{data_center="east",store="orders",store_namespace="shop"} 1.5
`
	families, err := gather(NewStoreMetrics(storeList{store}))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.TrimSpace(want), strings.TrimSpace(families)); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// gather returns the samples of a collector as text, without help and types.
func gather(c prometheus.Collector) (string, error) {
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(c); err != nil {
		return "", err
	}
	families, err := r.Gather()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			return "", err
		}
	}
	var samples strings.Builder
	for line := range strings.Lines(b.String()) {
		if !strings.HasPrefix(line, "#") {
			samples.WriteString(line)
		}
	}
	return samples.String(), nil
}

func TestNothingIsExportedWhenStoresCannotBeListed(t *testing.T) {
	if n := testutil.CollectAndCount(NewStoreMetrics(storeList(nil))); n != 0 {
		t.Errorf("%d series are exported, want none", n)
	}
}
