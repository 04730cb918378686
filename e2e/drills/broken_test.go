//go:build e2e

package drills_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/controllers/drill/record"
	"github.com/causalstore/causalstore/e2e/kube"
)

// brokenFault is the rule that the image kube.ImageBroken breaks: its coordinators send writes without what they depend
// on.
const brokenFault = "skip-deps"

// TestADrillCatchesAStoreInWhichOnePodBreaksARule: a coordinator forgets dependencies, which nobody notices while all
// links work. Cut off from one of two shards of the other ring, its later writes overtake the earlier ones there.
func TestADrillCatchesAStoreInWhichOnePodBreaksARule(t *testing.T) {
	const store, pod, dc = "faulty", "faulty-south-cc-0", "south"
	u := user{kube.User{T: t, Namespace: "drills-faulty"}}
	u.installOperator()
	u.Apply(u.manifest("faulty.yaml"))
	u.AwaitReady(store)
	program := kube.BuildProgram(t)
	run := func() *record.Run {
		out, err := u.drillCommand(program, store, "run", "partition-pair", "--data-center", dc, "--to", "east",
			"--yes", "--baseline=5s", "--injection=1m", "--after=1s", "--heal-timeout=3m")
		u.Logf("$ kubectl causal drill run partition-pair (%v)\n%s", err, out)
		return u.lastRun(program, store)
	}
	const promise = "Clients see causal consistency"
	if r := run(); resultsOf(r)[promise] != record.Held {
		t.Fatalf("without a broken rule, %q is %q: %q", promise, resultsOf(r)[promise], r.Violations)
	}
	u.Kubectl("set", "image", "pod/"+pod, "coordinator="+kube.ImageBroken)
	u.Await(pod+" to break rules", func() string {
		out, err := u.Try("", "logs", pod, "-c", "coordinator")
		if err != nil || !strings.Contains(out, "BREAKS RULES OF THE PROTOCOL: "+brokenFault) {
			return out
		}
		return ""
	})
	u.Kubectl("wait", "--for=condition=Ready", "pod/"+pod, "--timeout="+kube.Patience.String())
	u.AwaitReady(store)
	r := run()
	if resultsOf(r)[promise] != record.Broken || r.Outcome != record.Failed ||
		!slices.ContainsFunc(r.Violations, func(v string) bool {
			return strings.Contains(v, "was read in an older state")
		}) {
		t.Errorf("with a broken rule, %q is %q; the run has %s: %s; violations %q", promise, resultsOf(r)[promise],
			r.Outcome, r.Reason, r.Violations)
	}
	u.AwaitOutput("PromiseBroken", "get", "causalstore", store, "-o",
		`jsonpath={.status.conditions[?(@.type=="DrillPassed")].reason}`)
	if out := u.Kubectl("get", "events.events.k8s.io", "-o",
		`jsonpath={range .items[?(@.reason=="PromiseBroken")]}{.type} {.regarding.name}{"\n"}{end}`); !strings.Contains(
		out, "Warning "+store) {
		t.Errorf("no event warns of the broken promise: %q", out)
	}
	u.Kubectl("delete", "namespace", u.Namespace, "--wait=false")
}
