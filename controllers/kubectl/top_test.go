package kubectl

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/inject"
	"github.com/causalstore/causalstore/controllers/partmetrics"
	"github.com/causalstore/causalstore/sidecar/metrics"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/topology"
)

// processMetrics returns what a sidecar or a coordinator exports after n rounds of the same work.
func processMetrics(t *testing.T, port int, n float64, lag string) partmetrics.Families {
	t.Helper()
	text := fmt.Sprintf(`# TYPE causalstore_coordinator_incomplete_writes gauge
causalstore_coordinator_incomplete_writes{data_center="d",index="0",ring="r"} 7
# TYPE causalstore_coordinator_stability_lag_seconds gauge
causalstore_coordinator_stability_lag_seconds{data_center="d",index="0",ring="r"} %s
`, lag)
	if port != 7480 {
		text = fmt.Sprintf(`# TYPE causalstore_redis_command_duration_seconds histogram
causalstore_redis_command_duration_seconds_bucket{command="get",le="+Inf"} %[2]g
causalstore_redis_command_duration_seconds_sum{command="get"} 1
causalstore_redis_command_duration_seconds_count{command="get"} %[2]g
causalstore_redis_command_duration_seconds_bucket{command="set",le="+Inf"} %[1]g
causalstore_redis_command_duration_seconds_sum{command="set"} 1
causalstore_redis_command_duration_seconds_count{command="set"} %[1]g
# TYPE causalstore_sidecar_puts_total counter
causalstore_sidecar_puts_total %[1]g
# TYPE causalstore_sidecar_gets_total counter
causalstore_sidecar_gets_total %[2]g
# TYPE causalstore_sidecar_bound_gets_total counter
causalstore_sidecar_bound_gets_total %[3]g
# TYPE causalstore_sidecar_reads_total counter
causalstore_sidecar_reads_total{source="own"} %[1]g
causalstore_sidecar_reads_total{source="near"} %[6]g
causalstore_sidecar_reads_total{source="cache"} %[4]g
causalstore_sidecar_reads_total{source="local"} %[1]g
causalstore_sidecar_reads_total{source="remote"} %[1]g
# TYPE causalstore_sidecar_stability_lag_seconds gauge
causalstore_sidecar_stability_lag_seconds %[5]s
`, 10*n, 190*n, n, 120*n, lag, 40*n)
	}
	f, err := partmetrics.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// allReadings returns readings of all processes of a fixture and of an app's sidecar.
func allReadings(t *testing.T, w *fixture, at time.Time, n float64) []reading {
	t.Helper()
	app := corev1.Pod{}
	app.Name, app.Namespace = "web-1", "shop"
	app.Annotations = map[string]string{inject.AnnotationInjected: "orders/virginia"}
	app.Status.Phase = corev1.PodRunning
	var all []reading
	for i, p := range processesOf(w.parts, []corev1.Pod{app}) {
		r := reading{process: p, at: at}
		switch {
		case p.pod == "web-1" || p.port != 7480:
			r.metrics = processMetrics(t, 0, n*float64(i+1), fmt.Sprintf("0.%d", i+1))
		case isCoordinator(w.parts, p.pod):
			r.metrics = processMetrics(t, p.port, n, fmt.Sprintf("0.%d", i+1))
		}
		all = append(all, r)
	}
	return all
}

func TestTopShowsRatesSharesAndLagsOfEachDataCenter(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, change := range map[string]func(before, now []reading) (b, n []reading){
		"top":      func(before, now []reading) ([]reading, []reading) { return before, now },
		"top-once": func(_, now []reading) ([]reading, []reading) { return nil, now },
		"top-unreachable": func(before, now []reading) ([]reading, []reading) {
			for i := range now {
				if now[i].process.dataCenter == "oregon" {
					now[i].metrics, now[i].err = nil, errors.New("dial tcp: no route to host")
				}
			}
			before[0].metrics, before[0].err = nil, errors.New("not yet")
			return before, now
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			before, now := change(allReadings(t, w, began, 10), allReadings(t, w, began.Add(5*time.Second), 15))
			var out bytes.Buffer
			if err := writeTop(&out, outputFlag{}, w.store, before, now); err != nil {
				t.Fatal(err)
			}
			golden(t, name, out.String())
		})
	}
}

func TestTopCountsARestartedProcessFromItsStart(t *testing.T) {
	at := time.Unix(1000, 0)
	before, now := reading{at: at, metrics: processMetrics(t, 0, 100, "1")},
		reading{at: at.Add(2 * time.Second), metrics: processMetrics(t,
			0, 1, "1")}
	l := newLoad()
	l.addProcess(&before, now)
	if l.writes != 5 || l.gets != 95 {
		t.Errorf("%v writes and %v gets a second, want 10 and 190 in 2 s", l.writes, l.gets)
	}
}

func TestTopFailsIfNoProcessAnswers(t *testing.T) {
	w := newFixture(t)
	var all []reading
	for _, p := range processesOf(w.parts, nil) {
		all = append(all, reading{process: p, err: errors.New("address not allowed")})
	}
	if err := writeTop(&bytes.Buffer{}, outputFlag{}, w.store, nil, all); err == nil ||
		!strings.Contains(err.Error(), "address not allowed") {
		t.Error(err)
	}
}

// TestTopReadsOnlyExportedMetrics: a metric that nothing exports would count as 0.
func TestTopReadsOnlyExportedMetrics(t *testing.T) {
	exported := make(chan *prometheus.Desc, 200)
	metrics.Coordinator(topology.Default(), func() *node.Coordinator { return nil }).Describe(exported)
	metrics.Sidecar(func() *node.Sidecar { return nil }).Describe(exported)
	metrics.NewCommands().Describe(exported)
	metrics.Peers(topology.Default(), 0, func() []contract.Peer { return nil }, func() transport.Stats {
		return transport.Stats{}
	}).Describe(exported)
	close(exported)
	var all strings.Builder
	for d := range exported {
		all.WriteString(d.String())
	}
	for _, name := range []string{metricCommands, metricPuts, metricGets, metricBound, metricReads, metricIncomplete,
		metricStability, metricVisibility,
		contract.MetricRoundTrip, metricPeerBytes} {
		if !strings.Contains(all.String(), fmt.Sprintf("fqName: %q", name)) {
			t.Errorf("no process exports %s", name)
		}
	}
}
