//go:build e2e

package drills_test

import (
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/causalstore/causalstore/controllers/drill/record"
	"github.com/causalstore/causalstore/e2e/kube"
)

// alwaysHeld are the promises that no load of the machine excuses. The others have times or shares, which a busy
// machine misses: they are shown.
var alwaysHeld = []string{"Clients see causal consistency", "No acknowledged write is lost", "Everything heals"}

func TestDrillsOfTheCommandInjectHealAndReport(t *testing.T) {
	u := user{kube.User{T: t, Namespace: namespace}}
	u.install()
	program := kube.BuildProgram(t)
	for _, name := range []string{"az-b-cut", "az-f-cut", "partition-pair", "coordinator"} {
		if !t.Run(name, func(t *testing.T) { user{kube.User{T: t, Namespace: namespace}}.drill(program, name) }) {
			return // the state is kept for analysis, if the cluster stays
		}
	}
}

// TestDrillsWatchWithCanariesThatHaveASidecar: in a zone that is stopped, the canary in it stops as an app would, and
// comes back.
func TestDrillsWatchWithCanariesThatHaveASidecar(t *testing.T) {
	const dc = "south"
	u := user{kube.User{T: t, Namespace: namespace}}
	u.install()
	u.Kubectl("label", "namespace", u.Namespace, "--overwrite", "causalstore.io/inject="+storeName)
	// other tests have pods without
	u.Cleanup(func() { u.Kubectl("label", "namespace", u.Namespace, "causalstore.io/inject-") })
	u.Await("new pods to get a sidecar", func() string {
		const pod = "{apiVersion: v1, kind: Pod, metadata: {name: dry}, spec: {containers: [{name: main, " +
			"image: none}]}}"
		out, err := u.Try(pod, "create", "--dry-run=server", "-f", "-", "-o",
			`jsonpath={.metadata.annotations.causalstore\.io/injected}`)
		if err != nil || out != storeName+"/north" {
			return out
		}
		return ""
	})
	program := kube.BuildProgram(t)
	for _, d := range []struct {
		name  string
		stops bool
	}{{"cache-server", false}, {"az-f", true}} {
		t.Run(d.name, func(t *testing.T) {
			u := user{kube.User{T: t, Namespace: namespace}}
			r := u.drill(program, d.name, "--data-center="+dc, "--sidecar-canaries=required")
			for _, of := range []string{"north", dc} {
				m := r.Find(record.Baseline, of, record.Sidecar)
				if m == nil || m.Operations == 0 || m.Operations == m.Failed || m.Complete == 0 {
					t.Errorf("the canary of %s with a sidecar, before the faults: %+v", of, m)
				}
				if m := r.Find(record.Injection, of, record.Sidecar); m == nil || m.Stopped != (d.stops && of == dc) ||
					!m.Stopped && m.Operations == m.Failed {
					t.Errorf("the canary of %s with a sidecar, during the faults: %+v", of, m)
				}
			}
		})
	}
}

// drillCommand runs a subcommand of `kubectl causal drill` for a store.
func (u user) drillCommand(program, store string, args ...string) (string, error) {
	return kube.Output(exec.CommandContext(u.Context(), program,
		append([]string{"kubectl", "drill", "--store", store, "--namespace", u.Namespace}, args...)...), "")
}

// lastRun returns the run that a drill has kept.
func (u user) lastRun(program, store string) *record.Run {
	u.Helper()
	text, err := u.drillCommand(program, store, "report", "--output=json")
	if err != nil {
		u.Fatalf("the report: %v\n%s", err, text)
	}
	r := &record.Run{}
	if err := json.Unmarshal([]byte(text), r); err != nil {
		u.Fatalf("the report is no JSON: %v\n%s", err, text)
	}
	return r
}

// resultsOf are the results of a run by the texts of its promises.
func resultsOf(r *record.Run) map[string]record.Result {
	results := map[string]record.Result{}
	for _, p := range r.Promises {
		results[p.Text] = p.Result
	}
	return results
}

// drill runs a drill with the command, and judges the report that it keeps.
func (u user) drill(program, name string, flags ...string) *record.Run {
	u.Helper()
	u.AwaitReady(storeName)
	out, failed := u.drillCommand(program, storeName,
		append([]string{"run", name, "--yes", "--injection=20s", "--heal-timeout=3m"}, flags...)...)
	u.Logf("$ kubectl causal drill run %s (%v)\n%s", name, failed, out)
	r := u.lastRun(program, storeName)
	if r.Drill != name || r.Outcome != record.Passed && r.Outcome != record.Failed || len(r.Experiments) == 0 {
		u.Fatalf("the last run is of drill %s, %s: %s, with experiments %q", r.Drill, r.Outcome, r.Reason,
			r.Experiments)
	}
	results := resultsOf(r)
	for _, promise := range alwaysHeld {
		if results[promise] != record.Held {
			u.Errorf("%q is %q, want %q", promise, results[promise], record.Held)
		}
	}
	// Nothing is left behind; canaries may be ending.
	u.AwaitOutput("", "get", "pods,networkchaos,podchaos", "-l", record.LabelRun+"="+r.ID, "-o", "name")
	return r
}
