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
		"": "cluster-1>cluster-2 cluster-1>cluster-3 cluster-2>cluster-1 cluster-2>cluster-3 " +
			"cluster-3>cluster-1 cluster-3>cluster-2",
		"cluster-3 cluster-1": "cluster-3>cluster-1 cluster-1>cluster-3",
	} {
		paths, err := w.choosePaths(strings.Fields(operands), false)
		if got := strings.Join(paths, " "); err != nil || got != want {
			t.Errorf("%q: %s (%v), want %s", operands, got, err, want)
		}
	}
	if paths, err := w.choosePaths([]string{"cluster-2", "cluster-3"}, true); err != nil || len(paths) != 1 ||
		paths[0] != "cluster-2>cluster-3" {
		t.Errorf("one way: %q (%v)", paths, err)
	}
	for operands, want := range map[string]string{
		"cluster-1 cluster-4": `no cluster "cluster-4"; clusters are cluster-1 to cluster-3`,
		"cluster-2 cluster-2": "two different",
	} {
		if _, err := w.choosePaths(strings.Fields(operands), false); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", operands, err, want)
		}
	}
	if _, err := w.choosePaths(nil, true); err == nil {
		t.Error("one way without clusters is accepted")
	}
	w.Clusters = 2
	got := w.describeLinks(
		map[string]linkState{"cluster-1>cluster-2": {Link: wan.Link{Delay: 40 * time.Millisecond, Cut: true}},
			"cluster-2>cluster-1": {Link: wan.Link{Rate: 1000, Queue: 65536},
				Stats: wan.Stats{Packets: 3, Bytes: 300, Dropped: 1, Held: 2}}})
	want := "cluster-1 -> cluster-2 delay 40ms, cut; 0 packets (0 B) forwarded, 0 dropped, 0 in flight\n" +
		"cluster-2 -> cluster-1 delay 0s, 1000 B/s with a queue of 65536 B; 3 packets (300 B) forwarded, " +
		"1 dropped, 2 in flight\n"
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestADirectoryHoldsOneClusterOrSeveralJoinedOnes(t *testing.T) {
	single := newTestBed(t)
	if err := upJoined(t.Context(), single.dir, 2, defaultZones[:2], 1, false); err == nil ||
		!strings.Contains(err.Error(), "holds a single cluster") {
		t.Errorf("joined clusters beside a single one: %v", err)
	}
	w := threeClusters(t)
	if err := os.WriteFile(w.file("wan.json"), []byte("3"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := openBed(w.dir); err == nil || !strings.Contains(err.Error(),
		"holds 3 clusters; choose one, as in --dir "+w.file("cluster-1")) {
		t.Errorf("a single cluster: %v", err)
	}
	if err := upJoined(t.Context(), w.dir, 2, defaultZones[:2], 1, false); err == nil ||
		!strings.Contains(err.Error(), "holds 3 clusters, not 2") {
		t.Errorf("another number: %v", err)
	}
	if err := upJoined(t.Context(), t.TempDir(), 4, defaultZones[:2], 1, false); err == nil ||
		!strings.Contains(err.Error(), "give 1 to 3") {
		t.Errorf("too many: %v", err)
	}
	if _, err := openWAN(t.TempDir()); err == nil || !strings.Contains(err.Error(), "--clusters 2") {
		t.Errorf("an empty directory: %v", err)
	}
}
