package command

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
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

func TestConditionsOfEveryStoreAreExported(t *testing.T) {
	store := v1alpha1.CausalStore{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"}}
	store.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonPartsNotReady},
		{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDataMissing},
		{Type: v1alpha1.ConditionPeersConnected, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonPeersUnknown},
	}
	const want = `
# HELP causalstore_store_condition Condition in the status of a CausalStore: 1 if it is True, else 0.
# TYPE causalstore_store_condition gauge
causalstore_store_condition{condition="Degraded",reason="DataUnavailable",store="orders",store_namespace="shop"} 1
causalstore_store_condition{condition="PeersConnected",reason="NotMeasured",store="orders",store_namespace="shop"} 0
causalstore_store_condition{condition="Ready",reason="PartsNotReady",store="orders",store_namespace="shop"} 0
`
	if err := testutil.CollectAndCompare(NewConditionMetrics(storeList{store}), strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

func TestNoConditionIsExportedWhenStoresCannotBeListed(t *testing.T) {
	if n := testutil.CollectAndCount(NewConditionMetrics(storeList(nil))); n != 0 {
		t.Errorf("%d series are exported, want none", n)
	}
}
