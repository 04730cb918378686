package kubectl

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/causalstore/causalstore/controllers/drill"
)

// decode reads JSON into a new value and fails on fields that the value does not have.
func decode[T any](t *testing.T, from []byte) (v T) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(from))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, from)
	}
	return v
}

func TestTopPrintsJSONWithTheNumbersOfTheTable(t *testing.T) {
	w := newFixture(t)
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	before, now := allReadings(t, w, began, 10), allReadings(t, w, began.Add(5*time.Second), 15)
	now[0].metrics, now[0].err = nil, errors.New("no route to host")
	var out bytes.Buffer
	if err := writeTop(&out, outputFlag{"json"}, w.store, before, now); err != nil {
		t.Fatal(err)
	}
	got := decode[storeLoad](t, out.Bytes())
	if got.Name != w.store.Name || got.Seconds != 5 || got.Answered != len(now)-1 || len(got.NoAnswer) != 1 ||
		got.NoAnswer[0].Error != "no route to host" {
		t.Errorf("%+v", got)
	}
	sum := newSummary()
	sum.addRegion("", before, now)
	for _, dc := range got.DataCenters {
		if l := sum.loads[dc.Name]; l == nil || l.writes != dc.Writes || l.reads["local"] != dc.Reads["local"] ||
			*inSeconds(l.stability) != *dc.StabilityLagSeconds {
			t.Errorf("%+v, want %+v", dc, l)
		}
	}
	if len(got.DataCenters) != len(sum.loads) {
		t.Errorf("%d data centers, want %d", len(got.DataCenters), len(sum.loads))
	}
}

func TestStatusAndDoctorPrintJSONWithPodsOnNodesThatDoNotAnswer(t *testing.T) {
	e := healthy(t)
	victim := e.parts[0]
	e.nodes[victim.Spec.NodeName].Status.Conditions[0] = corev1.NodeCondition{Type: corev1.NodeReady,
		Status: corev1.ConditionUnknown, Message: "it is silent"}
	var out bytes.Buffer
	if err := writeJSON(&out, []storeStatus{newStoreStatus(e.store, storePods{e.parts, e.downs, e.nodes},
		testTime)}); err != nil {
		t.Fatal(err)
	}
	s := decode[[]storeStatus](t, out.Bytes())[0]
	found := ""
	for _, p := range s.UnreadyPods {
		if p.Pod == victim.Name {
			found = p.Reason
		}
	}
	if s.Ready != string(metav1.ConditionTrue) || !strings.Contains(found, "it is silent") {
		t.Errorf("ready %s, pod on a dead node: %q", s.Ready, found)
	}
	out.Reset()
	if err := writeStatus(&out, e.store, storePods{e.parts, e.downs, e.nodes}, testTime); err != nil ||
		!strings.Contains(out.String(), "it is silent") {
		t.Errorf("status as text (%v):\n%s", err, out.String())
	}
	findings := e.findings()
	out.Reset()
	if err := writeJSON(&out, newDoctorReport(e.store, findings)); err != nil {
		t.Fatal(err)
	}
	r := decode[doctorReport](t, out.Bytes())
	if r.Problems == 0 || r.Problems != count(findings, levelProblem) || len(r.Findings) != len(findings) {
		t.Errorf("%+v", r)
	}
}

func TestOutputIsTextOrJSON(t *testing.T) {
	for format, ok := range map[string]bool{"text": true, "json": true, "yaml": false, "": false} {
		if err := (&outputFlag{format}).check(); (err == nil) != ok {
			t.Errorf("%q: %v", format, err)
		}
	}
}

func TestTheListOfDrillsFitsIntoATerminal(t *testing.T) {
	var all []drillEntry
	for _, d := range drill.Catalogue() {
		all = append(all, drillEntry{d.Name, d.Does, d.Tests, "force",
			"store orders is not ready: " + strings.Repeat("a long reason ", 20), "Passed, 2026-01-02 03:04"})
	}
	var out strings.Builder
	if err := writeDrills(&out, all); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if len(line) > listWidth+1 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
	for _, d := range all {
		flat := strings.Join(strings.Fields(out.String()), " ")
		if !strings.Contains(flat, d.Name+" with --force "+d.LastRun+" "+d.Does+" tests that "+d.Tests+" "+
			strings.TrimSpace(d.Reason)) {
			t.Errorf("what is known of %s is not complete in\n%s", d.Name, out.String())
		}
	}
}
