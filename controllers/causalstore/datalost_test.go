package causalstore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore"
	"github.com/causalstore/causalstore/controllers/command"
)

// servePods makes operators ask a server, over HTTP, whichever pod they mean.
func (k *cluster) servePods(handler http.Handler) {
	s := httptest.NewServer(handler)
	k.t.Cleanup(s.Close)
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, s.Listener.Addr().String())
	}
	k.prober = causalstore.HTTPProber{
		Client: &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}},
	}
}

// TestAPartThatHasLostItsDataShowsInStatusConditionEventAndMetric: as soon as the part reports it, and until it serves
// again.
func TestAPartThatHasLostItsDataShowsInStatusConditionEventAndMetric(t *testing.T) {
	for _, pod := range []string{"try-here-shard-0-0", "try-here-cc-0"} {
		t.Run(pod, func(t *testing.T) {
			const reason = "data lost: the storage is empty, and it had acknowledged writes of coordinator 0 of here"
			k := newCluster(t)
			k.servePods(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != contract.PathReady {
					http.NotFound(w, r)
					return
				}
				w.WriteHeader(http.StatusServiceUnavailable)
				_ = json.NewEncoder(w).Encode(contract.Readiness{Phase: contract.PhaseRunning,
					State: contract.StateDataLost, Reason: reason})
			}))
			k.operator("local", "causalstore:v1")
			k.sample("one-data-center.yaml", nil)
			k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)

			k.workloads.fail(pod)
			says := fmt.Sprintf("%s: DataLost: %s", pod, reason)
			for condition, is := range map[string]metav1.ConditionStatus{v1alpha1.ConditionDegraded: yes,
				v1alpha1.ConditionReady: no} {
				if c := k.awaitCondition("try", condition, is, v1alpha1.ReasonDataLost); !strings.Contains(c.Message,
					says) {
					t.Errorf("%s says %q, want %q", condition, c.Message, says)
				}
			}
			if p := k.store("try").Status.Problems; len(p) != 1 ||
				p[0] != (v1alpha1.PodProblem{Pod: pod, Reason: "DataLost", Message: reason}) {
				t.Errorf("the problems are %+v", p)
			}
			k.awaitEvent("DataLost", "pod "+pod+": "+reason)
			k.awaitEvent("DataLost", "Degraded is True: parts whose disks have lost data; "+says)
			if got := k.storeMetric("causalstore_store_pod_problem",
				map[string]string{"store_pod": pod, "reason": "DataLost"}); got != 1 {
				t.Errorf("the metric of the problem is %v", got)
			}
			if got := k.storeMetric("causalstore_store_condition",
				map[string]string{"condition": "Degraded", "reason": "DataLost"}); got != 1 {
				t.Errorf("the metric of the condition is %v", got)
			}

			k.workloads.repair(pod)
			k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
			k.awaitCondition("try", v1alpha1.ConditionDegraded, no, v1alpha1.ReasonNotDegraded)
			if got := k.storeMetric("causalstore_store_pod_problem", map[string]string{"store_pod": pod}); got != 0 {
				t.Errorf("the metric of the problem is %v after the part has come back", got)
			}
		})
	}
}

// storeMetric returns the value of a metric of the stores in this namespace with some labels, or 0 if there is none.
func (k *cluster) storeMetric(name string, labels map[string]string) float64 {
	k.t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(command.NewStoreMetrics(k.client))
	families, err := r.Gather()
	if err != nil {
		k.t.Fatal(err)
	}
	labels["store_namespace"] = k.namespace
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			matching := 0
			for _, l := range m.GetLabel() {
				if labels[l.GetName()] == l.GetValue() && l.GetValue() != "" {
					matching++
				}
			}
			if matching == len(labels) {
				return m.GetGauge().GetValue()
			}
		}
	}
	return 0
}
