//go:build linux && e2e

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// joinedInTest is how many clusters the test joins; each takes about 15 s.
const joinedInTest = 2

func TestJoinedClustersReachEachOthersNodesOverTheWAN(t *testing.T) {
	requireMachine(t)
	all := startBeds(t, "--clusters", fmt.Sprint(joinedInTest))
	var clusters []*running
	for n := range network(joinedInTest) {
		r := *all
		var err error
		if r.bed, err = openBed(all.file(clusterName(n))); err != nil {
			t.Fatal(err)
		}
		r.loadProbe()
		r.kubectl("", "create", "namespace", "apps")
		r.startPod("apps", "app", "node-1", "app: app")
		clusters = append(clusters, &r)
	}
	east, west := clusters[0], clusters[1]
	west.kubectl(
		fmt.Sprintf(
			`{apiVersion: v1, kind: Service, metadata: {namespace: apps, name: app}, spec: {type: NodePort, selector: {app: app}, ports: [{port: %d}]}}`, portOpen),
		"apply", "-f", "-")
	port := west.kubectl("", "get", "service", "--namespace", "apps", "app", "-o", "jsonpath={.spec.ports[0].nodePort}")
	for _, n := range west.Nodes { // node-2 forwards to the pod on node-1
		east.awaitDial("connected", "apps/app", n.ip()+":"+port)
		east.awaitDial("connected", "node-2", n.ip()+":"+port)
	}
	pod := west.address("apps", "app", portOpen)
	west.awaitDial("connected", "node-2", pod)
	for _, from := range []string{"apps/app", "node-1"} {
		if got, err := east.dial(from, pod); err != nil || got == "connected" {
			t.Errorf("%s reaches a pod of the other cluster: %s (%v)", from, got, err)
		}
	}
	all.cluster("wan", "cut", "cluster-2", "cluster-1", "--one-way")
	east.awaitDial("no answer", "apps/app", west.Nodes[0].ip()+":"+port)
	if got := all.cluster("wan", "status"); !strings.Contains(got, "cluster-1 -> cluster-2 delay 40ms; ") ||
		!strings.Contains(got, "cluster-2 -> cluster-1 delay 40ms, cut; ") {
		t.Errorf("status of the links:\n%s", got)
	}
	all.cluster("wan", "heal")
	all.cluster("wan", "delay", "5ms")
	all.cluster("wan", "congest", "1M", "cluster-1", "cluster-2")
	all.cluster("up", "--clusters", fmt.Sprint(joinedInTest)) // restarts the router, whose links stay as they are
	if got := all.cluster("wan", "status"); !strings.Contains(got,
		"cluster-1 -> cluster-2 delay 5ms, 1000000 B/s with a queue of 256000 B; ") {
		t.Errorf("links of the restarted router:\n%s", got)
	}
	east.awaitDial("connected", "apps/app", west.Nodes[0].ip()+":"+port)
	all.cluster("down")
	if _, err := os.Stat(all.dir); !os.IsNotExist(err) {
		t.Errorf("the directory after down: %v", err)
	}
}
