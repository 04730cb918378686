package charts_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// alert is a rule of Prometheus.
type alert struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

// ruleGroups are the groups of rules in files/alerts.yaml, and in the spec of a PrometheusRule.
type ruleGroups struct {
	Groups []struct {
		Name  string
		Rules []alert
	}
}

func (g ruleGroups) alerts() (all []alert) {
	for _, group := range g.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

func alerts(t *testing.T) []alert {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("causalstore", "files", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var groups ruleGroups
	if err := yaml.Unmarshal(b, &groups); err != nil {
		t.Fatal(err)
	}
	all := groups.alerts()
	if len(all) < 10 {
		t.Fatalf("found only %d alerts", len(all))
	}
	return all
}

// runbooks maps the titles of the sections of docs/runbooks.md to their text.
func runbooks(t *testing.T) map[string]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "docs", "runbooks.md"))
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, section := range strings.Split(string(b), "\n## ")[1:] {
		title, text, _ := strings.Cut(section, "\n")
		sections[title] = text
	}
	return sections
}

func TestEveryAlertHasARunbookAndEveryRunbookAnAlert(t *testing.T) {
	sections := runbooks(t)
	for _, a := range alerts(t) {
		text, ok := sections[a.Alert]
		if !ok {
			t.Errorf("docs/runbooks.md has no section %s", a.Alert)
			continue
		}
		for _, part := range []string{"**Meaning.**", "**Impact.**", "**Diagnosis.**", "**What to do.**",
			"**When it is safe.**"} {
			if !strings.Contains(text, "\n"+part) {
				t.Errorf("section %s of docs/runbooks.md lacks %s", a.Alert, part)
			}
		}
		delete(sections, a.Alert)
	}
	for title := range sections {
		t.Errorf("docs/runbooks.md has a section for %s, which is no alert", title)
	}
}

// TestRunbooksNameOnlyAlertsAndMetricsThatExist also covers references from one section to another.
func TestRunbooksNameOnlyAlertsAndMetricsThatExist(t *testing.T) {
	metrics, known := allMetrics(t), map[string]bool{}
	for _, a := range alerts(t) {
		known[a.Alert] = true
	}
	metric, camelCase := regexp.MustCompile(`\bcausalstore_\w+`), regexp.MustCompile(`\bCausalStore[A-Z]\w+`)
	for title, text := range runbooks(t) {
		for _, name := range metric.FindAllString(text, -1) {
			if metrics[name] == nil {
				t.Errorf("section %s names metric %s, which nothing exports", title, name)
			}
		}
		for _, name := range camelCase.FindAllString(text, -1) {
			if !known[name] {
				t.Errorf("section %s names %s, which is no alert", title, name)
			}
		}
	}
}

// TestTheChartLinksEveryAlertToItsRunbook reads the golden file, which another test holds equal to what helm renders.
func TestTheChartLinksEveryAlertToItsRunbook(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "everything.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var rendered []alert
	each(t, string(b), "PrometheusRule", func(rule *struct {
		metav1.TypeMeta
		metav1.ObjectMeta `json:"metadata"`
		Spec              ruleGroups
	}) {
		rendered = append(rendered, rule.Spec.alerts()...)
	})
	if len(rendered) != len(alerts(t)) {
		t.Errorf("the chart renders %d alerts, want %d", len(rendered), len(alerts(t)))
	}
	const base = "https://github.com/causalstore/causalstore/blob/main/docs/runbooks.md#"
	for _, a := range rendered {
		if url := a.Annotations["runbook_url"]; url != base+strings.ToLower(a.Alert) {
			t.Errorf("%s: runbook_url is %q", a.Alert, url)
		}
	}
}

// TestAnnotationsOfAlertsUseOnlyLabelsThatTheirExpressionHas: {{ $labels.x }} of a missing label renders as nothing.
func TestAnnotationsOfAlertsUseOnlyLabelsThatTheirExpressionHas(t *testing.T) {
	metrics := allMetrics(t)
	label := regexp.MustCompile(`\$labels\.(\w+)`)
	for _, a := range alerts(t) {
		text, err := json.Marshal(a.Annotations)
		if err != nil {
			t.Fatal(err)
		}
		refs := parse(a.Expr)
		labels := refs.labels
		if !strings.Contains(a.Expr, "by (") && !strings.Contains(a.Expr, "absent") { // those leave only what they name
			labels = append(labels, targetLabels...)
			for _, m := range refs.metrics {
				labels = append(labels, metrics[m]...)
			}
		}
		for _, m := range label.FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(labels, m[1]) {
				t.Errorf("%s: an annotation uses label %s, and the expression has %v", a.Alert, m[1], labels)
			}
		}
	}
}

// hardCodedSize matches a comparison with a number of bytes.
var hardCodedSize = regexp.MustCompile(`bytes\b[^/]*[<>]=?\s*[0-9]`)

// TestThresholdsInBytesAreSharesOfALimit: limits are configurable, so a fixed number of bytes is wrong for some store.
func TestThresholdsInBytesAreSharesOfALimit(t *testing.T) {
	for _, a := range alerts(t) {
		if hardCodedSize.MatchString(a.Expr) && !strings.Contains(a.Expr, "_limit_bytes") {
			t.Errorf("%s compares bytes with a number: %s; divide by the metric of the limit", a.Alert, a.Expr)
		}
	}
	if !hardCodedSize.MatchString("causalstore_coordinator_incomplete_bytes > 200e6") {
		t.Error("the pattern does not find a number of bytes")
	}
}
