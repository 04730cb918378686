package sim

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Profile is a way to draw deployments, load and harm. Each looks where the others seldom do.
type Profile struct {
	Name, About string
	// change turns what every run starts from into what this profile is after; nil leaves it.
	change func(p *plan, rng *rand.Rand)
}

// plan is all that is decided before a run starts.
type plan struct {
	set      Settings
	shape    shape
	keys     int
	hot      int // this many keys get two thirds of the operations
	think    time.Duration
	mix      mix
	sessions span // in each data centre
	procs    span // in each session
	harmEach time.Duration
	harms    weights
	length   time.Duration
	// reshapeEach is how often something is done about the numbers of what reshapes names, about; 0: they stay.
	reshapeEach time.Duration
	reshapes    changing
}

// mix is the share of each operation, in percent; the rest are gets.
type mix struct{ put, del, mget, token int }

// anyHarm is a bit of everything that befalls whole nodes and data centres.
var anyHarm = weights{Isolate: 1, Cut: 1, Congest: 1, Crash: 3, Slow: 1, ClockJump: 1}

// profiles is in the order in which a campaign goes through them.
var profiles = []Profile{
	{"mixed", "a bit of everything: crashes, cuts, congestion, wrong clocks, all operations", nil},
	{"caches", "hot keys in caches that middlemen cannot reach or reach late, restarts behind a cache's back", cacheHeavy},
	{"leases", "caches whose lease grants come late, and which are then cut off", leases},
	{"crash", "coordinators on slow disks crash right after they took a put; middlemen and caches crash often", crashHeavy},
	{"transactions", "many MGETs of few keys that change fast, snapshots of a short memory", transactions},
	{"deletes", "deletes and puts compete for few keys, tombstones are dropped soon, messages come seconds late", deletes},
	{"sessions", "sessions move between data centres by token and have several connections", migrations},
	{"overlap", "reads of one session overlap, and what is nearest is in another ring as often as not", overlap},
	{"restarts", "middlemen crash with puts that their storage has not taken, while bound sessions read", restarts},
	{"clocks", "coordinators with little to do crash and come back with their clocks behind; clocks jump", clocks},
	{"partitions", "data centres are cut off from each other most of the time; many rings", partitions},
	{"distances", "rings spread over very different distances, sessions with many connections that read all of them at once", distances},
	{"karma", "without some of what goes beyond Karma: ring sets, lifting by SV, pipelined puts", karma},
	{"reshapes", "the numbers of shards change, one change after the other, while parts crash and messages come late", reshapes},
	{"recaches", "the numbers of caches change, and sidecars hear of it late", recaches},
	{"writers", "the numbers of coordinators change, while clocks are wrong and leaders, who come and who leave crash", writers},
	{"contention", "no faults but links that break: many sessions hammer one or two keys", contention},
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

// draw makes the plan of one seed.
func (p Profile) draw(rng *rand.Rand) plan {
	pl := plan{
		set: Settings{
			Cache: rng.IntN(6) > 0, Static: rng.IntN(12) == 0, Snapshot: rng.IntN(2) == 0,
			Lease: ms(300, 1800, rng), KeepMs: int64(100 + rng.IntN(1500)), BreakLinks: 250,
			MaxDeps: 1 + rng.IntN(6)*rng.IntN(6), MaxOwnBytes: 20 << rng.IntN(12),
		},
		shape: anyShape, keys: 2 + rng.IntN(7), hot: 2, think: ms(5, 125, rng),
		mix:      mix{put: 10 + rng.IntN(40), del: rng.IntN(12), mget: rng.IntN(25), token: rng.IntN(8)},
		sessions: span{1, 2}, procs: span{1, 2}, length: ms(2000, 7000, rng),
		harmEach: ms(100, 1600, rng), harms: anyHarm,
	}
	if rng.IntN(5) == 0 {
		pl.harmEach = 0
	}
	if p.change != nil {
		p.change(&pl, rng)
	}
	pl.set.SnapshotEvery = time.Duration(rng.IntN(4)) * 30 * time.Millisecond
	return pl
}

// ms draws a duration between two numbers of milliseconds.
func ms(from, to int, rng *rand.Rand) time.Duration {
	return time.Duration(span{from, to}.draw(rng)) * time.Millisecond
}

func cacheHeavy(p *plan, rng *rand.Rand) {
	p.set.Cache, p.set.Static = true, false
	p.set.Lease = ms(300, 800+1000*rng.IntN(3), rng)
	p.shape.rttMs = span{1, 20 + rng.IntN(60)}
	p.shape.caches = span{1, 1}
	p.shape.perRing = span{1, 1 + rng.IntN(2)}
	p.keys = 2 + rng.IntN(12)
	p.mix = mix{put: 5 + rng.IntN(25), del: rng.IntN(6), mget: rng.IntN(4), token: rng.IntN(12)}
	p.think = ms(3, 40, rng)
	p.sessions = span{1, 3}
	p.harmEach = ms(100, 700, rng)
	p.harms = weights{CacheCut: 4, CacheLag: 4, CacheOblivious: 4, LateGrant: 1, Crash: 1, Slow: 1, Cut: 1}
}

func leases(p *plan, rng *rand.Rand) {
	cacheHeavy(p, rng)
	p.set.Lease = ms(300, 700, rng)
	p.harmEach = ms(100, 500, rng)
	p.harms = weights{LateGrant: 8, CacheCut: 1, Slow: 1, Crash: 1}
}

func crashHeavy(p *plan, rng *rand.Rand) {
	p.harmEach = ms(50, 500, rng)
	p.harms = weights{CrashDirty: 4, Crash: 4, SlowDisk: 2, ClockJump: 1}
	p.mix = mix{put: 30 + rng.IntN(40), del: rng.IntN(10), mget: rng.IntN(10), token: rng.IntN(4)}
}

func transactions(p *plan, rng *rand.Rand) {
	p.mix = mix{put: 20 + rng.IntN(30), del: rng.IntN(5), mget: 30 + rng.IntN(20), token: rng.IntN(4)}
	p.keys, p.think = 2+rng.IntN(4), ms(2, 40, rng)
	p.set.KeepMs = int64(20 + rng.IntN(800))
	p.sessions = span{1, 3}
}

func deletes(p *plan, rng *rand.Rand) {
	p.mix = mix{put: 20 + rng.IntN(30), del: 15 + rng.IntN(25), mget: rng.IntN(10), token: rng.IntN(4)}
	p.keys = 1 + rng.IntN(4)
	p.set.KeepMs = int64(1 + rng.IntN(300))
	p.set.BreakLinks = 2000
	p.harmEach = ms(50, 400, rng)
	p.harms = weights{Crash: 1, Congest: 2, Slow: 8, Cut: 1, SlowDisk: 1}
}

func migrations(p *plan, rng *rand.Rand) {
	p.mix = mix{put: 15 + rng.IntN(30), del: rng.IntN(5), mget: rng.IntN(10), token: 5 + rng.IntN(25)}
	p.sessions, p.procs = span{1, 2}, span{2, 5}
	p.shape.perRing, p.shape.rttMs, p.shape.near = span{1 + rng.IntN(2), 2}, span{20, 150}, rng.IntN(2) == 0
	p.think = ms(2, 60, rng)
	p.harms[Congest], p.harms[Crash] = 3, 1
}

func overlap(p *plan, rng *rand.Rand) {
	p.shape.rings, p.shape.perRing = span{2, 3}, span{2, 2}
	p.shape.rttMs, p.shape.near = span{60, 200}, true
	p.set.Cache, p.set.Static = rng.IntN(3) == 0, false
	p.keys, p.hot = 4+rng.IntN(8), 4
	p.sessions, p.procs = span{1, 1}, span{3, 6}
	p.mix = mix{put: 4 + rng.IntN(16)}
	p.think = ms(5, 150, rng)
	p.harmEach, p.length = ms(50, 400, rng), ms(2000, 4000, rng)
	p.harms = weights{WriteCut: 1}
}

func restarts(p *plan, rng *rand.Rand) {
	overlap(p, rng)
	p.shape.shards = span{1, 3}
	if rng.IntN(2) == 0 {
		p.sessions, p.shape.coordinators = span{2, 2}, span{2, 3}
	}
	p.harms = weights{WriteCut: 2, CrashStaged: 3}
}

func clocks(p *plan, rng *rand.Rand) {
	p.mix = mix{put: 10 + rng.IntN(30), del: rng.IntN(10), mget: rng.IntN(10), token: rng.IntN(4)}
	p.think = ms(50, 600, rng)
	p.harmEach = ms(50, 400, rng)
	p.harms = weights{CrashLate: 6, ClockJump: 3, Crash: 1, Cut: 1}
}

func partitions(p *plan, rng *rand.Rand) {
	p.shape.rings = span{2, 4}
	p.harmEach = ms(30, 300, rng)
	p.harms = weights{Isolate: 2, Cut: 6, Congest: 3, Crash: 1}
	p.mix.token = rng.IntN(15)
}

func distances(p *plan, rng *rand.Rand) {
	p.set.Cache, p.set.Static = rng.IntN(3) == 0, false
	p.shape.rings, p.shape.perRing, p.shape.rttMs = span{2, 3}, span{2, 3}, span{1, 400}
	p.keys = 4 + rng.IntN(6)
	p.hot = p.keys
	p.sessions, p.procs = span{1, 1}, span{4, 7}
	p.think, p.length = ms(2, 30, rng), ms(1500, 3500, rng)
	p.mix = mix{put: 15 + rng.IntN(20), mget: rng.IntN(5), token: rng.IntN(2)}
	p.harmEach, p.harms = ms(100, 500, rng), weights{Congest: 4, Cut: 3}
}

func karma(p *plan, rng *rand.Rand) {
	n := 1 + rng.IntN(7)
	p.set.OneRing, p.set.AskEach, p.set.DepsByID = n&1 > 0, n&2 > 0, n&4 > 0
	p.mix.put = 20 + rng.IntN(30)
	p.sessions, p.procs = span{1, 3}, span{1, 3}
}

func reshapes(p *plan, rng *rand.Rand) {
	p.reshapeEach = ms(50, 800, rng)
	p.keys = 4 + rng.IntN(24)
	p.hot = 2 + rng.IntN(p.keys-1)
	p.think, p.length = ms(3, 60, rng), ms(3000, 8000, rng)
	p.mix = mix{put: 5 + rng.IntN(45), del: rng.IntN(20), mget: rng.IntN(15), token: rng.IntN(6)}
	p.sessions, p.procs = span{1, 2}, span{1, 3}
	p.shape.rttMs, p.shape.caches = span{1, 20 + rng.IntN(100)}, span{1, 1 + rng.IntN(3)}
	p.set.KeepMs = int64(1 + rng.IntN(600))
	p.set.Lease = ms(600, 1800, rng)
	if rng.IntN(4) == 0 { // long copies of much that is deleted, from middlemen that crash
		p.reshapeEach, p.length = ms(2000, 5000, rng), ms(6000, 12000, rng)
		p.keys, p.hot, p.think = 40, 40, ms(20, 60, rng)
		p.mix, p.set.KeepMs = mix{put: 30, del: 30}, 1
		p.harmEach, p.harms = ms(200, 600, rng), weights{Crash: 4}
		return
	}
	if rng.IntN(3) == 0 {
		p.harmEach = ms(100, 800, rng)
		p.harms = weights{Crash: 3, WriteCut: 2, CacheCut: 2, Slow: 2, SlowDisk: 2, Cut: 1, CrashStaged: 1, CacheOblivious: 1}
	}
}

func recaches(p *plan, rng *rand.Rand) {
	cacheHeavy(p, rng)
	p.reshapeEach, p.reshapes = ms(20, 300, rng), caches
	p.shape.caches = span{1, 3}
	p.set.Snapshot = p.set.Snapshot && rng.IntN(2) == 0
	p.think = ms(2, 15, rng)
	if rng.IntN(3) > 0 {
		p.harmEach = 0
	}
}

func writers(p *plan, rng *rand.Rand) {
	p.shape.rings, p.shape.perRing = span{2, 2}, span{1, 1 + rng.IntN(2)}
	p.shape.rttMs = span{1, 10 + rng.IntN(60)}
	p.keys, p.think, p.length = 2+rng.IntN(8), ms(2, 40, rng), ms(2000, 6000, rng)
	p.mix = mix{put: 25 + rng.IntN(45), del: rng.IntN(8), mget: rng.IntN(10), token: rng.IntN(6)}
	p.procs = span{1, 3}
	p.reshapeEach, p.harmEach = ms(20, 600, rng), ms(40, 500, rng)
	p.harms = weights{CrashLate: 3, Crash: 3, CrashDirty: 2, ClockJump: 3, WriteCut: 3, CrashStaged: 3, Slow: 4, Cut: 1, Isolate: 1}
	switch rng.IntN(6) {
	case 0: // so little to do that sessions do not bring a clock forward
		p.think, p.length = ms(100, 900, rng), ms(4000, 9000, rng)
	case 1, 2: // what is said comes late and twice, and things change fast
		p.set.BreakLinks, p.reshapeEach = 250<<rng.IntN(4), ms(10, 50, rng)
		p.harmEach, p.harms = ms(100, 400, rng), weights{WriteCut: 6, Congest: 1}
		p.keys, p.think, p.length = 2+rng.IntN(4), ms(2, 15, rng), ms(5000, 8000, rng)
		p.shape.perRing = span{1, 1}
	case 3: // who leaves is cut off from those that lack something
		p.reshapeEach, p.harmEach, p.harms = ms(20, 100, rng), ms(30, 150, rng), weights{WriteCut: 6, Isolate: 1, Cut: 1}
	case 4:
		restarts(p, rng)
	}
	p.sessions, p.shape.coordinators = span{2, 4}, span{2, 3}
	p.reshapes = coordinators
}

func contention(p *plan, rng *rand.Rand) {
	p.harmEach, p.set.BreakLinks = 0, 500
	p.keys, p.hot = 1+rng.IntN(3), 1
	p.sessions, p.procs = span{2, 4}, span{1, 3}
	p.think, p.length = ms(1, 15, rng), ms(500, 1500, rng)
	p.mix = mix{put: 20 + rng.IntN(50), del: rng.IntN(15), mget: rng.IntN(25), token: rng.IntN(8)}
}
