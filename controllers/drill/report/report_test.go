package report

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causalstore/causalstore/controllers/drill/record"
)

var rewrite = flag.Bool("rewrite", false, "write the output to the golden files")

// aRun is a run with everything that a report can show.
func aRun() *record.Run {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	second := func(n int) time.Time { return at.Add(time.Duration(n) * time.Second) }
	r := &record.Run{Format: record.FormatVersion, ID: "20260102-030405-abcd", Drill: "az-b-cut",
		Title: "The back zone of a data center is cut off", Paper: "available (dynamic binding)",
		Store: "orders", Namespace: "shop", Generation: 3, Hit: "AZ-B of virginia",
		Canaries: []string{"virginia", "paris", "virginia (sidecar)"}, NoSidecars: "paris: the image cannot be pulled",
		HitDataCenters: []string{"virginia"}, Pods: []string{"shop/orders-virginia-shard-0-0"},
		Experiments: []string{"NetworkChaos/orders-drill-0-cut"}, User: "system:serviceaccount:shop:orders-drill",
		Cluster: "https://192.0.2.1:6443",
		Settings: "15s before the faults, 1m0s of faults, 15s after; at most 25% of the operations elsewhere may " +
			"fail within 10s", Version: "v1", Started: at, Ended: second(40), Outcome: record.Failed,
		Reason: "1 of 3 promises broken",
		Phases: []record.Phase{{Name: record.Baseline, From: at, To: second(10)},
			{Name: record.Injection, From: second(10), To: second(30)}},
		Promises: []record.Promise{{Text: "Clients see causal consistency", Expected: "no violation",
			Observed: "0 violations in 900 operations of 9 sessions", Result: record.Held},
			{Text: "Clients in the data centers that are hit fail over",
				Expected: "at most 5% of their operations fail", Observed: "30 of 300 failed (10.0%)",
				Result: record.Broken},
			{Text: "No acknowledged write is lost", Expected: "all data centers agree", Observed: "no final reads",
				Result: record.NotMeasured}},
		Measures: []record.Measure{{Phase: record.Injection, DataCenter: "virginia", Hit: true, Operations: 300,
			Failed: 30, Unknown: 2, P50: 4.2, P99: 1999.5, LongestGap: 2100, Complete: 3, Completions: 20,
			LongestIncomplete: 15000, LongestBound: 12000},
			{Phase: record.Baseline, DataCenter: "paris", Operations: 150, P50: 1.1, P99: 9, LongestGap: 400,
				Complete: 10, Completions: 10, LongestIncomplete: 1100},
			{Phase: record.Injection, DataCenter: "virginia", Through: record.Sidecar, Hit: true, Stopped: true,
				Operations: 9, Failed: 9}},
		Checked: "900 operations: causal+", Violations: []string{"stale-read: a | b <c>"},
		Notes: []string{"errors in virginia: timeout 30"},
		Leftovers: []record.Leftover{{Object: "Pod/orders-virginia-shard-0-0", What: "restarted",
			Remedy: "kubectl delete pod"}, {Object: "NetworkChaos/x", What: "not gone", Removed: true}},
		Events: []record.Event{{At: second(10), Text: "injection"}}}
	for _, of := range []record.Series{{DataCenter: "paris"}, {DataCenter: "virginia", Hit: true},
		{DataCenter: "virginia", Through: record.Sidecar, Hit: true}} {
		s := of
		for i := range 40 {
			ok, failed, p99 := 15, 0, 8.0
			if s.Hit && i >= 10 && i < 30 {
				ok, failed, p99 = 9, 6, 1500
			}
			s.OK, s.Failed, s.P99 = append(s.OK, ok), append(s.Failed, failed), append(s.P99, p99)
		}
		r.Series = append(r.Series, s)
	}
	return r
}

func TestReportsAreGolden(t *testing.T) {
	for file, write := range map[string]func(io.Writer, *record.Run) error{"run.txt": Text, "run.md": Markdown,
		"run.html": HTML,
		"compare.txt": func(w io.Writer, r *record.Run) error {
			earlier := aRun()
			earlier.ID, earlier.Started, earlier.Outcome = "20260101-000000-wxyz", earlier.Started.Add(-time.Hour),
				record.Passed
			earlier.Promises[1].Result, earlier.Measures = record.Held, earlier.Measures[:1]
			return Compare(w, r, earlier)
		}} {
		var b bytes.Buffer
		if err := write(&b, aRun()); err != nil {
			t.Fatal(err)
		}
		file = filepath.Join("testdata", file)
		if *rewrite {
			if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), b.String()); d != "" {
			t.Errorf("%s differs (-want +got); if that is intended, run with -rewrite:\n%s", file, d)
		}
	}
}

func TestAComparisonOfDifferentDrillsSaysSo(t *testing.T) {
	for drill, want := range map[string]bool{"az-b-cut": false, "az-f": true} {
		other := aRun()
		other.Drill = drill
		var b bytes.Buffer
		if err := Compare(&b, aRun(), other); err != nil {
			t.Fatal(err)
		}
		if says := strings.Contains(b.String(), "different drills"); says != want {
			t.Errorf("compared with %s: %v, want %v", drill, says, want)
		}
	}
}

func TestAPageNeedsNothingFromElsewhereAndEscapesWhatItShows(t *testing.T) {
	r := aRun()
	r.Notes, r.Series[0].DataCenter = []string{`<script>alert(1)</script>`}, `<b>`
	var b bytes.Buffer
	if err := HTML(&b, r); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<script", "src=", "href=", "@import", "url(", "<b>"} {
		if strings.Contains(b.String(), bad) {
			t.Errorf("the page has %q", bad)
		}
	}
}
