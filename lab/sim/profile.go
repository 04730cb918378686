package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// Profile determines how deployments, load and faults are drawn. Each emphasizes situations that are rare in the
// others.
type Profile struct {
	Name, About string
	// adjust changes the default plan of a run; nil leaves it as it is.
	adjust func(p *runPlan, rng *rand.Rand)
	// run, if not nil, runs a seed in place of a deployment: what is simulated is something else.
	run func(seed uint64, broken causal.Mutations) Outcome
}

// runPlan holds everything that is drawn before a run starts.
type runPlan struct {
	set       Settings
	shape     deploymentShape
	keys      int
	hotKeys   int // number of keys that get two thirds of the operations
	tallies   int // number of keys that are written as tallies
	thinkTime time.Duration
	mix       operationMix
	sidecars  intRange // in each data center; none: 1
	counters  int      // number of keys that are counted up
	// otherLevels is the share of reads that have another level than the session, in percent.
	otherLevels int
	// deletePercent is the share of the updates of counters that delete.
	deletePercent int
	// expiringPercent is the share of the deletes that are puts of values that expire.
	expiringPercent int
	sessions        intRange // at each sidecar
	processes       intRange // in each session
	faultEvery      time.Duration
	faults          faultWeights
	length          time.Duration
	// scaleEvery is the approximate interval between changes of the numbers of shards, caches or coordinators, as
	// scaled says; 0: there are none.
	scaleEvery time.Duration
	scaled     scaledPart
	// maxWait is how long operations may take in a run without faults; 0: it is not looked at.
	maxWait time.Duration
}

// operationMix is the share of each operation, in percent; the rest are gets.
type operationMix struct{ put, del, mget, token, scan, update, commit, rows int }

// commonFaults are faults of whole nodes and data centers.
var commonFaults = faultWeights{Isolate: 1, Cut: 1, Congest: 1, Crash: 3, Slow: 1, ClockJump: 1}

// profiles are listed in the order in which a campaign runs them.
var profiles = []Profile{
	{"mixed", "all operations with crashes, partitions, congestion and wrong clocks", nil, nil},
	{"caches",
		"hot keys in caches that middlemen cannot reach or reach late; middlemen restart while a cache cannot " +
			"learn of it", cacheHeavy, nil},
	{"near-copies",
		"sidecars keep copies of hot keys; messages between them, caches and middlemen are late, and all of these " +
			"restart", nearCopies, nil},
	{"leases", "caches receive lease grants late and are then partitioned", leases, nil},
	{"crash", "coordinators on slow disks crash right after they have accepted a put; middlemen and caches crash often",
		crashHeavy, nil},
	{"transactions", "many MGETs of few keys that change fast; middlemen keep old versions for a short time",
		transactions, nil},
	{"deletes", "deletes and puts of few keys compete; tombstones are dropped soon; messages arrive seconds late",
		deletes, nil},
	{"expiry", "puts compete with values that expire, which are dropped soon after; messages arrive seconds late",
		expiry, nil},
	{"sessions", "sessions move between data centers by token and have several connections", migrations, nil},
	{"overlap", "reads of one session overlap; the nearest middleman often belongs to another ring", overlap, nil},
	{"restarts", "middlemen crash with puts that their storage does not hold, while bound sessions read",
		restarts, nil},
	{"clocks",
		"coordinators with little load crash and restart with their clocks behind; clocks jump; forged puts are " +
			"dated years ahead", clocks, nil},
	{"partitions", "data centers are partitioned from each other most of the time; many rings", partitions, nil},
	{"relays", "leaders of data centers hear of each other through others only, and lie about what others have written",
		relays, nil},
	{"distances",
		"latencies between data centers differ widely; sessions read from all rings at once over many connections",
		distances, nil},
	{"silences", "few operations with pauses in which coordinators publish rarely", silences, nil},
	{"karma", "without some of the improvements on Karma: ring sets, lifting by SV, pipelined puts", karma, nil},
	{"resharding", "the numbers of shards change again and again, while nodes crash and messages arrive late",
		resharding, nil},
	{"returns", "keys are deleted, their tombstones dropped, and their slots given away and taken back", returns, nil},
	{"cache-scaling", "the numbers of caches change, and sidecars learn of it late", cacheScaling, nil},
	{"coordinator-scaling",
		"the numbers of coordinators change, while clocks are wrong, and leaders, joining and leaving " +
			"coordinators crash", coordinatorScaling, nil},
	{"returning-coordinators",
		"coordinators with several members come and go, most of them with new volumes, while members crash and their " +
			"register fails", returningCoordinators, nil},
	{"empty-disks", "middlemen of one ring, and a leader, come back with empty disks", emptyDisks, nil},
	{"lost-logs", "coordinators lose their logs, which are given up; messages of the lost ones arrive late",
		lostLogs, nil},
	{"silent-origins",
		"coordinators are silent for seconds, with writes that some rings lack, which others adopt; middlemen crash " +
			"meanwhile", silentOrigins, nil},
	{"gaps",
		"writes reach a ring with gaps, and its middlemen hear of each other late; MGETs read keys that are always " +
			"written", gaps, nil},
	{"scans", "sessions that are mostly bound list all keys, while new keys are written; some shards change",
		scans, nil},
	{"failovers",
		"coordinators crash with puts that are accepted and not answered, and restart; copies of puts arrive late",
		failovers, nil},
	{"lost-answers",
		"puts, and answers to them, are lost on links that stay up; coordinators have slow disks, crash and restart",
		lostAnswers, nil},
	{"contention", "many sessions use one or two keys; only links fail", contention, nil},
	{"members",
		"coordinators with several members, which crash, are cut off from each other and from their register, and " +
			"lose their disks", members, nil},
	{"shards",
		"shards with several members, which crash, are cut off, lose logs and storages, and copy them from each other",
		shards, nil},
	{"damage",
		"shards of all rings are damaged at the same time, each at another place or so that a person has to act, " +
			"while nodes crash", damage, nil},
	{"backfill",
		"shards of one ring lose their data and get it back from others, while nodes crash, messages are late, and " +
			"shards change", backfill, nil},
	{"lost-shards",
		"all members of shards of one ring lose what they have; some are given up, and some of the volumes come back",
		lostShards, nil},
	{"old-storages",
		"storages of shards of one ring come back as they were earlier, while nodes crash and messages are late",
		oldStorages, nil},
	{"exclusions",
		"data centers that are away, cut off, or only slow are excluded, and come back, while nodes crash and " +
			"messages are late; " +
			"or two sides are cut off from each other, each excludes the other, and a person then lets the data of " +
			"one side count", exclusions, nil},
	{"tallies", "values that merge, in the situations of all profiles whose keys are registers", tallies, nil},
	{"homes",
		"several sidecars in each data center write and count up the same keys, which are to be as in one " +
			"Redis there, " +
			"while nodes crash, members fail over and messages are late", homes, nil},
	{"near-homes",
		"the same with near copies of keys that are read often and written now and then; what homes and caches send " +
			"to sidecars is late or lost", nearHomes, nil},
	{"home-rows", "the deployments of homes, some of them with near copies, with values that merge", homeRows, nil},
	{"home-changes", "the deployments of homes, some of them with near copies, while the number of homes changes",
		homeChanges, nil},
	{"formats",
		"coordinators and shards of a version that cannot read some of the values are upgraded one after the other, " +
			"while clients write such values, and nodes crash", formats, nil},
	{"groups",
		"one log on several members: they come, go, crash and lose their volumes, and the register of their " +
			"configuration fails", nil, runGroup},
}

// Profiles returns all profiles.
func Profiles() []Profile { return profiles }

// ProfileNamed returns the profile of that name.
func ProfileNamed(name string) (Profile, error) {
	for _, p := range profiles {
		if p.Name == name {
			return p, nil
		}
	}
	return Profile{}, fmt.Errorf("there is no profile %q", name)
}

// draw draws the plan of a run.
func (p Profile) draw(rng *rand.Rand) runPlan {
	pl := runPlan{
		set: Settings{
			Cache: rng.IntN(6) > 0, Binding: drawBinding(rng), Level: drawLevel(rng),
			Lease: ms(300, 1800, rng), KeepMs: int64(100 + rng.IntN(1500)), FaultsPerMillion: 250,
			MaxDeps: 1 + rng.IntN(6)*rng.IntN(6), MaxOwnBytes: 20 << rng.IntN(12),
		},
		shape: defaultShape, keys: 2 + rng.IntN(7), hotKeys: 2, thinkTime: ms(5, 125, rng),
		mix:      operationMix{put: 10 + rng.IntN(40), del: rng.IntN(12), mget: rng.IntN(25), token: rng.IntN(8)},
		sessions: intRange{1, 2}, processes: intRange{1, 2}, length: ms(2000, 7000, rng),
		faultEvery: ms(100, 1600, rng), faults: commonFaults,
	}
	if rng.IntN(5) == 0 {
		pl.faultEvery = 0
	}
	if p.adjust != nil {
		p.adjust(&pl, rng)
	}
	pl.set.SnapshotEvery = time.Duration(rng.IntN(4)) * 30 * time.Millisecond
	pl.set.LeftOut = int(pl.set.KeepMs / 3 % 3) // it draws nothing, as lateAfter
	if pl.set.QuietAfter == 0 && rng.IntN(3) == 0 {
		pl.set.QuietAfter = ms(10, 500, rng)
	}
	return pl
}

func drawBinding(rng *rand.Rand) causal.Binding {
	if rng.IntN(12) == 0 {
		return causal.Static
	}
	return causal.Dynamic
}

// drawLevel draws the level of the sessions.
func drawLevel(rng *rand.Rand) causal.Level {
	if rng.IntN(2) == 0 {
		return causal.Snapshot
	}
	return causal.Latest
}

// lateAfter chooses how long cuts wait for a late data center: the default, hardly at all, or briefly. It draws
// nothing, so that the schedules of seeds stay what they are otherwise.
func lateAfter(set *Settings) time.Duration {
	return []time.Duration{0, time.Millisecond, 100 * time.Millisecond}[set.KeepMs%3]
}

// ms draws a duration between two bounds in milliseconds.
func ms(from, to int, rng *rand.Rand) time.Duration {
	return time.Duration(intRange{from, to}.draw(rng)) * time.Millisecond
}
