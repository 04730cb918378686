package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// forgetOutcome makes the outcome of a commit of data center a unknown, and that of each of its writes that no read
// returns. It returns false if no read returns any: then it may never have taken effect.
func forgetOutcome(h History, r *rand.Rand) bool {
	op := &h[r.IntN(len(h))]
	if op.Kind != Commit || op.DC != "a" || len(op.Reads) > 0 {
		return false
	}
	for i := range op.Writes {
		op.Writes[i].Version = op.WriteVersion(i)
	}
	op.Apart, op.OK, op.Unknown, op.Version = true, false, true, causal.Version{}
	told := false
	for i := range op.Writes {
		w := &op.Writes[i]
		w.Value = fmt.Sprint(w.Version.HLC)
		isIt := func(found Read) bool { return found.Key == w.Key && found.Version == w.Version }
		if slices.ContainsFunc(h, func(o Op) bool { return slices.ContainsFunc(o.Reads, isIt) }) {
			told = true
		} else {
			w.Version = causal.Version{}
		}
	}
	return told
}

func TestTheGraphOfStepsOfUnknownOutcomeAgreesWithTheDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	verdicts := map[bool]int{}
	notFound := 0
	for range 20000 {
		h := randomSteps(r)
		if !forgetOutcome(h, r) {
			continue
		}
		want := isOneStepEach(h)
		for i := range h {
			for n := range h[i].Writes {
				h[i].Writes[n].Version = causal.Version{} // a history does not tell them
			}
		}
		report, err := CheckDataCenters(h, DataCenterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got := !slices.ContainsFunc(report.OneStep.Violations, func(v Violation) bool {
			return strings.HasPrefix(v.Text, "in a: ")
		})
		switch {
		case !got && want:
			t.Fatalf("the graph says false, and the definition true:\n%s\n%v", report.String(), listed(h))
		case got && !want:
			notFound++
		}
		verdicts[want]++
	}
	if verdicts[true] < 300 || verdicts[false] < 300 || notFound > 0 {
		t.Errorf("%d histories are in steps and %d are not, of which %d were not found", verdicts[true],
			verdicts[false], notFound)
	}
}
