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
	broken  causal.Mutations
	seeds   uint64
}

// detection is the first of some schedules with a violation.
type detection struct {
	found     bool
	seed      uint64
	violation string
}

// searched holds what was found, by schedules: scenarios show mutations that TestEveryBrokenRuleIsCaught looks for as
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

// first returns the seed that a search begins with: if it is one for a single mutation, in the profile that detects it,
// that of the last search.
func (s schedules) first() uint64 {
	for f, seed := range lastDetections() {
		if p, err := ProfileThatDetects(f); err == nil && p.Name == s.profile && causal.MutationsOf(f) == s.broken {
			return seed
		}
	}
	return 0
}

// detectionsFile holds the seeds that have detected mutations, a mutation and a seed a line. The tests pass with any seeds.
// With those of the protocol as it is, a mutation takes one schedule, and not up to hundreds; -rewrite puts them into the
// file.
const detectionsFile = "detections.txt"

// lastDetections returns the seeds of the file.
var lastDetections = sync.OnceValue(func() map[causal.Mutation]uint64 {
	text, err := os.ReadFile(detectionsFile)
	if err != nil {
		panic(err)
	}
	seeds := map[causal.Mutation]uint64{}
	for line := range strings.Lines(string(text)) {
		var name string
		var seed uint64
		if _, err := fmt.Sscan(line, &name, &seed); err != nil {
			panic(fmt.Sprintf("%s: %q is not a mutation and a seed: %v", detectionsFile, line, err))
		}
		if f, err := causal.MutationNamed(name); err == nil { // it is gone otherwise, and -rewrite removes the line
			seeds[f] = seed
		}
	}
	return seeds
})

// rewriteDetections writes the file, if the tests run with -rewrite.
func rewriteDetections(t *testing.T, found map[causal.Mutation]uint64) {
	t.Helper()
	if rewrite := flag.Lookup("rewrite"); rewrite == nil || rewrite.Value.String() != "true" {
		return
	}
	if err := os.WriteFile(detectionsFile, detectionLines(lastDetections(), found), 0o644); err != nil {
		t.Fatal(err)
	}
}

// detectionLines returns the content of the file. A mutation that was not found keeps the seed that it had: this run may
// have searched for some mutations only (-run), and a rare mutation may need more seeds than the search plays. Only mutations
// that scenarios detect have no line.
func detectionLines(last, found map[causal.Mutation]uint64) []byte {
	var b bytes.Buffer
	for _, f := range causal.AllMutations() {
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
	last := map[causal.Mutation]uint64{causal.SkipDeps: 1, causal.AnyLeadership: 104, causal.UnfencedLog: 7}
	got := string(detectionLines(last, map[causal.Mutation]uint64{causal.SkipDeps: 5, causal.SVEarly: 0}))
	if want := "skip-deps 5\nsv-early 0\nany-leadership 104\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
