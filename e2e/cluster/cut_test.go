//go:build linux

package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write golden files instead of comparing with them")

// compareGolden compares a text with a file of testdata.
func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got); -rewrite accepts it\n%s", file, d)
	}
}

// fourNodes is a cluster of two nodes in each of two zones.
func fourNodes(t *testing.T) *bed {
	t.Helper()
	b, err := newBed(t.TempDir(), []string{"zone-a", "zone-b"}, 2)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestNodesAreSpreadOverTheZones(t *testing.T) {
	var got []string
	for _, n := range fourNodes(t).Nodes {
		got = append(got, n.Name+" "+n.Zone)
	}
	if d := cmp.Diff([]string{"node-1 zone-a", "node-2 zone-b", "node-3 zone-a", "node-4 zone-b"}, got); d != "" {
		t.Error(d)
	}
	for _, bad := range []struct {
		zones   []string
		perZone int
		want    string
	}{
		{defaultZones, 0, "at least 1"}, {defaultZones, 100, "1 to 200 nodes"}, {nil, 1, "1 to 200 nodes"},
		{[]string{"all"}, 1, "cannot be called all"},
		{[]string{"node-7"}, 1, "cannot be called node-7"},
	} {
		if _, err := newBed("", bad.zones, bad.perZone); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%d nodes in each of %q: %v, want %q", bad.perZone, bad.zones, err, bad.want)
		}
	}
}

func TestOperandsOfACutNameMachines(t *testing.T) {
	b := fourNodes(t)
	for operands, want := range map[string]string{
		"node-1 node-2":        "node-1>node-2",
		"zone-a zone-b":        "node-1>node-2 node-1>node-4 node-3>node-2 node-3>node-4",
		"node-1 zone-a":        "node-1>node-3",
		"zone-a node-3":        "node-1>node-3",
		"zone-a nodes":         "node-1>node-2 node-1>node-4 node-3>node-2 node-3>node-4",
		"node-4 all":           "node-4>node-1 node-4>node-2 node-4>node-3 node-4>control-plane",
		"all node-4":           "node-1>node-4 node-2>node-4 node-3>node-4 control-plane>node-4",
		"control-plane zone-b": "control-plane>node-2 control-plane>node-4",
		"control-plane all":    "control-plane>node-1 control-plane>node-2 control-plane>node-3 control-plane>node-4",
	} {
		from, to, _ := strings.Cut(operands, " ")
		links, err := b.links(from, to)
		if err != nil {
			t.Errorf("%s: %v", operands, err)
		}
		var got []string
		for _, l := range links {
			got = append(got, l.From+">"+l.To)
		}
		if d := cmp.Diff(want, strings.Join(got, " ")); d != "" {
			t.Errorf("%s (-want +got)\n%s", operands, d)
		}
	}
	for operands, want := range map[string]string{
		"node-1 node-1": "same machines",
		"node-5 all":    `no node or zone "node-5"; give node-1 to node-4, a zone (zone-a, zone-b)`,
		"zone-a zone-x": `no node or zone "zone-x"`, "nodes nodes": "same machines",
	} {
		from, to, _ := strings.Cut(operands, " ")
		if _, err := b.links(from, to); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", operands, err, want)
		}
	}
}

func TestCutsBecomeRulesOfTheSwitch(t *testing.T) {
	b := fourNodes(t)
	compareGolden(t, "cuts-none.nft", b.renderCuts(cuts{}))
	c := cuts{{"node-1", "node-2"}: drop, {"node-2", "node-1"}: drop, {"node-3", "control-plane"}: reject,
		{"control-plane", "node-3"}: reject,
		{"node-4", "node-1"}:        reject}
	compareGolden(t, "cuts-some.nft", b.renderCuts(c))
	want := "node-1 <-> node-2 drop\nnode-3 <-> control-plane reject\nnode-4 -> node-1 reject\n"
	if d := cmp.Diff(want, b.describeCuts(c)); d != "" {
		t.Error(d)
	}
	if got := b.describeCuts(cuts{}); got != "nothing is cut\n" {
		t.Errorf("without cuts: %q", got)
	}
}

func TestCutsNeedARunningCluster(t *testing.T) {
	b := fourNodes(t)
	if err := b.cut(t.Context(), "node-1", "node-2", drop, false); err == nil ||
		!strings.Contains(err.Error(), "cluster up") {
		t.Errorf("cut: %v", err)
	}
	if err := b.heal(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "cluster up") {
		t.Errorf("heal: %v", err)
	}
}
