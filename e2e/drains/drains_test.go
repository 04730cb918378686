//go:build e2e

package drains_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/e2e/kube"
)

const store = "pairs"

// loadRate is how many operations a second each load sends. Six nodes and their pods, on one machine, leave it little
// time; what is judged is that none fails.
const loadRate = 30

// drainLimit is how long a drain may take. It hangs if a budget lets no pod go.
const drainLimit = 3 * time.Minute

func TestNodesAreMaintainedWhileAStoreIsInUse(t *testing.T) {
	u := in(t)
	path := u.plugin()
	u.installOperator()
	logs := followOperator(t)
	u.Apply(u.manifest("pairs.yaml"))
	u.AwaitReady(store)
	u.awaitReplicated()
	for _, step := range []struct {
		name string
		do   func(user)
	}{
		{"node after node of north is drained", func(u user) { u.drainAll(0, "north", "south") }},
		{"node after node of south is drained", func(u user) { u.drainAll(3, "south", "north") }},
		{"the volume of a deleted claim is kept", func(u user) { u.keepVolume(path) }},
		{"the operator has logged no error", func(u user) { logs.assertNoErrors(u.T) }},
	} {
		t.Run(step.name, func(t *testing.T) { step.do(in(t)) })
	}
}

// drainAll drains the nodes of three zones, one after the other, while clients use the data center there, and others
// one that is elsewhere.
func (u user) drainAll(first int, dc, elsewhere string) {
	zones := u.Zones()
	away := zones[(first+3)%6]
	loads := map[string]string{"load-" + dc: dc, "load-" + elsewhere: elsewhere}
	for name, of := range loads {
		u.Apply(kube.LoadPod(name, "", away, loadRate, fmt.Sprintf("--sessions=24, --endpoint=%[1]s=%[2]s-%[1]s:6379",
			of, store)))
	}
	for name := range loads {
		u.Await(name+" to run", func() string { return u.LoadProblem(name) })
	}
	for _, zone := range zones[first : first+3] {
		u.drain(u.Kubectl("get", "nodes", "-l", "topology.kubernetes.io/zone="+zone, "-o",
			"jsonpath={.items[0].metadata.name}"))
	}
	for name := range loads {
		if why := u.LoadProblem(name); why != "" {
			u.Errorf("%s ended too early: %s", name, why)
		}
		u.StopLoad(name)
	}
	for name, of := range loads {
		if report := u.LoadReport(name); of == elsewhere &&
			!strings.Contains(report, " 0 failed, 0 of unknown outcome") {
			u.Errorf("operations of clients of %s failed or have an unknown outcome while nodes of %s were drained",
				elsewhere, dc)
		}
	}
	if !u.Failed() {
		u.Kubectl("delete", "pod", "--wait", "load-"+dc, "load-"+elsewhere)
	}
}

// drain drains a node, uncordons it, and waits until the store is whole again: docs/kubernetes.md, Maintenance of
// nodes.
func (u user) drain(node string) {
	u.Helper()
	on := strings.Fields(u.Kubectl("get", "pods", "--field-selector=spec.nodeName="+node, "-l",
		"app.kubernetes.io/instance="+store, "-o", "jsonpath={.items[*].metadata.name}"))
	began := time.Now()
	out, err := u.Try("", "drain", node, "--ignore-daemonsets", "--delete-emptydir-data",
		"--timeout="+drainLimit.String())
	drained := time.Since(began)
	if err != nil {
		u.Kubectl("uncordon", node)
		u.Fatalf("%s is not drained after %.0f s: %v\n%s\n%s", node, drained.Seconds(), err, out, u.Diagnostics())
	}
	u.Await("no pod of the store on "+node, func() string {
		return u.Kubectl("get", "pods", "--field-selector=status.phase=Running,spec.nodeName="+node, "-l",
			"app.kubernetes.io/instance="+store, "-o", "name")
	})
	u.Kubectl("uncordon", node)
	back := time.Now()
	u.AwaitReady(store)
	u.awaitReplicated()
	u.Logf("%s: drained of %d pods of the store in %.0f s; whole again %.0f s after it was uncordoned", node, len(on),
		drained.Seconds(), time.Since(back).Seconds())
}

// awaitReplicated waits until every group has all of its members.
func (u user) awaitReplicated() {
	u.Helper()
	u.AwaitOutput("False", "get", "causalstore", store, "-o",
		`jsonpath={.status.conditions[?(@.type=="UnderReplicated")].status}`)
}
