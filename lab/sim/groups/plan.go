package groups

import (
	"math/rand/v2"
	"time"
)

// plan holds what is drawn before a run starts.
type plan struct {
	hosts, members int
	preferred      int // the host that is to be the primary
	withRegister   bool
	length         time.Duration
	thinkTime      time.Duration
	faultEvery     time.Duration
	latency        time.Duration
	syncTime       time.Duration
	lease          time.Duration
	reorders       bool // links reorder messages
	perMille       int  // of messages: lost, late or twice
	unknownSwaps   int  // of a thousand swaps
	repeatedResets int  // of a thousand requests to a joining member to start over
	repeatedAcks   int  // how often an acknowledgement arrives again
	collects       int  // one of so many times that users act, they collect records
	external       bool // a storage is beside the log, and groups are given up
	replaceable    bool // by themselves, if nothing is lost
	cutFor         time.Duration
	keepsOne       int // the last volume is lost once in so many times
	changesMind    int // of a thousand changes of what the group should look like, those that are taken back at once
	weights        [NumFaults]int
}

// draw draws a plan. Each emphasizes some faults, so that they meet.
func (p *plan) draw(rng *rand.Rand) {
	ms := func(from, to int) time.Duration { return time.Duration(from+rng.IntN(to-from+1)) * time.Millisecond }
	*p = plan{hosts: 3, members: 2 + rng.IntN(2), withRegister: true, length: ms(5000, 20000), thinkTime: ms(5, 100),
		faultEvery: ms(100, 1500), latency: ms(1, 40), syncTime: ms(1, 30), lease: ms(500, 3000),
		reorders: rng.IntN(3) == 0, perMille: rng.IntN(30), unknownSwaps: rng.IntN(100), collects: 40,
		cutFor: 4 * time.Second, keepsOne: 40}
	if rng.IntN(3) == 0 {
		p.hosts = 4
	}
	p.weights = [NumFaults]int{CrashMember: 4, CutPair: 3, CutMember: 3, CutRegister: 2, SlowDisk: 2, HungDisk: 1,
		BreakLink: 2, Resize: 2, PauseMember: 1}
	p.weights[WipeVolume], p.weights[FlipBit] = rng.IntN(3), rng.IntN(3)
	switch rng.IntN(14) {
	case 0, 1: // swaps apply late while members come and go
		p.unknownSwaps = 200 + rng.IntN(600)
		p.weights = [NumFaults]int{CutPair: 4, Resize: 5, CutMember: 4, CrashMember: 2, CutRegister: 1,
			WipeVolume: rng.IntN(2)}
		p.faultEvery = ms(200, 900)
	case 2: // one member, with or without a register
		p.members = 1
		if rng.IntN(3) == 0 {
			p.hosts, p.withRegister = 1, false
			p.weights = [NumFaults]int{CrashMember: 4, SlowDisk: 1}
		}
	case 3: // the register is restored from backups
		p.weights[RestoreRegister], p.weights[Resize], p.weights[WipeVolume] = 2, 4, 3
		if rng.IntN(2) == 0 { // to before the group was created, too
			p.hosts, p.members, p.weights[Resize] = 3, 3, 0
		}
	case 4:
		p.weights[SwapVolumes] = 3
	case 5: // the primary is cut off and its session is ended by others, again and again
		p.weights = [NumFaults]int{CutPair: 6, CutMember: 6, CrashMember: 2, BreakLink: 4, SlowDisk: 3, PauseMember: 3}
		p.faultEvery, p.thinkTime = ms(100, 600), ms(2, 20)
	case 6: // members crash with records that their disks do not hold
		p.weights = [NumFaults]int{CrashMember: 8, SlowDisk: 4, CutMember: 1, Resize: 1}
		p.faultEvery, p.thinkTime, p.syncTime = ms(50, 500), ms(2, 20), ms(10, 80)
	case 7: // so do they, and their messages arrive seconds late
		p.weights = [NumFaults]int{CrashMember: 6, SlowDisk: 8, HungDisk: 2}
		p.faultEvery, p.thinkTime, p.syncTime, p.perMille = ms(100, 1000), ms(2, 100), ms(20, 200), rng.IntN(100)
		p.lease, p.repeatedAcks = 500*time.Millisecond, 2
	case 8: // members come back after what they lack was collected, and messages arrive again
		p.weights = [NumFaults]int{CutMember: 6, CrashMember: 3, Resize: 3}
		p.faultEvery, p.perMille, p.collects = ms(200, 800), 50+rng.IntN(400), 3
		p.repeatedResets = 500
	case 9: // volumes are lost again and again
		p.weights = [NumFaults]int{CrashMember: 4, FlipBit: 4, WipeVolume: 2, CutMember: 1}
		p.faultEvery = ms(500, 3000)
	case 10, 11:
		// hand-overs are begun and given up, while members are cut off that hold leases which last longer than it takes
		// to replace them
		p.weights = [NumFaults]int{Resize: 10, CutMember: 5, CutPair: 3, CutRegister: 3, PauseMember: 1, CrashMember: 1}
		p.faultEvery, p.lease, p.thinkTime, p.unknownSwaps = ms(50, 500), ms(2000, 4000), ms(5, 50), rng.IntN(300)
		p.changesMind = 500
	case 12, 13:
		// shards: a storage is beside the log; volumes are lost, and groups are given up, also such of which members
		// are only not heard of
		p.external, p.replaceable, p.members = true, rng.IntN(2) == 0, 1+rng.IntN(2)
		p.weights = [NumFaults]int{CrashMember: 3, CutMember: 3, WipeVolume: 2, FlipBit: 1, Resize: 2,
			HungDisk: 1, GiveUp: 6}
		p.length, p.faultEvery, p.cutFor, p.keepsOne, p.unknownSwaps = ms(20_000, 50_000), ms(300, 2000),
			30*time.Second, 3, []int{0, 100, 600}[rng.IntN(3)]
	}
	p.preferred = rng.IntN(p.hosts)
}

// Fault is a fault of the environment.
type Fault uint8

// The faults.
const (
	// a member stops, and starts again with what its disk had acknowledged, and perhaps more
	CrashMember     Fault = iota
	CutPair               // two members do not reach each other, or one does not reach the other
	CutMember             // a member reaches no other, and perhaps not the register
	CutRegister           // nobody reaches the register, or one does not
	SlowDisk              // a disk is slow
	HungDisk              // a disk does not respond for seconds
	BreakLink             // a connection breaks and loses what is on it
	Resize                // the number of members or the preferred primary changes
	WipeVolume            // a member comes back with an empty volume
	FlipBit               // a member comes back with a damaged volume
	PauseMember           // a process stops and continues
	SwapVolumes           // two members come back with each other's volumes
	RestoreRegister       // the register comes back as it was earlier, in another cluster
	LoseMessage
	DelayMessage  // a message arrives seconds late
	RepeatMessage // a message arrives again, perhaps seconds later
	UnknownSwap   // the outcome of a swap is not told: it was done, was not, or will be
	CutJoiner     // while such a swap is under way, its author does not reach who joins, and perhaps crashes
	GiveUp        // a person gives a group up
	NumFaults
)
