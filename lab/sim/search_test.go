package sim

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/sidecar/causal"
)

// schedules are seeds of a profile, with rules of the protocol broken.
type schedules struct {
	profile string
	broken  causal.Faults
	seeds   uint64
}

// detection is the first of some schedules with a violation.
type detection struct {
	found     bool
	seed      uint64
	violation string
}

// searched holds what was found, by schedules: scenarios show faults that TestEveryBrokenRuleIsCaught looks for as
// well.
var searched sync.Map

// detect runs schedules until one has violations. The same schedules are run once.
func (s schedules) detect(p Profile) detection {
	once, _ := searched.LoadOrStore(s, sync.OnceValue(func() detection {
		var checker history.Checker
		from := s.first()
		for seed := from; seed < from+s.seeds; seed++ {
			if o := Run(p, seed, s.broken, &checker); len(o.Violations) > 0 {
				return detection{true, seed, o.Violations[0]}
			}
		}
		return detection{}
	}))
	return once.(func() detection)()
}

// first returns the seed that a search begins with: if it is one for a single fault, in the profile that detects it,
// that of the last search.
func (s schedules) first() uint64 {
	for f, seed := range lastDetections() {
		if p, err := ProfileThatDetects(f); err == nil && p.Name == s.profile && causal.FaultsOf(f) == s.broken {
			return seed
		}
	}
	return 0
}

// detectionsFile holds the seeds that have detected faults, a fault and a seed a line. The tests pass with any seeds.
// With those of the protocol as it is, a fault takes one schedule, and not up to hundreds; -rewrite puts them into the
// file.
const detectionsFile = "detections.txt"

// lastDetections returns the seeds of the file.
var lastDetections = sync.OnceValue(func() map[causal.Fault]uint64 {
	text, err := os.ReadFile(detectionsFile)
	if err != nil {
		panic(err)
	}
	seeds := map[causal.Fault]uint64{}
	for line := range strings.Lines(string(text)) {
		var name string
		var seed uint64
		if _, err := fmt.Sscan(line, &name, &seed); err != nil {
			panic(fmt.Sprintf("%s: %q is not a fault and a seed: %v", detectionsFile, line, err))
		}
		if f, err := causal.FaultNamed(name); err == nil { // it is gone otherwise, and -rewrite removes the line
			seeds[f] = seed
		}
	}
	return seeds
})

// rewriteDetections writes the file, if the tests run with -rewrite.
func rewriteDetections(t *testing.T, found map[causal.Fault]uint64) {
	t.Helper()
	if rewrite := flag.Lookup("rewrite"); rewrite == nil || rewrite.Value.String() != "true" {
		return
	}
	if err := os.WriteFile(detectionsFile, detectionLines(lastDetections(), found), 0o644); err != nil {
		t.Fatal(err)
	}
}

// detectionLines returns the content of the file. A fault that was not found keeps the seed that it had: this run may
// have searched for some faults only (-run), and a rare fault may need more seeds than the search plays. Only faults
// that scenarios detect have no line.
func detectionLines(last, found map[causal.Fault]uint64) []byte {
	var b bytes.Buffer
	for _, f := range causal.AllFaults() {
		seed, ok := found[f]
		if !ok {
			seed, ok = last[f]
		}
		if _, isScripted := scripted[f]; ok && !isScripted {
			fmt.Fprintln(&b, f, seed)
		}
	}
	return b.Bytes()
}

func TestRewritingTheDetectionsKeepsThoseOfFaultsThatWereNotFound(t *testing.T) {
	last := map[causal.Fault]uint64{causal.SkipDeps: 1, causal.AnyLeadership: 104, causal.UnfencedLog: 7}
	got := string(detectionLines(last, map[causal.Fault]uint64{causal.SkipDeps: 5, causal.SVEarly: 0}))
	if want := "skip-deps 5\nsv-early 0\nany-leadership 104\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
