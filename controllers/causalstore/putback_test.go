package causalstore_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

func TestEventsNameWhatIsPutBackAndWhoHasChangedIt(t *testing.T) {
	k := newCluster(t)
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)

	var services corev1.ServiceList
	budget := &policyv1.PodDisruptionBudget{}
	var budgets policyv1.PodDisruptionBudgetList
	if err := k.client.List(t.Context(), &budgets, client.InNamespace(k.namespace)); err != nil ||
		len(budgets.Items) == 0 {
		t.Fatal(budgets.Items, err)
	}
	k.get(budgets.Items[0].Name, budget)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"minAvailable":7,"maxUnavailable":null}}`))
	if err := k.client.Patch(t.Context(), budget, patch, client.FieldOwner("an-editor")); err != nil {
		t.Fatal(err)
	}
	k.awaitEvent("PutBack", "PodDisruptionBudget "+budget.Name+" was changed by an-editor at ")

	if err := k.client.List(t.Context(), &services, client.InNamespace(k.namespace)); err != nil ||
		len(services.Items) == 0 {
		t.Fatal(services.Items, err)
	}
	if err := k.client.Delete(t.Context(), &services.Items[0]); err != nil {
		t.Fatal(err)
	}
	k.awaitEvent("PutBack", "Service "+services.Items[0].Name+" was deleted, and is made again")
}

// errorLog keeps what is logged as an error.
type errorLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *errorLog) write(prefix, args string) {
	if strings.Contains(args, `"error"=`) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, prefix+" "+args)
	}
}

func TestANewStoreIsMadeWithoutAnErrorInTheLogAndWithoutPuttingAnythingBack(t *testing.T) {
	k := newCluster(t)
	logged := &errorLog{}
	k.log = funcr.New(logged.write, funcr.Options{})
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.Image = "causalstore:v2" })
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	logged.mu.Lock()
	defer logged.mu.Unlock()
	for _, line := range logged.lines {
		t.Error(line)
	}
	var events eventsv1.EventList
	if err := k.client.List(t.Context(), &events, client.InNamespace(k.namespace)); err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		if e.Reason == "PutBack" {
			t.Error(e.Note)
		}
	}
}
