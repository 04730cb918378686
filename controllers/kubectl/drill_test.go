package kubectl

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/causalstore/causalstore/controllers/drill/record"
)

// testDrills runs in a cluster without Chaos Mesh.
func (h *testCluster) testDrills(t *testing.T) {
	out, err := h.run("drill", "list", "--store", "orders")
	if err != nil || !strings.Contains(out, "az-b-cut") ||
		!strings.Contains(out, "the cluster has no NetworkChaos: install Chaos Mesh") {
		t.Errorf("%v\n%s", err, out)
	}
	h.expectError("the cluster has no NetworkChaos", "drill", "--store", "orders", "run", "az-b-cut", "--yes")
	h.expectError("there is no drill", "drill", "--store", "orders", "run", "az-x")
	h.expectError("may run within Sun 03:00-03:01 (UTC) only", "drill", "--store", "orders", "run", "az-b-cut",
		"--window", "Sun 03:00-03:01")
	h.expectOutput("- orders-oregon-shard-0-0", "drill", "--store", "orders", "show", "az-b-cut",
		"--data-center", "oregon")
	h.expectError("has no pods in this cluster; it has", "drill", "--store", "orders", "show", "az-b-cut",
		"--data-center", "paris")
	h.expectOutput("kind: CronJob", "drill", "--store", "orders", "schedule", "az-b", "--cron", "0 10 * * 2")
	h.expectError("--cron: give when to run it", "drill", "--store", "orders", "schedule", "az-b")
	h.expectError("no drill of orders has run", "drill", "--store", "orders", "report")
	h.expectError("no drill of orders is under way", "drill", "--store", "orders", "abort")
	h.expectOutput("runs of orders that have ended have left nothing behind", "drill", "--store", "orders", "cleanup")
	h.expectError("use auto, required or off", "drill", "--store", "orders", "run", "az-b-cut",
		"--sidecar-canaries=maybe")
	h.expectOutput("az-b-cut", "__complete", "drill", "run", "")

	for i, id := range []string{"20260101-000000-aaaa", "20260102-000000-bbbb", "20260103-000000-cccc"} {
		r := &record.Run{Format: record.FormatVersion, ID: id, Drill: "az-b-cut", Store: "orders", Namespace: "shop",
			Started: time.Date(2026, 1, i+1, 0, 0, 0, 0, time.UTC),
			Outcome: []record.Outcome{record.Passed, record.Failed, record.Running}[i], Reason: "the reason of " + id,
			Promises: []record.Promise{{Text: "Everything heals", Result: record.Held}}}
		m, err := r.ConfigMap()
		if err != nil {
			t.Fatal(err)
		}
		h.create(m)
	}
	h.expectOutput("FAILED: the reason of 20260102-000000-bbbb", "drill", "--store", "orders", "report")
	h.expectOutput("PASSED: the reason of 20260101-000000-aaaa", "drill", "--store", "orders", "report",
		"20260101-000000-aaaa")
	h.expectOutput("<!DOCTYPE html>", "drill", "--store", "orders", "report", "-o", "html")
	h.expectOutput("# Drill az-b-cut of shop/orders", "drill", "--store", "orders", "report", "-o", "markdown")
	h.expectOutput(`"id": "20260102-000000-bbbb"`, "drill", "--store", "orders", "report", "-o", "json")
	h.expectError("use text, markdown, json or html", "drill", "--store", "orders", "report", "-o", "pdf")
	h.expectError("has no run x; it keeps the last 20", "drill", "--store", "orders", "report", "x")
	h.expectOutput("20260101-000000-aaaa  20260102-000000-bbbb", "drill", "--store", "orders", "compare",
		"20260102-000000-bbbb")
	h.expectError("no run of drill az-b-cut before", "drill", "--store", "orders", "compare", "20260101-000000-aaaa")
	lock := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: record.LockName("orders"), Namespace: "shop",
		Labels:      record.Labels("orders", "az-b-cut", "20260103-000000-cccc"),
		Annotations: map[string]string{record.AnnotationExpires: "2999-01-01T00:00:00Z"}}}
	h.create(lock)
	h.expectOutput(
		"run 20260103-000000-cccc of drill az-b-cut: its experiments are deleted; the command that runs it heals and "+
			"reports; if that was killed, abort it again after 2999-01-01T00:00:00Z",
		"drill", "--store", "orders", "abort")
	h.expectOutput("Running, 2026-01-03 00:00", "drill", "--store", "orders", "list")
	h.expectError("--cron \"bogus\": it has 1 fields; give five", "drill", "--store", "orders", "schedule", "az-b",
		"--cron", "bogus")
	if err := h.k.Delete(t.Context(), lock); err != nil { // as if it had expired
		t.Fatal(err)
	}
	h.expectOutput("the command that ran it has died; it is kept as aborted", "drill", "--store", "orders", "abort")
	h.expectOutput("Aborted, 2026-01-03 00:00", "drill", "--store", "orders", "list")
	h.expectError("no drill of orders is under way", "drill", "--store", "orders", "abort")
}

func TestOnlyTheNameOfTheStoreConfirmsADrill(t *testing.T) {
	for answer, want := range map[string]bool{"orders\n": true, " orders ": true, "yes\n": false, "": false} {
		if err := confirm(strings.NewReader(answer), &strings.Builder{}, "orders"); (err == nil) != want {
			t.Errorf("%q: %v", answer, err)
		}
	}
}
