package session

import (
	"cmp"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// A commit of several homes (PROTOCOL HOL). First each home keeps the keys of its part from others; then the decider,
// the home of the first key that is put, puts its part, and after that the others put theirs, in the order in which
// they are named. What the decider has put is put by all. Until then the commit has changed nothing, and may begin
// again.

// lockedCommit is a commit of several homes in progress.
type lockedCommit struct {
	parts  []commitPart // in the order in which they are put: the first one decides; those that only read come last
	locks  []int        // of parts: in the order in which they are locked
	locked int          // of locks: how many have answered
	put    int          // of parts: how many are put
	token  causal.LockToken
	// writing says that the decider was asked to put its part, and decided that it has.
	writing, decided bool
	request          uint64
	retryAt          int64          // monotonic: when it asks again, or begins again
	err              causal.ErrCode // why it has to begin again
	was              causal.ErrCode // why it had to before
	lockedKey        string         // that was to be kept then
	versions         map[string]causal.Version
}

// commitPart is what one home is to do.
type commitPart struct {
	home topology.Node
	keys []causal.CommitKey
}

// maxLockedPut is for how long a put waits for a key that is kept.
const maxLockedPut = 2 * time.Second

// lockRequest is the key of requests to keep keys in the table of requests.
const lockRequest = -1

// isLocking reports whether a call is a commit that has asked nobody yet to put anything.
func (c *call) isLocking() bool { return c.locks != nil && !c.locks.writing }

// commit returns the keys that a put puts together, or goes by; nil: it is a put of one key.
func (c *call) commit() []causal.CommitKey {
	if c.locks != nil {
		return c.locks.parts[c.locks.put].keys
	}
	return c.op.Commit
}

// startLocked starts a commit of several homes, from its beginning.
func (s *Sidecar) startLocked(now causal.Now, c *call) {
	ss, before := c.session, lockedCommit{}
	if c.locks != nil {
		before = *c.locks
	}
	s.endLocks(ss, c)
	ss.lockNumber++
	ss.locks = append(ss.locks, ss.lockNumber)
	l := &lockedCommit{parts: s.partsOf(c.op.Commit), retryAt: causal.Never, was: before.err,
		lockedKey: before.lockedKey}
	l.token = causal.LockToken{Number: ss.lockNumber, Decider: l.parts[0].home.Index,
		Leadership: s.coordinators.serving[l.parts[0].home]}
	for i := range l.parts {
		l.locks = append(l.locks, i)
	}
	if !s.cfg.Broken.Has(causal.LocksUnordered) {
		slices.SortFunc(l.locks, func(a, b int) int {
			return cmp.Compare(l.parts[a].home.Index, l.parts[b].home.Index)
		})
	}
	c.locks, c.target = l, topology.Node{}
	s.askLock(now, c)
}

// partsOf divides the keys of a commit by their homes, in the order in which these are first named; those that put
// nothing come last.
func (s *Sidecar) partsOf(keys []causal.CommitKey) (parts []commitPart) {
	for _, k := range keys {
		home := s.homeOf(topology.SlotOf(k.Key))
		i := slices.IndexFunc(parts, func(p commitPart) bool { return p.home == home })
		if i < 0 {
			i = len(parts)
			parts = append(parts, commitPart{home: home})
		}
		parts[i].keys = append(parts[i].keys, k)
	}
	slices.SortStableFunc(parts, func(a, b commitPart) int { return cmp.Compare(a.rank(), b.rank()) })
	return parts
}

// rank is 0 for parts that put something, and 1 for others.
func (p *commitPart) rank() int {
	if p.writes() {
		return 0
	}
	return 1
}

func (p *commitPart) writes() bool {
	return slices.ContainsFunc(p.keys, func(k causal.CommitKey) bool { return !k.ReadOnly })
}

// askLock asks the next home to keep the keys of its part.
func (s *Sidecar) askLock(now causal.Now, c *call) {
	l := c.locks
	s.requests.drop(l.request)
	l.request, l.retryAt = s.requests.add(c, lockRequest), now.Mono+int64(homeRetry)
	m := s.partMessage(c, &l.parts[l.locks[l.locked]], causal.StepLock)
	m.ID, m.Leadership, m.Unanswered = l.request, s.coordinators.serving[l.asked()], c.session.leastLock()
	s.Send(m.Message(s.cfg.Self, l.asked()))
}

// asked returns the home that is asked to keep keys.
func (l *lockedCommit) asked() topology.Node { return l.parts[l.locks[l.locked]].home }

// leastLock returns the least number of a commit of the session that is in progress.
func (ss *session) leastLock() uint64 { return ss.locks[0] }

// partMessage returns what a home is asked about its part, but for what is asked of puts.
func (s *Sidecar) partMessage(c *call, p *commitPart, step causal.CommitStep) causal.HomeCommit {
	ss := c.session
	m := causal.HomeCommit{Session: ss.id, Lock: c.locks.token, Step: step}
	if step == causal.StepLock {
		m.Floor, m.Deps = c.level.carries(s, ss)
		m.Local, m.Foreign, m.Keys = s.localOf(ss, p.home), ss.seen, p.keys
	}
	return m
}

// others returns the homes that put their parts after the decider.
func (l *lockedCommit) others() (homes []causal.CommitHome) {
	for i := range l.parts[1:] {
		if p := &l.parts[1+i]; p.writes() {
			homes = append(homes, causal.CommitHome{Index: p.home.Index})
		}
	}
	return homes
}

// handleLockReply takes whether a home keeps the keys of its part.
func (s *Sidecar) handleLockReply(now causal.Now, c *call, r causal.PutReply) {
	l := c.locks
	l.request, l.retryAt, c.lacking = 0, causal.Never, r.Lacking
	switch r.Err {
	case causal.OK:
		if l.locked++; l.locked < len(l.locks) {
			s.askLock(now, c)
			return
		}
		l.writing = true
		s.putPart(now, c)
	case causal.ErrUnavailable, causal.ErrLocked: // it starts, or is not the home any more, or others keep a key
		s.beginAgain(now, c, r.Err)
	default:
		s.fail(c, r.Err)
	}
}

// beginAgain makes a commit of which nothing was put begin again after a moment, with the homes of then.
func (s *Sidecar) beginAgain(now causal.Now, c *call, why causal.ErrCode) {
	l := c.locks
	l.lockedKey = l.parts[l.locks[min(l.locked, len(l.locks)-1)]].keys[0].Key
	s.unlock(c)
	l.writing, l.err, l.retryAt = false, why, now.Mono+int64(homeBusy)
	c.put, c.target = putState{}, topology.Node{}
}

// unlock tells the homes that have been asked to keep keys that nothing is put.
func (s *Sidecar) unlock(c *call) {
	l := c.locks
	s.requests.drop(l.request)
	l.request = 0
	for i, part := range l.locks {
		if p := &l.parts[part]; i <= l.locked {
			s.Send(s.partMessage(c, p, causal.StepUnlock).Message(s.cfg.Self, p.home))
		}
	}
	l.locked = 0
}

// tickLocks goes on with a commit that waits for a home to keep its keys.
func (s *Sidecar) tickLocks(now causal.Now, c *call) {
	l := c.locks
	decider := l.parts[0].home
	switch {
	case now.Mono >= c.deadline:
		s.fail(c, cmp.Or(l.err, l.was, causal.ErrUnavailable))
	case l.err == causal.OK && s.coordinators.serving[decider] != l.token.Leadership:
		s.beginAgain(now, c, causal.ErrUnavailable) // it decides nothing that was begun before
	case now.Mono < l.retryAt:
	case l.err == causal.OK:
		s.askLock(now, c)
	case s.hasOneHome(c.op.Commit):
		s.endLocks(c.session, c)
		c.locks = nil
		s.enterPipeline(now, c)
	default:
		s.startLocked(now, c)
	}
}

// putPart has the next home put its part.
func (s *Sidecar) putPart(now causal.Now, c *call) {
	c.session.opCount++
	c.opCount = c.session.opCount
	s.enterPipeline(now, c)
}

// finishPart goes on with the next part when one is put, or ends the commit.
func (s *Sidecar) finishPart(now causal.Now, c *call, last causal.Version) {
	more := s.notePart(c, last)
	c.put, c.target = putState{}, topology.Node{} // none of it is in flight
	s.concludePut(now, c)
	if more {
		s.putPart(now, c)
		return
	}
	s.finish(c, Result{Record: causal.Record{Version: last}, Records: c.putRecords(),
		Outcome: Outcome{Version: last, Ring: topology.NoRing}})
}

// loseLocks takes that a home does not keep the keys of a part any more, or is no home of them. If nothing is put, the
// commit begins again.
func (s *Sidecar) loseLocks(now causal.Now, c *call) {
	if c.locks.decided {
		s.fail(c, causal.ErrUnknown)
		return
	}
	c.session.pipeline.remove(c)
	s.beginAgain(now, c, causal.ErrUnavailable)
}

// lockedPause is how long after a put was refused because its key is kept it is sent again.
const lockedPause = 5 * time.Millisecond

// deferLocked puts aside a put whose key is kept for a commit of several homes, as deferPut. It waits for a while only:
// later puts of the session wait for it.
func (s *Sidecar) deferLocked(now causal.Now, c *call) {
	if now.Mono-c.startedAt > int64(maxLockedPut) {
		s.fail(c, causal.ErrLocked)
		s.concludePut(now, c)
		return
	}
	c.session.pipeline.lockedUntil = now.Mono + int64(lockedPause)
	s.deferPut(now, c)
	c.put.locked = true
}

// lockedKey returns a key that a call has waited for because others keep it.
func (c *call) lockedKey() string {
	switch {
	case c.locks != nil:
		return c.locks.lockedKey
	case c.op.Commit != nil:
		return c.op.Commit[0].Key
	case c.mget != nil:
		return c.op.Keys[c.mget.atHome.lockedKey]
	}
	return c.op.Key
}

// timeoutError returns the error of a call that has taken too long, and was not accepted.
func (c *call) timeoutError() causal.ErrCode {
	if c.put.locked || c.home != nil && c.home.apart == WaitsForLocks ||
		c.mget != nil && c.mget.apart == WaitsForLocks {
		return causal.ErrLocked
	}
	return causal.ErrUnavailable
}

// goesElsewhere reports whether a part is about to be sent to another home than that which keeps its keys.
func (s *Sidecar) goesElsewhere(c *call) bool {
	return c.locks != nil && c.session.pipeline.coordinator != c.locks.parts[c.locks.put].home
}

// notePart notes that a home has put its part, and reports whether there is another one.
func (s *Sidecar) notePart(c *call, last causal.Version) (more bool) {
	l := c.locks
	if l.versions == nil {
		l.versions = map[string]causal.Version{}
	}
	puts := slices.DeleteFunc(slices.Clone(c.commit()), func(k causal.CommitKey) bool { return k.ReadOnly })
	for i := range puts {
		l.versions[puts[i].Key] = causal.Version{HLC: last.HLC - causal.HLC(len(puts)-1-i), Origin: last.Origin}
	}
	if l.decided = true; l.put == 0 {
		s.unlockReads(c)
	}
	if l.put+1 == len(l.parts) || !l.parts[l.put+1].writes() {
		return false
	}
	l.put++
	return true
}

// unlockReads lets go the keys of homes that put nothing: the commit is decided.
func (s *Sidecar) unlockReads(c *call) {
	for i := range c.locks.parts {
		if p := &c.locks.parts[i]; !p.writes() {
			s.Send(s.partMessage(c, p, causal.StepUnlock).Message(s.cfg.Self, p.home))
		}
	}
}

// putRecords returns the versions of what a commit of several homes has put, in the order of its keys.
func (c *call) putRecords() []causal.Record {
	records := make([]causal.Record, len(c.op.Commit))
	for i := range records {
		records[i].Version = c.locks.versions[c.op.Commit[i].Key]
	}
	return records
}

// endLocked ends a commit of several homes that has failed, and returns with what. If the decider has not been asked,
// or has refused, nothing is put. If it has put its part, the others put theirs, soon or when they are back.
func (s *Sidecar) endLocked(c *call, err causal.ErrCode) causal.ErrCode {
	switch l := c.locks; {
	case l.decided:
		err = causal.ErrUnknown
	case !l.writing || err != causal.ErrUnknown:
		s.unlock(c)
		if !l.writing && err == causal.ErrUnknown {
			err = causal.ErrUnavailable
		}
	}
	return err
}

// endLocks notes that nothing more is sent of the commit of a call, as it was begun last.
func (s *Sidecar) endLocks(ss *session, c *call) {
	if c.locks != nil {
		ss.locks = slices.DeleteFunc(ss.locks, func(n uint64) bool { return n == c.locks.token.Number })
	}
}
