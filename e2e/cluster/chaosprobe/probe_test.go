package chaosprobe

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// tools creates a directory of programs that a script might call, each with a body for the shell.
func tools(t *testing.T, bodies map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, body := range bodies {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestTheScriptSaysWhatItsToolsCanDoAndWhyNot(t *testing.T) {
	dir := tools(t, map[string]string{
		"unshare": `shift; exec "$@"`, // without rights, in the same network: the tools below change nothing
		"ip":      "", "ipset": "", "stress-ng": "", "chaos-daemon": "# fakeclock/fake_clock_gettime.c",
		"iptables": `case "$*" in *multiport*) echo "iptables: No chain/target/match by that name." >&2; exit 1;; esac`,
		"tc":       `case "$*" in *tbf*) ;; *) echo "Error: Specified qdisc kind is unknown." >&2; exit 2;; esac`,
	})
	cmd := exec.Command("sh")
	cmd.Stdin = strings.NewReader(Script)
	cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin"}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	features, err := Parse(string(out))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"partition": "", "ports": "iptables: No chain/target/match by that name.",
		"netem":     "Error: Specified qdisc kind is unknown.",
		"bandwidth": "", "targets": "Error: Specified qdisc kind is unknown.",
		"files": "the image of chaos-daemon has no toda", "cpu": "",
		"clock":  "this chaos-daemon was built without the code that replaces clocks",
		"memory": "the image of chaos-daemon has no memStress"}
	for _, f := range features {
		why, ok := want[f.Name]
		if ok && (f.Why != why || f.Available != (why == "")) {
			t.Errorf("%s: available %v, %q, want %q", f.Name, f.Available, f.Why, why)
		}
	}
}

func TestOutputThatIsNotOfTheProbeIsRefused(t *testing.T) {
	for _, out := range []string{"", "partition yes\n", "sh: 1: unshare: not found\n"} {
		if f, err := Parse(out); err == nil {
			t.Errorf("%q gives %v", out, f)
		}
	}
}

func TestATableNamesTheNodesThatLackAFeature(t *testing.T) {
	features := func(netem bool) []Feature {
		var all []Feature
		for _, p := range purposes {
			all = append(all, Feature{Name: p.name, Available: p.name != "memory" && (p.name != "netem" || netem),
				Why: "unknown"})
		}
		return all
	}
	table := Format(map[string][]Feature{"a": features(true), "b": features(false)}, []string{"a", "b"})
	for _, line := range []string{"NetworkChaos partition                               yes\n",
		"corrupt         not on b: unknown\n", "memory                                   no: unknown\n"} {
		if !strings.Contains(table, line) {
			t.Errorf("no line %q in\n%s", line, table)
		}
	}
}
