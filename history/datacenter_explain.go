package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// explain finds the first operation, by their ends, that no order explains together with those that ended before. It
// returns a text that shows it, with those that ended last before it.
func (s *exact) explain(h History, deadline time.Time) (text string, ops []int) {
	byEnd := slices.Clone(s.ops)
	slices.SortStableFunc(byEnd, func(a, b *access) int { return cmp.Compare(a.end, b.end) })
	answered := len(byEnd)
	for answered > 0 && !byEnd[answered-1].answered {
		answered--
	}
	// The first n are legal, and the first n+1 not.
	n := sort.Search(answered, func(n int) bool {
		return s.decide(upTo(byEnd, n+1), deadline) == porcupine.Illegal
	})
	var b strings.Builder
	if n == answered {
		n-- // the time was not enough to find it
		b.WriteString("no order explains its operations; the last ones:")
	} else {
		fmt.Fprintf(&b, "no order of its operations explains %s; the last ones that ended before:",
			during(&h[byEnd[n].op]))
	}
	for _, a := range byEnd[max(0, n-maxShownBefore):n] {
		b.WriteString("\n      " + during(&h[a.op]))
		ops = append(ops, a.op)
	}
	return b.String(), append(ops, byEnd[n].op)
}

// maxShownBefore is how many operations an explanation shows before the one that it is about.
const maxShownBefore = 6

// upTo returns what was known when the first n operations had ended: those in progress may have done anything.
func upTo(byEnd []*access, n int) []*access {
	ops := slices.Clone(byEnd[:n])
	for _, a := range byEnd[n:] {
		if a.start > byEnd[n-1].end || a.does == keep {
			continue
		}
		pending := *a
		pending.answered, pending.end = false, math.MaxInt64
		ops = append(ops, &pending)
	}
	return ops
}
