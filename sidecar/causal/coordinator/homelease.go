package coordinator

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// HomeLease is how long a lease lasts that a home gives on a key (PROTOCOL HON).
const HomeLease = 500 * time.Millisecond

const (
	// leaseMemory is for how long after a lease was asked for the log says that there may be some.
	leaseMemory = 10 * time.Minute
	// homeSilence is for how long a sidecar gets no lease that has let one end while a write waited for it.
	homeSilence = 10 * time.Second
	// maxLeaseBytes bounds what leases take, by an estimate, and maxLeaseBytesOfOne those of one identity. Beyond,
	// sidecars get none, and ask each time.
	maxLeaseBytes, maxLeaseBytesOfOne = 32 << 20, 8 << 20
	// leaseBytes is about what a lease takes beside its key, in bytes.
	leaseBytes = 200
	// leaseScanWait is how often leases are forgotten that are over.
	leaseScanWait = time.Second
	// maxOwed bounds the answers that wait until the leases of before are over.
	maxOwed = 1 << 14
)

// homeLeases are promises to sidecars (PROTOCOL HON): the home keeps no write of a key, and publishes none before the
// lease is over or its holder has confirmed that it uses it no more.
type homeLeases struct {
	*shared
	log    *logState
	byKey  map[string]*keyLeases
	quota  causal.Quota // of bytes
	lastID uint64
	silent map[topology.Node]int64 // sidecars that get none: until when, monotonic
	scanAt int64                   // monotonic: when leases are forgotten that are over
	// opensAt is when no lease runs any more that is not known here; monotonic. Until then nothing is published or
	// answered.
	opensAt int64
	askedAt int64 // monotonic: when a lease was asked for last; 0: never
	// owed are answers to puts that an earlier start has accepted.
	owed []causal.Message
	// durable is the last record that the log has made durable: those up to there are published as leases allow.
	durable uint64
	heldAt  int64 // monotonic: since when leases hold a durable write back; 0: none does
	stats   LeaseStats
}

// keyLeases are the leases on one key.
type keyLeases struct {
	list        []homeLease
	isWithdrawn bool
}

type homeLease struct {
	id     uint64
	to     topology.Node
	until  int64 // monotonic
	holder causal.Holder
}

// LeaseStats says what a home does about leases. Counters are since this leadership began.
type LeaseStats struct {
	// Granted counts leases that were given, Denied those for which there was no room, Withdrawn those that were
	// withdrawn, and Silent those that ended before this was confirmed.
	Granted, Denied, Withdrawn, Silent uint64
	// HeldNs is for how long writes that the log held waited for leases, in nanoseconds.
	HeldNs uint64
	// Leases and Bytes are what there is.
	Leases, Bytes int
}

func newHomeLeases(s *shared, log *logState, now causal.Now) homeLeases {
	return homeLeases{shared: s, log: log, byKey: map[string]*keyLeases{}, silent: map[topology.Node]int64{},
		lastID: s.cfg.Incarnation, opensAt: now.Mono,
		quota: causal.Quota{Total: maxLeaseBytes, Each: maxLeaseBytesOfOne, OwnerOf: s.cfg.OwnerOf}}
}

// restore waits for the leases of an earlier start, if the log says that there may be some.
func (l *homeLeases) restore(now causal.Now) {
	if l.log.durable.Leases && !l.cfg.Broken.Has(causal.HomeLeasesForgotten) {
		l.askedAt = now.Mono
		l.reopen(now)
	}
}

// reopen waits until no lease of before runs any more, if there may be some.
func (l *homeLeases) reopen(now causal.Now) {
	if l.cfg.Home {
		l.opensAt = max(l.opensAt, l.endOfAll(now))
	}
}

// endOfAll returns when no lease runs any more that was given up to now, known here or not; monotonic.
func (l *homeLeases) endOfAll(now causal.Now) int64 {
	if !l.log.durable.Leases {
		return now.Mono
	}
	return now.Mono + int64(HomeLease)
}

// saysLeases reports whether the log says, whatever of it a restart finds, that there may be leases.
func (l *logState) saysLeases() bool {
	return l.durable.Leases &&
		!slices.ContainsFunc(l.checkpoints, func(c loggedCheckpoint) bool { return !c.state.Leases })
}

// noteLeases makes the log say that there may be leases before the first one is given, and that there are none any more
// when none was asked for in a long time. So only homes that give leases wait when they start.
func (c *Coordinator) noteLeases(now causal.Now) {
	l := &c.home.leases
	asked := l.askedAt != 0 && now.Mono-l.askedAt < int64(leaseMemory)
	if asked != c.log.pending.Leases && c.log.isInUse() {
		c.log.pending.Leases = asked
		c.writeCheckpoint(now)
	}
}

// isOpen reports whether all leases that run are known here.
func (l *homeLeases) isOpen(now causal.Now) bool { return now.Mono >= l.opensAt }

// grant gives a sidecar a lease on the key of a reply.
func (l *homeLeases) grant(now causal.Now, to topology.Node, r *causal.HomeReply) {
	on := l.byKey[r.Key]
	if on != nil && on.isWithdrawn || now.Mono < l.silent[to] || to.Part != topology.Sidecar ||
		to.DC != l.cfg.Self.DC {
		return
	}
	if l.askedAt = now.Mono; !l.log.saysLeases() {
		return // but it will say so soon
	}
	l.forgetEnded(now)
	if on == nil {
		on = &keyLeases{}
	}
	i := slices.IndexFunc(on.list, func(x homeLease) bool { return x.to == to })
	if i < 0 {
		holder, ok := l.quota.TakeSize(to, leaseSize(r.Key))
		if !ok {
			l.stats.Denied++
			return
		}
		i = len(on.list)
		on.list = append(on.list, homeLease{to: to, holder: holder})
		l.byKey[r.Key] = on
		l.stats.Leases++
	}
	l.lastID++
	on.list[i].id, on.list[i].until = l.lastID, now.Mono+int64(HomeLease)
	l.stats.Granted++
	r.LeaseMs, r.Grant = uint64(HomeLease.Milliseconds()), l.lastID
}

func leaseSize(key string) int { return leaseBytes + len(key) }

// withdraw withdraws the leases on a key. It returns false if none runs.
func (l *homeLeases) withdraw(now causal.Now, key string) bool {
	on := l.byKey[key]
	if on == nil {
		return false
	}
	l.remove(key, on, func(x *homeLease) bool { return l.hasEnded(now, on, x) })
	if len(on.list) == 0 {
		return false
	}
	if !on.isWithdrawn {
		on.isWithdrawn = true
		for _, x := range on.list {
			l.stats.Withdrawn++
			l.Send(causal.HomeReply{Key: key, Withdrawn: x.id}.Message(l.cfg.Self, x.to))
		}
	}
	return true
}

// hasEnded reports whether a lease is over. A sidecar that has not confirmed that it was withdrawn gets none for a
// while: the next write would wait for it, too.
func (l *homeLeases) hasEnded(now causal.Now, on *keyLeases, x *homeLease) bool {
	if now.Mono < x.until {
		return false
	}
	if on.isWithdrawn {
		l.stats.Silent++
		l.silent[x.to] = now.Mono + int64(homeSilence)
	}
	return true
}

func (l *homeLeases) remove(key string, on *keyLeases, isOver func(*homeLease) bool) {
	on.list = slices.DeleteFunc(on.list, func(x homeLease) bool {
		over := isOver(&x)
		if over {
			l.quota.Release(x.holder, leaseSize(key))
			l.stats.Leases--
		}
		return over
	})
	if len(on.list) == 0 {
		delete(l.byKey, key)
	}
}

// confirm takes the word of a sidecar that it uses a lease no more.
func (l *homeLeases) confirm(now causal.Now, from topology.Node, r *causal.HomeRead) {
	if on := l.byKey[r.Key]; on != nil {
		l.remove(r.Key, on, func(x *homeLease) bool { return x.id == r.Withdrawn && x.to == from })
	}
}

// forgetEnded forgets what is over.
func (l *homeLeases) forgetEnded(now causal.Now) {
	if now.Mono < l.scanAt {
		return
	}
	l.scanAt = now.Mono + int64(leaseScanWait)
	for key, on := range l.byKey {
		l.remove(key, on, func(x *homeLease) bool { return l.hasEnded(now, on, x) })
	}
	for n, until := range l.silent {
		if now.Mono >= until {
			delete(l.silent, n)
		}
	}
}

// holds reports whether a write of a key may not be published yet.
func (l *homeLeases) holds(now causal.Now, key string) bool {
	switch {
	case !l.isOpen(now):
		return true
	case l.cfg.Broken.Has(causal.HomeLeaseIgnored):
		return false
	}
	return l.withdraw(now, key)
}

// owe keeps an answer until the leases of before are over. It returns false if they are.
func (l *homeLeases) owe(now causal.Now, m causal.Message) bool {
	if l.isOpen(now) {
		return false
	}
	if len(l.owed) < maxOwed { // else it is asked for again
		l.owed = append(l.owed, m)
	}
	return true
}

// publishable returns the last record of those up to a durable one that may be published. The order in which writes
// become visible is that of the log: who has read a write finds all that were accepted before.
func (c *Coordinator) publishable(now causal.Now, durable uint64) uint64 {
	l := &c.home.leases
	l.durable = max(l.durable, durable)
	if !c.home.enabled || l.isOpen(now) && len(l.byKey) == 0 {
		return l.published(now, l.durable)
	}
	for _, w := range c.writes[c.firstFrom(c.log.durableIndex+1):] {
		if w.index > l.durable {
			break
		}
		if l.holds(now, w.key) {
			return l.published(now, w.index-1)
		}
	}
	return l.published(now, l.durable)
}

// published notes up to where writes are published.
func (l *homeLeases) published(now causal.Now, index uint64) uint64 {
	switch {
	case index < l.durable && l.heldAt == 0:
		l.heldAt = now.Mono
	case index == l.durable && l.heldAt != 0:
		l.stats.HeldNs += uint64(now.Mono - l.heldAt)
		l.heldAt = 0
	}
	return index
}

// holdsBack reports whether something waits until leases are over.
func (l *homeLeases) holdsBack() bool { return l.heldAt != 0 || len(l.owed) > 0 }

// publishHeld publishes what has waited for leases that are over.
func (c *Coordinator) publishHeld(now causal.Now) {
	l := &c.home.leases
	c.locks.grantDue(now)
	if l.heldAt != 0 {
		c.Appended(now, l.durable)
	}
	if len(l.owed) > 0 && l.isOpen(now) {
		for _, m := range l.owed {
			c.Send(m)
		}
		l.owed = nil
	}
}

// Leases returns what the home does about leases.
func (c *Coordinator) Leases() LeaseStats {
	s := c.home.leases.stats
	s.Bytes = c.home.leases.quota.Held()
	return s
}
