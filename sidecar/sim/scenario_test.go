package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/history"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// TestScenarios plays the files in testdata. A file has a script, one command a line, and plays it:
//
//	script                what follows is the script of the next plays
//	play                  plays it in a new deployment and shows what its commands answer
//	play broken=F,G       the same with rules of the protocol broken, to show what they are for
//	search profile=P broken=F seeds=N
//	                      looks for a random schedule of a profile that notices a broken rule, where a script would have
//	                      to be tuned to the tick
//
// The commands are in the files scenario_*_test.go, one file for each group. Nothing is random in a script: delays are
// fixed, clocks are right. -rewrite writes what is answered into the files.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		script := ""
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "script":
				script = d.Input
				return ""
			case "play":
				return play(script, brokenBy(t, d))
			case "search":
				return search(t, d)
			}
			d.Fatalf(t, "unknown directive %q", d.Cmd)
			return ""
		})
	})
}

func brokenBy(t *testing.T, d *datadriven.TestData) causal.Faults {
	var broken causal.Faults
	if arg, ok := d.Arg("broken"); ok {
		for _, name := range arg.Vals {
			for name := range strings.SplitSeq(name, ",") {
				f, err := FaultNamed(name)
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				broken |= causal.FaultsOf(f)
			}
		}
	}
	return broken
}

// search plays seeds until something is noticed.
func search(t *testing.T, d *datadriven.TestData) string {
	var name string
	var seeds uint64
	d.ScanArgs(t, "profile", &name)
	d.ScanArgs(t, "seeds", &seeds)
	p, err := ProfileNamed(name)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	broken := brokenBy(t, d)
	var checker history.Checker
	for seed := range seeds {
		if o := Run(p, seed, broken, &checker); len(o.Violations) > 0 {
			return "noticed"
		}
	}
	return "not noticed"
}

// scenario is one play of a script.
type scenario struct {
	broken   causal.Faults
	set      Settings
	dcs      []topology.DataCenter
	rings    []topology.Ring
	rtt      map[[2]topology.DC]float64
	topo     *topology.Topology
	world    *World // nil until the first command that needs it
	load     *workload
	keys     map[string]string // as the script calls them -> as they are
	keyNames map[string]string
	sessions map[string]*process
	tokens   map[string]string
	holds    map[string]*hold
	reshape  *reshape
	said     []string // answers of commands that were waited for by nobody
}

// verb is a command of scripts: it returns what is to be shown.
type verb func(s *scenario, args []string) (string, error)

// verbs holds the commands by name, from all files.
var verbs = map[string]verb{}

// play runs a script and returns the transcript: the commands that answered, with their answers.
func play(script string, broken causal.Faults) string {
	s := &scenario{
		broken: broken, rtt: map[[2]topology.DC]float64{}, keys: map[string]string{}, keyNames: map[string]string{},
		sessions: map[string]*process{}, tokens: map[string]string{}, holds: map[string]*hold{},
		set: Settings{Quiet: true, Broken: broken, Cache: true, Lease: time.Second, KeepMs: 3000},
	}
	var b strings.Builder
	for line := range strings.Lines(script) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		answer, err := s.do(words)
		if err != nil {
			answer = "ERROR " + err.Error()
		}
		show(&b, strings.Join(words, " "), answer)
		for _, text := range s.said {
			b.WriteString("  ... " + text + "\n")
		}
		s.said = nil
		if err != nil {
			break
		}
	}
	return b.String()
}

func show(b *strings.Builder, command, answer string) {
	switch {
	case answer == "":
	case strings.Contains(answer, "\n"):
		fmt.Fprintf(b, "%s:\n", command)
		for line := range strings.Lines(answer) {
			fmt.Fprintf(b, "  %s\n", strings.TrimRight(line, "\n"))
		}
	default:
		fmt.Fprintf(b, "%s: %s\n", command, answer)
	}
}

// do carries out one command. `NAME get x` is a command of the session NAME; a leading & does not wait for its answer.
func (s *scenario) do(words []string) (string, error) {
	background := words[0] == "&"
	if background {
		words = words[1:]
	}
	if p := s.sessions[words[0]]; p != nil && len(words) > 1 {
		return s.operate(p, words[0], words[1], words[2:], background)
	}
	v := verbs[words[0]]
	if v == nil || background {
		return "", fmt.Errorf("there is no command or session %q", words[0])
	}
	return v(s, words[1:])
}
