package sim

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// TestScenarios runs the files in testdata. Each contains scripts, one command a line, and directives that run them:
//
//	script                sets the script of the directives that follow
//	play                  runs the script in a new deployment and shows the answers of its commands
//	play broken=F,G       does the same with rules of the protocol broken, to show their purpose: the checks find a
//	                      violation
//	play broken=F,G unjudged
//	                      the checks find none; the answers, or what else the script shows, differ from those of the
//	                      play before it
//	search profile=P broken=F seeds=N
//	                      looks for a random schedule of a profile that detects a broken rule, where a script would have to
//	                      hit a window that is too short
//
// The commands are defined in the files scenario_*_test.go, one file for each group. A script has no randomness: delays
// are fixed, clocks are right. -rewrite updates the answers in the files.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		script, right := "", "" // the script, and what it shows with all rules in force
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "script":
				script, right = d.Input, ""
				return ""
			case "play":
				broken := brokenBy(t, d)
				shown := play(script, broken)
				if broken == (causal.Mutations{}) {
					right = shown
				} else if err := showsBroken(shown, right, d.HasArg("unjudged")); err != nil {
					t.Errorf("%s: %s: %v", d.Pos, d.Input, err)
				}
				return shown
			case "search":
				return search(t, d)
			}
			d.Fatalf(t, "unknown directive %q", d.Cmd)
			return ""
		})
	})
}

// showsBroken reports what is wrong with a play that is to show what a broken rule leads to.
func showsBroken(shown, right string, unjudged bool) error {
	isJudged := strings.Contains(shown, "VIOLATED") || strings.Contains(shown, "the rings differ")
	switch {
	case shown == right:
		return errors.New("the play with a broken rule shows what it shows without")
	case !isJudged && !unjudged:
		return errors.New("no check finds a violation; if the answers show what is broken, the directive has unjudged")
	case isJudged && unjudged:
		return errors.New("a check finds a violation: the directive need not have unjudged")
	}
	return nil
}

func brokenBy(t *testing.T, d *datadriven.TestData) causal.Mutations {
	var broken causal.Mutations
	if arg, ok := d.Arg("broken"); ok {
		for _, name := range arg.Vals {
			for name := range strings.SplitSeq(name, ",") {
				f, err := causal.MutationNamed(name)
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				broken = broken.Union(causal.MutationsOf(f))
			}
		}
	}
	return broken
}

// search runs seeds until one has violations.
func search(t *testing.T, d *datadriven.TestData) string {
	s := schedules{broken: brokenBy(t, d)}
	d.ScanArgs(t, "profile", &s.profile)
	d.ScanArgs(t, "seeds", &s.seeds)
	p, err := ProfileNamed(s.profile)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	if s.detect(p).found {
		return "detected"
	}
	return "not detected"
}

// scenario is one run of a script.
type scenario struct {
	broken   causal.Mutations
	settings Settings
	dcs      []topology.DataCenter
	rings    []topology.Ring
	rtt      map[[2]topology.DC]float64
	topo     *topology.Topology
	world    *World // nil until the first command that needs it
	workload *workload
	keys     map[string]string // actual keys by their names in the script
	keyNames map[string]string
	sessions map[string]*client
	tokens   map[string]string
	holds    map[string]*hold
	former   map[*node]*disk    // disks that were replaced
	copies   map[*node]*content // of storages
	scaler   *scaler
	trace    *trace
	below    []string // lines to show below the current command: answers of background commands, and messages
}

// verb executes a command of a script and returns its answer.
type verb func(s *scenario, args []string) (string, error)

// verbs holds the commands by name. Each file adds its own.
var verbs = map[string]verb{}

// play runs a script and returns the commands that had an answer, with their answers.
func play(script string, broken causal.Mutations) string {
	s := &scenario{
		broken: broken, rtt: map[[2]topology.DC]float64{}, keys: map[string]string{}, keyNames: map[string]string{},
		sessions: map[string]*client{}, tokens: map[string]string{}, holds: map[string]*hold{},
		former: map[*node]*disk{}, copies: map[*node]*content{},
		settings: Settings{NoRandomness: true, Broken: broken, Cache: true, Lease: time.Second, KeepMs: 3000,
			Tallies: true},
	}
	s.trace = newScenarioTrace(s)
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
		command := strings.Join(words, " ")
		if answer == "" && s.trace.shown != nil && len(s.below) > 0 {
			b.WriteString(command + "\n")
		}
		show(&b, command, answer)
		for _, line := range s.below {
			b.WriteString(line + "\n")
		}
		s.below = nil
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

// do executes a command. `NAME get x` is a command of the session NAME; with a leading & it is not waited for.
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
		return "", fmt.Errorf("unknown command or session %q", words[0])
	}
	return v(s, words[1:])
}
