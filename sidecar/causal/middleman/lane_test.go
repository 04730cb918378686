package middleman

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"pgregory.net/rapid"
)

// Whatever the order in which a lane's puts arrive, `received` never claims one that has not, and claims all once all
// have.
func TestALaneIsReceivedOnlyUpToTheFirstGap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "puts")
		order := rapid.Permutation(ints(n)).Draw(t, "order")
		l := newLane(false)
		have := map[causal.HLC]bool{}
		for _, i := range order {
			hlc := causal.HLC(10 * (i + 1))
			l.receive(hlc, hlc-10, 0)
			have[hlc] = true
			for h := causal.HLC(10); h <= l.received; h += 10 {
				if !have[h] {
					t.Fatalf("received is %d, and %d is not here", l.received, h)
				}
			}
		}
		if l.received != causal.HLC(10*n) {
			t.Fatalf("all %d are here, and received is %d", n, l.received)
		}
	})
}

func TestALaneIsCleanOnlyUpToTheFirstThatIsNot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "puts")
		l := newLane(false)
		for i := range n {
			l.receive(causal.HLC(10*(i+1)), causal.HLC(10*i), 0)
		}
		clean := map[causal.HLC]bool{}
		for _, i := range rapid.Permutation(ints(n)).Draw(t, "order") {
			h := causal.HLC(10 * (i + 1))
			clean[h] = true
			l.markClean(h)
			for h := causal.HLC(10); h <= l.clean; h += 10 {
				if !clean[h] {
					t.Fatalf("clean is %d, and %d is not", l.clean, h)
				}
			}
		}
		if l.clean != causal.HLC(10*n) || len(l.cleanAhead) != 0 || len(l.unclean) != 0 {
			t.Fatalf("all are clean; clean is %d, %d and %d are left", l.clean, len(l.cleanAhead), len(l.unclean))
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

func TestAcknowledgedWritesOfALaneCountAsReceivedAndClean(t *testing.T) {
	l := newLane(false)
	for _, h := range []causal.HLC{10, 20, 30} {
		l.receive(h, h-10, 0)
	}
	l.markClean(20)
	l.receive(40, 30, 20)
	if l.received != 40 || l.clean != 20 || len(l.unclean) != 2 || len(l.cleanAhead) != 0 {
		t.Errorf("received %d, clean %d, %v are not clean, %v are clean ahead", l.received, l.clean, l.unclean,
			l.cleanAhead)
	}
}

func TestWritesThatAreRememberedOutOfOrderAreBounded(t *testing.T) {
	l := newLane(false)
	for i := causal.HLC(1); i <= 2*maxOutOfOrder; i++ {
		l.receive(10*i+10, 10*i, 0) // the first one is missing
	}
	if l.received != 0 || len(l.outOfOrder) > maxOutOfOrder {
		t.Errorf("received %d, %d are remembered", l.received, len(l.outOfOrder))
	}
}

func TestLaneIsSynchronizedOnceEverythingOfBeforeTheRestartIsReceived(t *testing.T) {
	for _, c := range []struct {
		name              string
		newest, ackedUpTo causal.HLC
		receive           []causal.HLC
		synced            bool
	}{
		{"nothing was ever sent", 0, 0, nil, true},
		{"everything is acknowledged", 20, 20, nil, true},
		{"one is missing", 20, 10, nil, false},
		{"the last one has arrived", 20, 10, []causal.HLC{20}, true},
		{"a later one has arrived", 20, 10, []causal.HLC{30}, false},
	} {
		l := newLane(false)
		for _, h := range c.receive {
			l.receive(h, h-10, c.ackedUpTo)
		}
		l.sync(c.newest, c.ackedUpTo)
		if l.synced != c.synced {
			t.Errorf("%s: synchronized is %v", c.name, l.synced)
		}
	}
}

// A put that is pending and whose place in the lane was forgotten gets it back when it comes again.
func TestAPlaceInALaneThatWasForgottenIsTakenAgain(t *testing.T) {
	l := newLane(false)
	const n = maxOutOfOrder + 10
	for i := causal.HLC(2); i <= n; i++ {
		l.receive(10*i, 10*i-10, 0) // the first one is missing
	}
	l.receive(10, 0, 0)
	if l.received == 10*n || l.received < 10*maxOutOfOrder {
		t.Fatalf("received %d of %d", l.received, 10*n)
	}
	for i := causal.HLC(2); i <= n; i++ {
		l.receive(10*i, 10*i-10, 0)
	}
	if l.received != 10*n || len(l.outOfOrder) != 0 {
		t.Errorf("received %d of %d; %d are remembered", l.received, 10*n, len(l.outOfOrder))
	}
}
