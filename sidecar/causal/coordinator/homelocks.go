package coordinator

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// homeLocks is the part of a home in commits of several homes (PROTOCOL HOL). Each home keeps the keys of its part from
// others, and checks its conditions; then one of them, the decider, puts its part. That decides. The others put theirs
// then, and their keys are not read before. So the commit is one step among the clients of the data center. The others
// have their parts in their logs before the decider puts its own: whatever starts again, and also if the sidecar is
// gone, they find out whether it has.
//
// Invariants: a lock of a part that is not the decider's is in the log before the sidecar is told that it is granted.
// A decision is known to the decider until the logs of all others have their parts.
type homeLocks struct {
	*shared
	host      lockHost
	log       *logState
	home      *home
	byName    map[causal.LockName]*homeLock
	order     []*homeLock // in the order in which they came
	waiting   int         // of these, those that do not have their keys
	decisions []*decision
	fences    map[sessionKey]*lockFence
	scanAt    int64 // monotonic: when fences are dropped that nobody needs
}

// lockHost is what homeLocks asks of its coordinator.
type lockHost interface {
	// refusesLock returns why a part of a commit cannot be put here, whatever its conditions say.
	refusesLock(now causal.Now, from topology.Node, part *causal.HomeCommit) causal.ErrCode
	// putDecided puts a part that was decided, behind a write. If it cannot, that is asked again later.
	putDecided(now causal.Now, l *homeLock, behind causal.Dep)
	// refusePut answers a put, or a part of a commit, with an error.
	refusePut(to topology.Node, id uint64, err causal.ErrCode)
}

// homeLock is a part of a commit for which keys are kept, or are waited for.
type homeLock struct {
	name    causal.LockName
	part    causal.HomeCommit
	fence   *lockFence // of its session
	request uint64     // of the sidecar that waits for the keys; 0: none does
	since   int64      // monotonic: when it came
	// taken says that it has its keys, and granted that the sidecar may know: the log has it, and nobody has a lease on
	// a key that is put.
	taken, granted bool
	putting        bool   // the part was accepted, and is not published yet
	index          uint64 // of its record in the log; 0: it has none, as the decider's
	loggedAt       int64
	askAt          int64 // monotonic: when the decider is asked
}

const (
	// maxLockWait is for how long a part waits for its keys.
	maxLockWait = time.Second
	// lockPatience is for how long a home keeps keys until it asks the decider, which has the commit fail then unless
	// it has decided; the decider itself waits for twice as long.
	lockPatience = 2 * time.Second
	// lockAskEvery is how often the decider is asked again.
	lockAskEvery = 250 * time.Millisecond
	// lockLoggedAgain is how often a lock that is kept for long is logged again, so that the log can drop what is
	// before.
	lockLoggedAgain = 10 * time.Second
	// maxLocks bounds the parts that are kept, or are waited for.
	maxLocks = 1 << 14
)

func newHomeLocks(s *shared, host lockHost, log *logState, h *home) homeLocks {
	return homeLocks{shared: s, host: host, log: log, home: h, byName: map[causal.LockName]*homeLock{},
		fences: map[sessionKey]*lockFence{}}
}

// isDecider reports whether this home decides a commit.
func (h *homeLocks) isDecider(n *causal.LockName) bool { return n.Decider == h.cfg.Self.Index }

// step takes what a sidecar asks about its commit, but for putting a part.
func (h *homeLocks) step(now causal.Now, from topology.Node, part causal.HomeCommit) {
	name := part.NameOf(from)
	fence := h.fenceOf(now, name)
	switch {
	case fence == nil && part.Step == causal.StepLock:
		h.answer(from, part.ID, causal.ErrBusy)
	case part.Step == causal.StepLock:
		fence.keepFrom(part.Unanswered)
		h.lock(now, name, fence, part)
	case part.Step == causal.StepUnlock:
		if fence != nil {
			fence.end(name.Number, causal.Dep{})
		}
		if l := h.byName[name]; l != nil && !l.putting {
			h.release(now, l)
		}
	}
}

// answer says whether the keys of a part are kept.
func (h *homeLocks) answer(to topology.Node, request uint64, err causal.ErrCode) {
	h.host.refusePut(to, request, err)
}

// lock takes the part of a commit. One that is known is asked for again.
func (h *homeLocks) lock(now causal.Now, name causal.LockName, fence *lockFence, part causal.HomeCommit) {
	if part.Leadership != h.cfg.Leadership && !h.cfg.Broken.Has(causal.AnyLeadership) {
		return
	}
	if l := h.byName[name]; l != nil {
		l.request = part.ID
		if l.granted {
			h.answer(name.Sidecar, l.request, causal.OK)
		}
		return
	}
	err := h.host.refusesLock(now, name.Sidecar, &part)
	switch {
	case err != causal.OK:
	case fence.isEnded(name.Number), h.isDecider(&name) && name.Leadership != h.cfg.Leadership:
		err = causal.ErrUnavailable
	case len(h.order) >= maxLocks:
		err = causal.ErrBusy
	}
	if err != causal.OK {
		h.answer(name.Sidecar, part.ID, err)
		return
	}
	h.add(&homeLock{name: name, part: part, request: part.ID, since: now.Mono, fence: fence})
	h.advance(now)
}

func (h *homeLocks) add(l *homeLock) {
	h.byName[l.name], h.order = l, append(h.order, l)
	h.waiting++
	l.fence.locks++
}

// advance gives their keys to the parts that wait for them, the one that came first before others of the same keys.
func (h *homeLocks) advance(now causal.Now) {
	if h.waiting == 0 {
		return
	}
	wanted := map[string]bool{}
	for _, l := range slices.Clone(h.order) {
		switch {
		case l.taken, h.isOver(l): // what ends one of them may give others their keys
		case h.isFree(l, wanted):
			h.take(now, l)
		default:
			for i := range l.part.Keys {
				wanted[l.part.Keys[i].Key] = true
			}
		}
	}
}

// isOver reports whether a part has ended here.
func (h *homeLocks) isOver(l *homeLock) bool { return h.byName[l.name] != l }

// isFree reports whether a part can have its keys: nobody keeps one in a way that excludes that, or has waited longer.
func (h *homeLocks) isFree(l *homeLock, wanted map[string]bool) bool {
	return !slices.ContainsFunc(l.part.Keys, func(k causal.CommitKey) bool {
		return wanted[k.Key] || h.home.keys[k.Key].isKeptFrom(!k.ReadOnly)
	})
}

// take keeps the keys of a part from others, if its conditions hold.
func (h *homeLocks) take(now causal.Now, l *homeLock) {
	_, conditions := l.part.Puts()
	if slices.ContainsFunc(conditions, func(p causal.Put) bool { return !h.home.isNewest(&p) }) &&
		!h.cfg.Broken.Has(causal.LockUnconditional) {
		h.refuse(now, l, causal.ErrConflict)
		return
	}
	h.keep(l)
	l.askAt = now.Mono + int64(lockPatience)
	if h.isDecider(&l.name) {
		l.askAt += int64(lockPatience)
	} else {
		h.append(now, l)
	}
	h.grant(now, l)
}

// append makes the log hold a lock, or hold it again.
func (h *homeLocks) append(now causal.Now, l *homeLock) {
	l.index, l.loggedAt = h.log.nextIndex, now.Mono
	h.log.append(LogRecord{Lock: &LoggedLock{Name: l.name, Part: &l.part}})
}

// keep marks the keys of a part as kept.
func (h *homeLocks) keep(l *homeLock) {
	l.taken = true
	h.waiting--
	for i := range l.part.Keys {
		k := &l.part.Keys[i]
		h.home.keep(k.Key, !k.ReadOnly, h.hides(l, k))
	}
}

// hides reports whether a key is not read while it is kept: what it was may not be what it is at the decider any more.
func (h *homeLocks) hides(l *homeLock, k *causal.CommitKey) bool {
	return !k.ReadOnly && !h.isDecider(&l.name) && !h.cfg.Broken.Has(causal.LockReadThrough)
}

// grant tells the sidecar of a part that it has its keys, once that is so also if this home starts again, and nobody
// reads a key that is put from a near copy.
func (h *homeLocks) grant(now causal.Now, l *homeLock) {
	if l.granted || !l.taken || l.index > h.log.durableIndex ||
		l.index != 0 && !h.cfg.Broken.Has(causal.LockLeased) && h.isLeased(now, l) {
		return
	}
	l.granted = true
	if l.request != 0 {
		h.answer(l.name.Sidecar, l.request, causal.OK)
	}
}

// isLeased withdraws the leases on what a part puts, and reports whether some run.
func (h *homeLocks) isLeased(now causal.Now, l *homeLock) (leased bool) {
	for i := range l.part.Keys {
		if k := &l.part.Keys[i]; !k.ReadOnly && h.home.leases.holds(now, k.Key) {
			leased = true // and go on: all are withdrawn together
		}
	}
	return leased
}

// grantDue grants what has become so.
func (h *homeLocks) grantDue(now causal.Now) {
	for _, l := range h.order {
		h.grant(now, l)
	}
}

// refuse ends a part that has not got its keys.
func (h *homeLocks) refuse(now causal.Now, l *homeLock, err causal.ErrCode) {
	h.answer(l.name.Sidecar, l.request, err)
	h.release(now, l)
}

// release lets go the keys of a part, and answers who has waited for them.
func (h *homeLocks) release(now causal.Now, l *homeLock) {
	h.letGo(l)
	h.answerKept(now, l)
}

// letGo lets go the keys of a part.
func (h *homeLocks) letGo(l *homeLock) {
	if !l.taken {
		h.waiting--
	} else {
		for i := range l.part.Keys {
			k := &l.part.Keys[i]
			h.home.letGoOf(k.Key, !k.ReadOnly, h.hides(l, k))
		}
	}
	l.fence.locks--
	delete(h.byName, l.name)
	i := slices.Index(h.order, l)
	h.order = slices.Delete(h.order, i, i+1)
}

// answerKept answers reads that have waited for the keys of a part, and gives these to who wants them next.
func (h *homeLocks) answerKept(now causal.Now, l *homeLock) {
	for i := range l.part.Keys {
		h.home.answerQuietKey(now, l.part.Keys[i].Key)
	}
	h.advance(now)
}

// tick goes on with what has taken long.
func (h *homeLocks) tick(now causal.Now) {
	h.dropFences(now)
	h.pushDecisions(now)
	for _, l := range slices.Clone(h.order) {
		if h.isOver(l) {
			continue
		}
		h.refuseReaders(now, l)
		switch {
		case !l.taken && now.Mono-l.since > int64(maxLockWait):
			h.refuse(now, l, causal.ErrLocked)
		case !l.taken:
		case l.putting:
		case now.Mono >= l.askAt && !h.cfg.Broken.Has(causal.LockKept):
			h.askOf(now, l)
		case l.index != 0 && now.Mono-l.loggedAt > int64(lockLoggedAgain):
			h.append(now, l)
		default:
			h.grant(now, l)
		}
	}
	h.advance(now)
}

// refuseReaders answers reads that have waited for the keys of a part for long. They are sent again.
func (h *homeLocks) refuseReaders(now causal.Now, l *homeLock) {
	if !l.taken {
		return
	}
	for i := range l.part.Keys {
		if k := h.home.keys[l.part.Keys[i].Key]; len(k.waiting) > 0 {
			h.home.refuseWaiting(k, now.Mono-int64(maxLockWait))
		}
	}
}

// askOf asks the decider of a commit. The decider itself has the commit fail: nobody can have put a part.
func (h *homeLocks) askOf(now causal.Now, l *homeLock) {
	if h.isDecider(&l.name) {
		h.abort(now, l.name)
		return
	}
	l.askAt = now.Mono + int64(lockAskEvery)
	h.Send(causal.VerdictOn(l.name, causal.VerdictAsked, causal.Dep{}).Message(h.cfg.Self,
		l.name.DeciderIn(h.cfg.Self.DC)))
}

// nextTick returns when tick has something to do next.
func (h *homeLocks) nextTick(now causal.Now) int64 {
	if len(h.order) > 0 || len(h.decisions) > 0 {
		return now.Mono
	}
	if len(h.fences) > 0 {
		return h.scanAt
	}
	return causal.Never
}

// keeps reports whether a part of a commit has to end before the slots for which isLost holds are given up.
func (h *homeLocks) keeps(isLost func(topology.Slot) bool) bool {
	return slices.ContainsFunc(h.order, func(l *homeLock) bool {
		return slices.ContainsFunc(l.part.Keys, func(k causal.CommitKey) bool { return isLost(topology.SlotOf(k.Key)) })
	})
}

// restore keeps the keys of a lock that the log has.
func (h *homeLocks) restore(now causal.Now, r *LoggedLock, index uint64) {
	if h.cfg.Broken.Has(causal.LockForgotten) {
		return
	}
	l := h.byName[r.Name]
	if l == nil {
		l = &homeLock{name: r.Name, part: *r.Part, since: now.Mono, granted: true,
			fence: h.loggedFenceOf(now, r.Name)}
		h.add(l)
		h.keep(l)
	}
	l.index, l.loggedAt, l.askAt = index, now.Mono, now.Mono+int64(lockPatience)
}

// firstIndex returns the index of the first record that the log must keep for a lock, or upTo.
func (h *homeLocks) firstIndex(upTo uint64) uint64 {
	for _, l := range h.order {
		if l.index != 0 {
			upTo = min(upTo, l.index)
		}
	}
	return upTo
}
