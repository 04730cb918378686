package command

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/causalstore/causalstore/lab/cost"
	"github.com/causalstore/causalstore/sidecar/command"
)

// planningOutput runs causalstore with arguments as they would be typed, without quotes.
func planningOutput(t *testing.T, line string) (string, error) {
	t.Helper()
	root := command.NewRoot(NewCommands()...)
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(strings.Fields(line))
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func TestCostAndPlanPrintTheExpectedOutput(t *testing.T) {
	for _, file := range []string{"cost", "plan", "mistakes"} {
		t.Run(file, func(t *testing.T) {
			datadriven.RunTest(t, filepath.Join("testdata", "planning", file),
				func(t *testing.T, d *datadriven.TestData) string {
					out, err := planningOutput(t, d.Cmd+" "+d.Input)
					if err != nil {
						out += "error: " + err.Error() + "\n"
					}
					return out
				})
		})
	}
}

// TestDocumentationShowsTheOutputOfCostAndPlan runs the commands that docs/planning.md shows in blocks that begin with
// "$ causalstore cost" or "$ causalstore plan".
func TestDocumentationShowsTheOutputOfCostAndPlan(t *testing.T) {
	b, err := os.ReadFile("../../docs/planning.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("../..")
	shown := 0
	for i, block := range strings.Split(string(b), "```\n") {
		line, want, isCommand := strings.Cut(block, "\n")
		args, isOurs := strings.CutPrefix(line, "$ causalstore ")
		if i%2 == 0 || !isCommand || !isOurs {
			continue
		}
		shown++
		out, err := planningOutput(t, args)
		if err != nil {
			t.Errorf("%s: %v", line, err)
		} else if out != want {
			t.Errorf("%s prints\n%s\nand the documentation shows\n%s", line, out, want)
		}
	}
	if shown < 3 {
		t.Errorf("%d commands found in the documentation, want at least 3", shown)
	}
}

func TestCostWritesFiguresPlotsAndInputs(t *testing.T) {
	dir := t.TempDir()
	if _, err := planningOutput(t, "cost --json "+filepath.Join(dir, "cost.json")+" --svg "+
		filepath.Join(dir, "plots")); err != nil {
		t.Fatal(err)
	}
	var report cost.Report
	b, err := os.ReadFile(filepath.Join(dir, "cost.json"))
	if err == nil {
		err = json.Unmarshal(b, &report)
	}
	if err != nil || len(report.Capex) != 6 || len(report.Opex) != 6 || report.Opex[0].SavedBytes <= 0 {
		t.Errorf("the figures are %+v, %v", report, err)
	}
	if _, err := planningOutput(t, "cost --paper --json "+filepath.Join(dir, "paper.json")+" --svg "+
		filepath.Join(dir, "plots")+" --inputs "+filepath.Join(dir, "inputs")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"capex.svg", "opex.svg", "figure13a.svg", "figure13b.svg"} {
		if b, err := os.ReadFile(filepath.Join(dir, "plots", name)); err != nil || !bytes.HasPrefix(b, []byte("<svg")) {
			t.Errorf("plot %s: %d bytes, %v", name, len(b), err)
		}
	}
	for _, name := range []string{"twitter-first-reads.yaml", "twitter-users.yaml", "twitter-alike.yaml"} {
		if out, err := planningOutput(t, "plan "+filepath.Join(dir, "inputs", name)); err != nil ||
			!strings.Contains(out, "workload-aware (proposed)  3") {
			t.Errorf("plan with %s: %v\n%s", name, err, out)
		}
	}
}

func TestCostTakesInputsFromFlagsAsFromAFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "input.yaml")
	text := `{dataCenters: [{name: dc-1}, {name: dc-2}, {name: dc-3}], rings: [{name: ring-1, dataCenters: [dc-1, dc-3]}, {name: ring-2, dataCenters: [dc-2]}],
		missRatio: 0.2, boundReads: 0.1, putBytes: 300, getBytes: 250, missOperations: 1, cacheShare: 0.5, putFractions: [0.1, 0.9], alphas: [0.4]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	fromFile, err := planningOutput(t, "cost "+file)
	if err != nil {
		t.Fatal(err)
	}
	fromFlags, err := planningOutput(t,
		"cost --data-centers 3 --rings 2 --miss-ratio 0.2 --bound-reads 0.1 --put-bytes 300 --get-bytes 250 "+
			"--miss-operations 1 --cache-share 0.5 --put-fractions 0.1,0.9 --alphas 0.4")
	if err != nil {
		t.Fatal(err)
	}
	if fromFile != fromFlags {
		t.Errorf("from the file\n%s\nfrom flags\n%s", fromFile, fromFlags)
	}
}
