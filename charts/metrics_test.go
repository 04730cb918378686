package charts_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
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

	"github.com/causalstore/causalstore/controllers/inject"
	"github.com/causalstore/causalstore/sidecar/metrics"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/process"
	"github.com/causalstore/causalstore/sidecar/topology"
	"github.com/causalstore/causalstore/sidecar/transport"
)

// used is what an expression names.
type used struct{ metrics, labels []string }

var (
	// token of PromQL: a string, a number or time, a variable of Grafana, a name, a parenthesis.
	token = regexp.MustCompile(`"(?:\\.|[^"\\])*"|\$[a-zA-Z_]+|[0-9][0-9a-zA-Z.]*|[a-zA-Z_:][a-zA-Z0-9_:]*|[(){}\[\]]`)
	name  = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	// words of the language that are no functions.
	words   = strings.Fields("and or unless bool offset sum min max avg count stddev stdvar group topk bottomk quantile count_values")
	lists   = strings.Fields("by without on ignoring group_left group_right")
	ofChart = regexp.MustCompile(`label_values\((\w+), (\w+)\)`)
)

// uses takes an expression apart. What is neither a function nor a word of the language nor in a list of labels is a metric.
func uses(expr string) (u used) {
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
		case t == "(" && i > 0 && slices.Contains(lists, tokens[i-1]):
			inLabels, closes = true, ")"
		case !name.MatchString(t) || slices.Contains(words, t) || slices.Contains(lists, t):
		case inLabels:
			u.labels = append(u.labels, t)
		case next != "(": // else a function
			u.metrics = append(u.metrics, t)
		}
	}
	return u
}

func TestMetricsAreFoundInExpressions(t *testing.T) {
	got := uses(`sum by (source, le) (rate(a_total{x=~"$store",y!="b(c)"}[1m])) / on (z) group_left c:d > 200e6 or absent_over_time(e[5m]) and up == 1`)
	if want := (used{[]string{"a_total", "c:d", "e", "up"}, []string{"source", "le", "x", "y",
		"z"}}); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// expressions of the alerts and the dashboard.
func expressions(t *testing.T) (all []string) {
	t.Helper()
	var alerts struct {
		Groups []struct{ Rules []struct{ Expr string } }
	}
	var dashboard struct {
		Templating struct {
			List []struct{ Type, Query string }
		}
		Panels []struct{ Targets []struct{ Expr string } }
	}
	for file, into := range map[string]any{"alerts.yaml": &alerts, "dashboard.json": &dashboard} {
		b, err := os.ReadFile(filepath.Join("causalstore", "files", file))
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(b, into); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range alerts.Groups {
		for _, r := range g.Rules {
			all = append(all, r.Expr)
		}
	}
	for _, v := range dashboard.Templating.List {
		if m := ofChart.FindStringSubmatch(v.Query); m != nil {
			all = append(all, fmt.Sprintf("sum by (%s) (%s)", m[2], m[1]))
		} else if v.Type == "query" {
			t.Errorf("the query of a variable is not understood here: %s", v.Query)
		}
	}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			all = append(all, target.Expr)
		}
	}
	return all
}

// exported maps metrics to their labels.
type exported map[string][]string

var described = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)

// describe adds what a collector may show, also if it shows nothing now.
func (e exported) describe(t *testing.T, c prometheus.Collector, labels ...string) {
	t.Helper()
	all := make(chan *prometheus.Desc, 1000)
	c.Describe(all)
	close(all)
	for d := range all {
		m := described.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("not understood: %s", d)
		}
		e[m[1]] = append(strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' || r == ' ' }), labels...)
	}
}

// everything that the parts and the operator show.
func everything(t *testing.T) exported {
	t.Helper()
	all := exported{}
	part := []string{"data_center", "ring"}
	topo := topology.Default()
	for l := range metrics.PartLabels(topo, topology.Node{Part: topology.Coordinator}) {
		if !slices.Contains(part, l) && l != "index" {
			t.Errorf("parts have a label %s, too", l)
		}
	}
	indexed := append(part, "index")
	all.describe(t, metrics.Sidecar(func() *node.Sidecar { return nil }), part...)
	all.describe(t, metrics.NewCommands(), part...)
	all.describe(t, metrics.Coordinator(topo, func() *node.Coordinator { return nil }), indexed...)
	all.describe(t, metrics.Middleman(func() *node.Middleman { return nil }), indexed...)
	all.describe(t, metrics.Cache(func() *node.Cache { return nil }), indexed...)
	all.describe(t, metrics.Network(func() transport.Stats { return transport.Stats{} }, func() uint64 { return 1 }), indexed...)
	all.describe(t, inject.NewInjections())
	all.describe(t, ctrlmetrics.Registry.(prometheus.Collector))
	for name, labels := range ofProcess(t) {
		if all[name] == nil {
			all[name] = labels
		}
	}
	return all
}

// ofProcess is what a cache as a process of its own shows: health and configuration are shown only there.
func ofProcess(t *testing.T) exported {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	file := filepath.Join(t.TempDir(), "causalstore.yaml")
	text := fmt.Sprintf(`{dataCenter: a, topology: {epoch: 1, dataCenters: [{name: a}], rings: [{name: r, dataCenters: [a]}]}, storage: {engine: embedded},
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
	var body io.ReadCloser
	for deadline := time.Now().Add(30 * time.Second); body == nil; time.Sleep(20 * time.Millisecond) {
		if a, err := http.Get(url); err == nil {
			body = a.Body
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	defer func() { _ = body.Close() }()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(body)
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

// TestAlertsAndDashboardUseOnlyWhatIsShown: an alert on a metric that nobody shows would never fire, and nobody would notice.
func TestAlertsAndDashboardUseOnlyWhatIsShown(t *testing.T) {
	shown := everything(t)
	// What Prometheus adds to each target, with what the monitors of this chart say.
	target := []string{"namespace", "pod", "container", "job", "instance", "app_kubernetes_io_instance"}
	n := 0
	for _, expr := range expressions(t) {
		u := uses(expr)
		if len(u.metrics) == 0 {
			t.Errorf("there is no metric in %s", expr)
		}
		labels := slices.Clone(target)
		for _, m := range u.metrics {
			n++
			is, ok := shown[m]
			for _, suffix := range []string{"_bucket", "_count", "_sum"} {
				if base, cut := strings.CutSuffix(m, suffix); cut && !ok {
					is, ok = shown[base]
					is = append(slices.Clone(is), "le")
				}
			}
			if !ok {
				t.Errorf("nobody shows %s, which is in %s", m, expr)
			}
			labels = append(labels, is...)
		}
		for _, l := range u.labels {
			if !slices.Contains(labels, l) {
				t.Errorf("there is no label %s on what is in %s", l, expr)
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d metrics were found", n)
	}
}

// TestLabelsInTheTextsOfAlertsAreThere: {{ $labels.x }} of a label that is not there is empty.
func TestLabelsInTheTextsOfAlertsAreThere(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("causalstore", "files", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	shown := everything(t)
	var alerts struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(b, &alerts); err != nil {
		t.Fatal(err)
	}
	inText := regexp.MustCompile(`\$labels\.(\w+)`)
	for _, g := range alerts.Groups {
		for _, r := range g.Rules {
			text, err := json.Marshal(r.Annotations)
			if err != nil {
				t.Fatal(err)
			}
			u := uses(r.Expr)
			labels := append(slices.Clone(u.labels), "pod")
			if !strings.Contains(r.Expr, "by (") { // else only those are left
				for _, m := range u.metrics {
					labels = append(labels, shown[m]...)
				}
			}
			for _, m := range inText.FindAllStringSubmatch(string(text), -1) {
				if !slices.Contains(labels, m[1]) {
					t.Errorf("%s: its text has label %s, and its expression has %v", r.Alert, m[1], labels)
				}
			}
		}
	}
}
