//go:build linux

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causalstore/causalstore/e2e/cluster/wan"
)

func threeClusters(t *testing.T) *joined {
	t.Helper()
	return &joined{bed: &bed{dir: t.TempDir()}, Clusters: 3}
}

func TestPacketsBetweenClustersGoThroughTheRoutersQueues(t *testing.T) {
	w := threeClusters(t)
	var rules strings.Builder
	for _, args := range w.routerRules() {
		fmt.Fprintln(&rules, "iptables", strings.Join(args, " "))
	}
	compareGolden(t, "router.iptables", rules.String())
	b := fourNodes(t)
	b.join(1, 3)
	compareGolden(t, "masquerade.nft", b.renderMasquerade())
	if got, want := b.Nodes[2].ip()+" "+b.Nodes[2].podCIDR(), "10.92.0.13 10.93.3.0/24"; got != want {
		t.Errorf("node-3 has %s, want %s", got, want)
	}
}

func TestLinksAreNamedByTheirClusters(t *testing.T) {
	w := threeClusters(t)
	for operands, want := range map[string]string{
		"":                    "cluster-1>cluster-2 cluster-1>cluster-3 cluster-2>cluster-1 cluster-2>cluster-3 cluster-3>cluster-1 cluster-3>cluster-2",
		"cluster-3 cluster-1": "cluster-3>cluster-1 cluster-1>cluster-3",
	} {
		paths, err := w.choosePaths(strings.Fields(operands), false)
		if got := strings.Join(paths, " "); err != nil || got != want {
			t.Errorf("%q: %s (%v), want %s", operands, got, err, want)
		}
	}
	if paths, err := w.choosePaths([]string{"cluster-2", "cluster-3"}, true); err != nil || len(paths) != 1 || paths[0] != "cluster-2>cluster-3" {
		t.Errorf("one way: %q (%v)", paths, err)
	}
	for operands, want := range map[string]string{"cluster-1 cluster-4": `no cluster "cluster-4"; clusters are cluster-1 to cluster-3`, "cluster-2 cluster-2": "two different"} {
		if _, err := w.choosePaths(strings.Fields(operands), false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", operands, err, want)
		}
	}
	if _, err := w.choosePaths(nil, true); err == nil {
		t.Error("one way without clusters is accepted")
	}
	w.Clusters = 2
	got := w.describeLinks(map[string]linkState{"cluster-1>cluster-2": {Link: wan.Link{Delay: 40 * time.Millisecond, Cut: true}},
		"cluster-2>cluster-1": {Link: wan.Link{Rate: 1000, Queue: 65536}, Stats: wan.Stats{Packets: 3, Bytes: 300, Dropped: 1, Held: 2}}})
	want := "cluster-1 -> cluster-2 delay 40ms, cut; 0 packets (0 B) forwarded, 0 dropped, 0 in flight\n" +
		"cluster-2 -> cluster-1 delay 0s, 1000 B/s with a queue of 65536 B; 3 packets (300 B) forwarded, 1 dropped, 2 in flight\n"
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestADirectoryHoldsOneClusterOrSeveralJoinedOnes(t *testing.T) {
	single := newTestBed(t)
	if err := upJoined(t.Context(), single.dir, 2, defaultZones[:2], 1, false); err == nil || !strings.Contains(err.Error(), "holds a single cluster") {
		t.Errorf("joined clusters beside a single one: %v", err)
	}
	w := threeClusters(t)
	if err := os.WriteFile(w.file("wan.json"), []byte("3"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := openBed(w.dir); err == nil || !strings.Contains(err.Error(), "holds 3 clusters; choose one, as in --dir "+w.file("cluster-1")) {
		t.Errorf("a single cluster: %v", err)
	}
	if err := upJoined(t.Context(), w.dir, 2, defaultZones[:2], 1, false); err == nil || !strings.Contains(err.Error(), "holds 3 clusters, not 2") {
		t.Errorf("another number: %v", err)
	}
	if err := upJoined(t.Context(), t.TempDir(), 4, defaultZones[:2], 1, false); err == nil || !strings.Contains(err.Error(), "give 1 to 3") {
		t.Errorf("too many: %v", err)
	}
	if _, err := openWAN(t.TempDir()); err == nil || !strings.Contains(err.Error(), "--clusters 2") {
		t.Errorf("an empty directory: %v", err)
	}
}

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
	west.kubectl(fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {namespace: apps, name: app}, spec: {type: NodePort, selector: {app: app}, ports: [{port: %d}]}}`, portOpen),
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
	if got := all.cluster("wan", "status"); !strings.Contains(got, "cluster-1 -> cluster-2 delay 40ms; ") || !strings.Contains(got, "cluster-2 -> cluster-1 delay 40ms, cut; ") {
		t.Errorf("status of the links:\n%s", got)
	}
	all.cluster("wan", "heal")
	all.cluster("wan", "delay", "5ms")
	all.cluster("wan", "congest", "1M", "cluster-1", "cluster-2")
	all.cluster("up", "--clusters", fmt.Sprint(joinedInTest)) // restarts the router, whose links stay as they are
	if got := all.cluster("wan", "status"); !strings.Contains(got, "cluster-1 -> cluster-2 delay 5ms, 1000000 B/s with a queue of 256000 B; ") {
		t.Errorf("links of the restarted router:\n%s", got)
	}
	east.awaitDial("connected", "apps/app", west.Nodes[0].ip()+":"+port)
	all.cluster("down")
	if _, err := os.Stat(all.dir); !os.IsNotExist(err) {
		t.Errorf("the directory after down: %v", err)
	}
}
