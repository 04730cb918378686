package charts_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/controllers/command"
	"github.com/causalstore/causalstore/controllers/inject"
	"github.com/causalstore/causalstore/controllers/trust"
	"github.com/causalstore/causalstore/lab/ports"
	"github.com/causalstore/causalstore/sidecar/metrics"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/process"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/topology"
)

// references are the metrics and labels that an expression names.
type references struct{ metrics, labels []string }

var (
	// token of PromQL: a string, a number or duration, a Grafana variable, a name, a parenthesis.
	token = regexp.MustCompile(`"(?:\\.|[^"\\])*"|\$[a-zA-Z_]+|[0-9][0-9a-zA-Z.]*|[a-zA-Z_:][a-zA-Z0-9_:]*|[(){}\[\]]`)
	name  = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	// keywords of PromQL that may precede a parenthesis or a name, and are not metrics.
	keywords = strings.Fields(
		"and or unless bool offset sum min max avg count stddev stdvar group topk bottomk quantile count_values")
	// labelLists are the keywords that a list of labels follows.
	labelLists  = strings.Fields("by without on ignoring group_left group_right")
	labelValues = regexp.MustCompile(`label_values\((\w+), (\w+)\)`)
)

// parse returns the metrics and labels of an expression. A name is a metric unless it is a function, a keyword or in a
// list of labels.
func parse(expr string) (u references) {
	tokens := token.FindAllString(expr, -1)
	inLabels, closes := false, ""
	for i, t := range tokens {
		next := ""
		if i+1 < len(tokens) {
			next = tokens[i+1]
		}
		switch {
		case inLabels && t == closes:
			inLabels = false
		case t == "{" || t == "[":
			inLabels, closes = true, map[string]string{"{": "}", "[": "]"}[t]
		case t == "(" && i > 0 && slices.Contains(labelLists, tokens[i-1]):
			inLabels, closes = true, ")"
		case !name.MatchString(t) || slices.Contains(keywords, t) || slices.Contains(labelLists, t):
		case inLabels:
			u.labels = append(u.labels, t)
		case next != "(": // else a function
			u.metrics = append(u.metrics, t)
		}
	}
	return u
}

func TestParseFindsTheMetricsAndLabelsOfAnExpression(t *testing.T) {
	got := parse(
		`sum by (source, le) (rate(a_total{x=~"$store",y!="b(c)"}[1m])) / on (z) group_left c:d > 200e6 or absent_over_time(e[5m]) and up == 1`)
	if want := (references{[]string{"a_total", "c:d", "e", "up"}, []string{"source", "le", "x", "y",
		"z"}}); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// expressions returns those of the alerts and the dashboard.
func expressions(t *testing.T) (all []string) {
	t.Helper()
	var dashboard struct {
		Templating struct {
			List []struct{ Type, Query string }
		}
		Panels []struct{ Targets []struct{ Expr string } }
	}
	b, err := os.ReadFile(filepath.Join("causalstore", "files", "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(b, &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, a := range alerts(t) {
		all = append(all, a.Expr)
	}
	for _, v := range dashboard.Templating.List {
		if m := labelValues.FindStringSubmatch(v.Query); m != nil {
			all = append(all, fmt.Sprintf("sum by (%s) (%s)", m[2], m[1]))
		} else if v.Type == "query" {
			t.Errorf("the query of a dashboard variable is not label_values(METRIC, LABEL): %s", v.Query)
		}
	}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			all = append(all, target.Expr)
		}
	}
	return all
}

// exported maps the names of metrics to their labels.
type exported map[string][]string

var described = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)

// describe adds the metrics that a collector may export, even if it exports none of them now.
func (e exported) describe(t *testing.T, c prometheus.Collector, labels ...string) {
	t.Helper()
	all := make(chan *prometheus.Desc, 1000)
	c.Describe(all)
	close(all)
	for d := range all {
		m := described.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("a description in an unknown format: %s", d)
		}
		e[m[1]] = append(strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' || r == ' ' }), labels...)
	}
}

// allMetrics returns what the parts and the operator export, and what Prometheus adds.
func allMetrics(t *testing.T) exported {
	t.Helper()
	all := exported{"up": targetLabels}
	part := []string{"data_center", "ring"}
	topo := topology.Default()
	for l := range metrics.PartLabels(topo, topology.Node{Part: topology.Coordinator}) {
		if !slices.Contains(part, l) && l != "index" && l != "member" {
			t.Errorf("parts have another label: %s", l)
		}
	}
	indexed := append(part, "index")
	ofMembers := append(slices.Clone(indexed), "member")
	all.describe(t, metrics.Sidecar(func() *node.Sidecar { return nil }), part...)
	all.describe(t, metrics.NewCommands(), part...)
	all.describe(t, metrics.Coordinator(topo, func() *node.Coordinator { return nil }), ofMembers...)
	all.describe(t, metrics.SignedVectors(topo, nil, nil), ofMembers...)
	all.describe(t, metrics.Middleman(func() metrics.Shard { return nil }), ofMembers...)
	all.describe(t, metrics.ShardGroup(func() *node.ShardMember { return nil }), ofMembers...)
	all.describe(t, metrics.Cache(func() *node.Cache { return nil }), indexed...)
	all.describe(t, metrics.Network(func() transport.Stats { return transport.Stats{} }, func() uint64 {
		return 1
	}), indexed...)
	all.describe(t, inject.NewInjections())
	all.describe(t, command.NewStoreMetrics(nil))
	all.describe(t, &trust.Expiries{})
	all.describe(t, &inject.Census{})
	all.describe(t, ctrlmetrics.Registry.(prometheus.Collector))
	for name, labels := range processMetrics(t) {
		if all[name] == nil {
			all[name] = labels
		}
	}
	for _, name := range edgeMetrics {
		all[name] = []string{"data_center"} // which the PodMonitor adds
	}
	return all
}

// edgeMetrics are those of Envoy that alerts may use. A test of package edge looks whether Envoy has them.
var edgeMetrics = []string{"envoy_cluster_manager_cds_update_rejected", "envoy_listener_manager_lds_update_rejected"}

// processMetrics returns what a cache in its own process exports: only a process exports its health and configuration.
func processMetrics(t *testing.T) exported {
	t.Helper()
	address := ports.ForTest(t)
	file := filepath.Join(t.TempDir(), "causalstore.yaml")
	text := fmt.Sprintf(
		`{dataCenter: a, topology: {epoch: 1, dataCenters: [{name: a}], rings: [{name: r, dataCenters: [a]}]}, storage: {engine: embedded},
addresses: {a: {coordinators: ["127.0.0.1:1"], middlemen: ["127.0.0.1:2"], caches: ["127.0.0.1:3"]}}, listen: {grpc: "127.0.0.1:0", http: %q}}`, address)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	source := process.Source{Path: file}
	set, err := source.Load(topology.Cache)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- process.Run(ctx, process.Options{Settings: set, Source: source, Logger: slog.New(slog.DiscardHandler),
			Level: &slog.LevelVar{}})
	}()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	return scrape(t, "http://"+address+"/metrics")
}

func scrape(t *testing.T, url string) exported {
	t.Helper()
	resp, err := http.Get(url)
	for deadline := time.Now().Add(2 * time.Minute); err != nil; resp, err = http.Get(url) {
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	all := exported{}
	for name, f := range families {
		all[name] = []string{}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				all[name] = append(all[name], l.GetName())
			}
		}
	}
	return all
}

// targetLabels are those that Prometheus and the monitors of this chart add to every target.
var targetLabels = []string{"namespace", "pod", "container", "job", "instance", "app_kubernetes_io_instance",
	"causalstore_process"}

// TestAlertsAndDashboardUseOnlyExportedMetrics: an alert on a metric that nothing exports never fires, and nobody
// notices.
func TestAlertsAndDashboardUseOnlyExportedMetrics(t *testing.T) {
	known := allMetrics(t)
	n := 0
	for _, expr := range expressions(t) {
		u := parse(expr)
		if len(u.metrics) == 0 {
			t.Errorf("no metric in %s", expr)
		}
		labels := slices.Clone(targetLabels)
		for _, m := range u.metrics {
			n++
			is, ok := known[m]
			for _, suffix := range []string{"_bucket", "_count", "_sum"} {
				if base, cut := strings.CutSuffix(m, suffix); cut && !ok {
					is, ok = known[base]
					is = append(slices.Clone(is), "le")
				}
			}
			if !ok {
				t.Errorf("nothing exports %s, which %s uses", m, expr)
			}
			labels = append(labels, is...)
		}
		for _, l := range u.labels {
			if !slices.Contains(labels, l) {
				t.Errorf("no metric has label %s, which %s uses", l, expr)
			}
		}
	}
	if n < 10 {
		t.Errorf("found only %d metrics", n)
	}
}
