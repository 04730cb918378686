package transport

import (
	"slices"
	"testing"

	"github.com/causalstore/causalstore/authority"
	"github.com/causalstore/causalstore/contract"
)

// accepts reports whether the peers of all links of a process are known to accept exactly some authorities.
func accepts(p *testProcess, all ...*authority.Authority) bool {
	var want []uint64
	for _, ca := range all {
		want = append(want, contract.RootDigest(ca.Certificate()))
	}
	slices.Sort(want)
	links := p.Stats().Links
	for _, l := range links {
		if !l.Up || l.TrustDomain != "eu" || !slices.Equal(l.Roots, want) {
			return false
		}
	}
	return len(links) > 0
}

func TestBothEndsOfALinkLearnWhichAuthoritiesTheOtherAccepts(t *testing.T) {
	before, after := newAuthority(t, "eu"), newAuthority(t, "eu")
	d := newDirectory()
	keysA, keysB := newKeys(t, idOf(coordinatorA), before), newKeys(t, idOf(middlemanB), before, after)
	a := startWith(t, d, coordinatorA, keysA)
	b := startWith(t, d, middlemanB, keysB)
	awaitServing(t, a, middlemanB)
	a.Send(numbered(coordinatorA, middlemanB, 0))
	b.wait(t, 1)
	awaitServing(t, b, coordinatorA)
	b.Send(answer(middlemanB, coordinatorA, 0))
	a.wait(t, 1)
	waitFor(t, "the hellos to say what is accepted", func() bool {
		return accepts(a, before, after) && accepts(b, before)
	})
	// the one that a has dialed, and that of b
	waitFor(t, "all links to be counted", func() bool { return a.Stats().Opened == 2 })
	opened := a.Stats().Opened
	keysA.trust(t, after, before)
	waitFor(t, "what has changed to be said", func() bool { return accepts(b, before, after) })
	if n := a.Stats().Opened; n != opened {
		t.Errorf("%d streams were opened for it", n-opened)
	}
	keysB.trust(t, before)
	waitFor(t, "what was withdrawn to be said", func() bool { return accepts(a, before) })
}
