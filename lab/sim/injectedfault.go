package sim

import (
	"fmt"
	"strings"
)

// InjectedFault is a fault of the environment that the simulator injects. It is not a causal.Fault, which breaks a rule
// of the protocol.
type InjectedFault uint8

// The injected faults.
const (
	LinkBreak  InjectedFault = iota // a connection breaks; later messages overtake those that were on it
	LinkLoss                        // a connection breaks and loses a message
	LinkStuck                       // a message is delayed on an old connection, by seconds
	Isolate                         // a data center is partitioned from all others
	Cut                             // two data centers are partitioned from each other
	Congest                         // all links of a data center have a higher latency
	Crash                           // a node crashes; its disk keeps what it acknowledged, and possibly more
	Slow                            // a node handles everything with a delay
	SlowDisk                        // the disk of a node handles everything with a delay
	ClockJump                       // the wall clock of a node jumps
	CrashDirty                      // a coordinator crashes with accepted puts that its log does not hold
	CrashLate                       // a coordinator crashes and restarts with its clock behind
	// a middleman crashes with puts that its storage does not hold, and receives them again late
	CrashStaged
	WriteCut       // a coordinator and a middleman are partitioned
	CacheCut       // a cache and a middleman are partitioned
	CacheLag       // messages from a middleman to a cache are delayed
	LateGrant      // a lease grant arrives late, and none after it
	Duplicate      // a message is delivered twice
	StorageFail    // a storage request fails before or after it took effect
	CacheOblivious // a middleman restarts while a cache cannot learn of it
	EmptyDisk      // a middleman or a leader comes back with an empty disk
	// a middleman receives a put that is dated years ahead, as if a coordinator had sent it
	ForgedPut
	RingLag // messages to a middleman from the others of its ring are delayed
	// as CrashStaged, while another middleman of the ring could not hear of its puts
	CrashUnheard
	LeaderCut // two leaders are partitioned, and hear of each other through a third one
	// a leader claims to another one that the writes of a third one's data center are complete
	ForgedVectors
	CrashUnanswered // a coordinator crashes and restarts, after its answers were lost for a while
	CutRegister     // members of a group do not reach the register of its configuration
	HungDisk        // a disk does not respond for seconds
	GroupResize     // the number of members of a group, or its preferred primary, changes
	BitFlip         // a member of a group comes back with a damaged volume
	Pause           // a process stops and continues
	VolumeSwap      // two members of a group come back with each other's volumes
	RegisterRestore // the register comes back as it was earlier
	UnknownSwap     // the outcome of a compare-and-swap is not told
	// while such a swap is under way, its author does not reach who joins, and perhaps crashes
	CutJoiner
	// a member of a coordinator is cut off from the others; some nodes then reach it only
	MemberCut
	MemberWipe // a member of a coordinator comes back with an empty volume
	// a member of a shard comes back with an empty log beside the storage that it had
	LogLost
	// a member of a shard comes back with an empty storage beside the log that it had
	StorageLost
	CrashApplying // the members of a shard have slow storages, and some of them crash
	// the members of a shard have slow storages, and the one that serves hands over and restarts
	LeaveApplying
	HungStorage // the storage of a middleman does not respond for seconds
	LogGivenUp  // a coordinator comes back with an empty disk, and somebody gives up its log
	// a middleman of the first ring comes back with an empty storage, or with a part of it
	ShardLost
	OldStorage // a middleman of the first ring comes back with its storage as it was earlier
	// the coordinators of a data center stop for seconds, with writes that some rings lack
	Silence
	// all members of a shard of the first ring come back without their logs or volumes
	MembersLost
	VolumeReturned // one of them gets back the volume that it had before
	NearCut        // a sidecar and a cache are partitioned
	NearLag        // messages from a cache to a sidecar are delayed
	NearGrant      // a grant of a lease on near copies arrives late, and none after it
	CacheRestart   // a cache restarts at once, and a sidecar cannot learn of it
	Exclude        // a data center that may be away is excluded, and comes back
	// two sides are cut off from each other, each excludes the other, and then all hear of both
	Divide
	DamagedTwice // the storages of the shards of all rings that have a slot are damaged
	PutLoss      // a put, or the answer to one, is lost on a link that stays up
	FullStorage  // the storages of one or all members of a shard have no room for seconds
	GoneStorage  // the storage of a member of a shard refuses, or fails, everything for seconds
	LossFound    // the storage of a member of a shard has lost data, and says so while it is used
	FullLog      // the disk, or the log, of members of a group has no room for seconds
	HomeCut      // a sidecar and a home are partitioned
	HomeGrant    // what a home sends to a sidecar arrives late, and nothing after it
	injectedFaultEnd
)

var injectedFaultNames = [injectedFaultEnd]string{"link-break", "link-loss", "link-stuck", "isolate", "cut", "congest",
	"crash", "slow",
	"slow-disk", "clock-jump", "crash-dirty", "crash-late", "crash-staged", "write-cut", "cache-cut", "cache-lag",
	"late-grant", "duplicate", "storage-fail", "cache-oblivious", "empty-disk", "forged-put", "ring-lag",
	"crash-unheard", "leader-cut", "forged-vectors", "crash-unanswered",
	"cut-register", "hung-disk", "group-resize", "bit-flip", "pause", "volume-swap", "register-restore", "unknown-swap",
	"cut-joiner", "member-cut", "member-wipe", "log-lost", "storage-lost", "crash-applying", "leave-applying",
	"hung-storage", "log-given-up", "shard-lost", "old-storage", "silence", "members-lost", "volume-returned",
	"near-cut", "near-lag",
	"near-grant", "cache-restart", "exclude", "divide", "damaged-twice", "put-loss", "full-storage", "gone-storage",
	"loss-found", "full-log", "home-cut", "home-grant"}

func (h InjectedFault) String() string { return injectedFaultNames[h] }

// FaultCounts counts injected faults by kind.
type FaultCounts [injectedFaultEnd]int

// Total returns the number of faults of all kinds.
func (h *FaultCounts) Total() int {
	n := 0
	for _, x := range h {
		n += x
	}
	return n
}

// Add adds other counts to h.
func (h *FaultCounts) Add(others *FaultCounts) {
	for i, x := range others {
		h[i] += x
	}
}

// String lists the kinds that occurred: "cut 3, crash 10".
func (h *FaultCounts) String() string {
	var parts []string
	for i, x := range h {
		if x > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", InjectedFault(i), x))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}
