package causalstore

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/sidecar/metrics"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/topology"
)

func TestTheProberReadsTheMetricsOfACoordinator(t *testing.T) {
	serve := func(text string) plan.Measure {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, text)
		}))
		defer s.Close()
		m, err := HTTPProber{Client: s.Client()}.readMeasure(t.Context(), s.URL)
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
# TYPE causalstore_coordinator_round_trip_seconds gauge
causalstore_coordinator_round_trip_seconds{data_center="a",index="0",ring="x",to_data_center="a"} 0.001
causalstore_coordinator_round_trip_seconds{data_center="a",index="0",ring="x",to_data_center="b"} +Inf
`)
	want := plan.Measure{Published: true, Incomplete: 12, StabilityLag: 250 * time.Millisecond,
		RingLag:   map[string]time.Duration{"x": 10 * time.Millisecond, "y": 3 * time.Second},
		Answering: map[string]bool{"a": true, "b": false}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if m := serve(
		"# TYPE causalstore_coordinator_incomplete_writes " +
			"gauge\ncausalstore_coordinator_incomplete_writes 0\n"); m.Published {
		t.Error("a coordinator that has published nothing counts as measured")
	}
}

// TestCoordinatorsServeTheMetricsThatTheProberReads compares the names of the contract with the collector of
// coordinators.
func TestCoordinatorsServeTheMetricsThatTheProberReads(t *testing.T) {
	served := make(chan *prometheus.Desc, 100)
	metrics.Coordinator(topology.Default(), func() *node.Coordinator { return nil }).Describe(served)
	close(served)
	var all strings.Builder
	for d := range served {
		fmt.Fprintln(&all, d)
	}
	for _, name := range []string{contract.MetricIncompleteWrites, contract.MetricStabilityLag, contract.MetricRingLag,
		contract.MetricRoundTrip} {
		if !strings.Contains(all.String(), fmt.Sprintf("fqName: %q", name)) {
			t.Errorf("coordinators do not serve %s, but:\n%s", name, all.String())
		}
	}
	for _, label := range []string{contract.LabelToRing, contract.LabelToDataCenter} {
		if !strings.Contains(all.String(), label) {
			t.Errorf("no metric of coordinators has the label %s:\n%s", label, all.String())
		}
	}
}

func TestTheProberReadsTheReportOfAPartThatIsNotReady(t *testing.T) {
	want := contract.Readiness{Epoch: 7, Shards: "copying", RingsBefore: []string{"x"}, Membership: "joining",
		CoordinatorsInUse: []int{0, 2}, ConfigProblem: "bad", Reason: "too early"}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	code := http.StatusServiceUnavailable
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = w.Write(text)
	}))
	defer s.Close()
	got, err := HTTPProber{Client: s.Client()}.readReadiness(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	code = http.StatusNotFound
	if m, err := (HTTPProber{Client: s.Client()}).readReadiness(t.Context(), s.URL); err == nil {
		t.Errorf("a server that is no part is read as %+v", m)
	}
}
