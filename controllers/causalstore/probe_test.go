package causalstore

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/sidecar/process"
)

func TestTheMetricsOfACoordinatorAreUnderstood(t *testing.T) {
	serve := func(text string) plan.Measure {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }))
		defer s.Close()
		m, err := MetricsProber{Client: s.Client()}.read(t.Context(), s.URL)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	got := serve(`# TYPE causalstore_coordinator_incomplete_writes gauge
causalstore_coordinator_incomplete_writes{data_center="a",index="0",ring="x"} 12
# TYPE causalstore_coordinator_stability_lag_seconds gauge
causalstore_coordinator_stability_lag_seconds{data_center="a",index="0",ring="x"} 0.25
# TYPE causalstore_coordinator_ring_lag_seconds gauge
causalstore_coordinator_ring_lag_seconds{data_center="a",index="0",ring="x",to_ring="x"} 0.01
causalstore_coordinator_ring_lag_seconds{data_center="a",index="0",ring="x",to_ring="y"} 3
`)
	want := plan.Measure{Published: true, Incomplete: 12, StabilityLag: 250 * time.Millisecond,
		RingLag: map[string]time.Duration{"x": 10 * time.Millisecond, "y": 3 * time.Second}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if m := serve("# TYPE causalstore_coordinator_incomplete_writes gauge\ncausalstore_coordinator_incomplete_writes 0\n"); m.Published {
		t.Error("a coordinator that has published nothing counts as measured")
	}
}

func TestWhatAPartSaysOfAChangeIsUnderstoodAlsoWhileItIsNotReady(t *testing.T) {
	ready, err := json.Marshal(process.Readiness{Epoch: 7, Shards: "copying", RingsBefore: []string{"x"}, Membership: "joining",
		CoordinatorsInUse: []int{0, 2}, ConfigProblem: "bad", Reason: "too early"})
	if err != nil {
		t.Fatal(err)
	}
	code := http.StatusServiceUnavailable
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = w.Write(ready)
	}))
	defer s.Close()
	got, err := MetricsProber{Client: s.Client()}.readMove(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	want := plan.Move{Epoch: 7, State: "copying", Before: []string{"x"}, Member: "joining", InUse: []int{0, 2}, Reason: "too early", Problem: "bad"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	code = http.StatusNotFound
	if m, err := (MetricsProber{Client: s.Client()}).readMove(t.Context(), s.URL); err == nil {
		t.Errorf("something else answers, and counts as %+v", m)
	}
}
