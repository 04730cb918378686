package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/lab/planner"
	"github.com/causalstore/causalstore/topology"
)

func TestPlanWritesResultsAndATopologyForLocal(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "rings.yaml")
	if _, err := planningOutput(t, "plan testdata/planning/inputs/priced.yaml --topology-out "+file+" --json "+
		filepath.Join(dir,
			"plan.json")); err != nil {
		t.Fatal(err)
	}
	var plan planner.Plan
	b, err := os.ReadFile(filepath.Join(dir, "plan.json"))
	if err == nil {
		err = json.Unmarshal(b, &plan)
	}
	if err != nil || !plan.Exact {
		t.Fatalf("the plan is %+v, %v", plan, err)
	}
	topo, err := topology.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	d, err := local.Start(t.Context(), local.Options{Topology: topo, Engine: "embedded",
		DataDir: filepath.Join(dir, "data"),
		Host:    "127.0.0.1", Cache: true})
	if err != nil {
		t.Fatal(err)
	}
	ringOf := map[string]string{}
	for _, e := range d.Endpoints() {
		ringOf[e.Name] = e.Ring
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	want := map[string]string{}
	for _, r := range plan.Proposed.Rings {
		for _, dc := range r.DataCenters {
			want[dc] = r.Name
		}
	}
	if d := cmp.Diff(want, ringOf); d != "" {
		t.Error(d)
	}
}

func TestCopiesFlagOverridesTheInput(t *testing.T) {
	dir := t.TempDir()
	for flag, least := range map[string]int{"2": 2, "4": 4, "2-2": 2} {
		file := filepath.Join(dir, "plan.json")
		if _, err := planningOutput(t, "plan ../../docs/planning-input.yaml --copies "+flag+" --json "+
			file); err != nil {
			t.Fatal(err)
		}
		var plan planner.Plan
		b, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(b, &plan)
		}
		if err != nil || plan.Proposed.Figures.Rings != least {
			t.Errorf("--copies %s gives %d rings, %v", flag, plan.Proposed.Figures.Rings, err)
		}
	}
}
