package sim

import (
	"fmt"
	"strings"
)

// Harm is a kind of injected fault.
type Harm uint8

// The harms.
const (
	LinkBreak      Harm = iota // a connection breaks, and what follows overtakes what was on it
	LinkLoss                   // a connection breaks with a message on it
	LinkStuck                  // a message hangs on an old connection and arrives seconds later
	Isolate                    // a DC reaches no other
	Cut                        // two DCs do not reach each other
	Congest                    // all ways to and from a DC take longer
	Crash                      // a node stops, with what its disk had acknowledged and perhaps a little more
	Slow                       // a node takes its time over everything
	SlowDisk                   // the disk of a node takes its time
	ClockJump                  // the wall clock of a node jumps
	CrashDirty                 // a coordinator stops with a log that lags behind what it has taken in
	CrashLate                  // a coordinator stops and comes back with its clock behind
	CrashStaged                // a middleman stops with puts that its storage has not taken, and is not sent them again at once
	WriteCut                   // a coordinator and a middleman do not reach each other
	CacheCut                   // a cache and a middleman do not reach each other
	CacheLag                   // what a middleman sends to a cache takes longer
	LateGrant                  // a lease grant comes late, and none after it
	Duplicate                  // a message arrives twice
	StorageFail                // a storage request fails, and was done or not
	CacheOblivious             // a middleman restarts while some cache cannot be told
	harmEnd
)

var harmNames = [harmEnd]string{"link-break", "link-loss", "link-stuck", "isolate", "cut", "congest", "crash", "slow",
	"slow-disk", "clock-jump", "crash-dirty", "crash-late", "crash-staged", "write-cut", "cache-cut", "cache-lag", "late-grant", "duplicate", "storage-fail", "cache-oblivious"}

func (h Harm) String() string { return harmNames[h] }

// Harms counts injected faults by kind.
type Harms [harmEnd]int

// Total returns the number of all faults.
func (h *Harms) Total() int {
	n := 0
	for _, x := range h {
		n += x
	}
	return n
}

// Add adds the counts of others.
func (h *Harms) Add(others *Harms) {
	for i, x := range others {
		h[i] += x
	}
}

// String lists the kinds that occurred: "cut 3, crash 10".
func (h *Harms) String() string {
	var parts []string
	for i, x := range h {
		if x > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", Harm(i), x))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}
