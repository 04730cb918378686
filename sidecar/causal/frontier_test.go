package causal

import (
	"testing"

	"pgregory.net/rapid"
)

// Whatever the order in which a lane's puts arrive, `received` never claims one that has not, and claims all once all have.
func TestALaneIsReceivedOnlyUpToTheFirstGap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "puts")
		order := rapid.Permutation(ints(n)).Draw(t, "order")
		l := &inlane{cleaned: map[HLC]struct{}{}}
		have := map[HLC]bool{}
		for _, i := range order {
			hlc := HLC(10 * (i + 1))
			l.arrived(hlc, hlc-10, 0)
			have[hlc] = true
			for h := HLC(10); h <= l.received; h += 10 {
				if !have[h] {
					t.Fatalf("received is %d, and %d is not here", l.received, h)
				}
			}
		}
		if l.received != HLC(10*n) {
			t.Fatalf("all %d are here, and received is %d", n, l.received)
		}
	})
}

func TestALaneIsCleanOnlyUpToTheFirstThatIsNot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "puts")
		l := &inlane{cleaned: map[HLC]struct{}{}}
		for i := range n {
			l.arrived(HLC(10*(i+1)), HLC(10*i), 0)
		}
		clean := map[HLC]bool{}
		for _, i := range rapid.Permutation(ints(n)).Draw(t, "order") {
			h := HLC(10 * (i + 1))
			clean[h], l.cleaned[h] = true, struct{}{}
			l.advance()
			for h := HLC(10); h <= l.clean; h += 10 {
				if !clean[h] {
					t.Fatalf("clean is %d, and %d is not", l.clean, h)
				}
			}
		}
		if l.clean != HLC(10*n) || len(l.cleaned) != 0 || len(l.order) != 0 {
			t.Fatalf("all are clean; clean is %d, %d and %d are left", l.clean, len(l.cleaned), len(l.order))
		}
	})
}

func ints(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
