package coordinator

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Parts of commits of several homes, as far as they are puts (PROTOCOL HOL).

// refusesLock implements lockHost.
func (c *Coordinator) refusesLock(now causal.Now, from topology.Node, part *causal.HomeCommit) causal.ErrCode {
	after := part.Floor
	for _, d := range part.Deps {
		after = max(after, d.Version.HLC)
	}
	switch {
	case c.refusesPuts, c.Membership() != Serving, c.namesUnknownOrigin(part.Deps), !c.home.leases.isOpen(now):
		return causal.ErrUnavailable
	case after > c.sessionLimit(now):
		return causal.ErrClock
	case c.bytes+sizeOfPart(part) > c.cfg.MaxBytes:
		return causal.ErrBusy
	}
	return c.refusesContent(part)
}

func sizeOfPart(part *causal.HomeCommit) (size int) {
	for i := range part.Keys {
		size += sizeOf(part.Keys[i].Key, part.Keys[i].Record.Value, 0)
	}
	return size
}

// refusesPart returns why the part of a commit of several homes is not put. It is only for the sidecar that its keys
// are kept for. What was decided is put whatever room there is.
func (c *Coordinator) refusesPart(m *causal.HomeCommit, lock *homeLock, size int) causal.ErrCode {
	switch {
	case (lock == nil || !lock.granted) && !c.cfg.Broken.Has(causal.LockUnchecked):
		return causal.ErrConflict
	case m.Lock.Decider == c.cfg.Self.Index && (c.log.full || c.bytes+size > c.cfg.MaxBytes):
		return causal.ErrBusy
	}
	return causal.OK
}

// keepsLost implements homeChangeHost. A coordinator that is about to be no home has decided nothing that others do not
// know.
func (c *Coordinator) keepsLost() bool {
	if c.cfg.Broken.Has(causal.HomeGivesKept) {
		return false
	}
	leaves := c.cfg.Self.Index >= c.log.durable.Homes.Next
	return leaves && len(c.locks.decisions) > 0 ||
		c.locks.keeps(func(slot topology.Slot) bool { return !c.home.isOf(slot) })
}

// isPutting reports whether the part of a lock was accepted.
func (l *homeLock) isPutting() bool { return l != nil && l.putting }

// answerEnded answers a part that was put already because the decider has said so.
func (c *Coordinator) answerEnded(now causal.Now, from topology.Node, m *causal.HomeCommit) bool {
	last := c.locks.putOf(now, m.NameOf(from))
	if !last.Version.Written() {
		return false
	}
	c.Send(causal.PutReply{ID: m.ID, Session: m.Session, Version: last.Version, Repeated: true}.Message(c.cfg.Self,
		from))
	return true
}

// accepted notes that a part was accepted, whose newest put is w, and whose record will have an index.
func (h *homeLocks) accepted(now causal.Now, l *homeLock, w *write, r *LoggedLock, index uint64) {
	if r == nil {
		return
	}
	if len(r.Others) > 0 && h.isDecider(&r.Name) {
		h.decide(now, LoggedDecision{Name: r.Name, Last: causal.Dep{Version: w.rec.Version, Slot: w.slot},
			Others: h.othersOf(r)}, index)
	}
	if l == nil {
		return
	}
	l.putting, w.lock = true, l
	if h.cfg.Broken.Has(causal.LockReleasedEarly) && !h.isDecider(&l.name) {
		h.release(now, l)
	}
}

// othersOf returns the homes that a record names, each once, and not more than there can be.
func (h *homeLocks) othersOf(r *LoggedLock) (others []causal.CommitHome) {
	for _, o := range r.Others {
		if o.Index < topology.MaxCoordinators && o.Index != h.cfg.Self.Index && !slices.Contains(others, o) {
			others = append(others, o)
		}
	}
	return others
}

// putDecided implements lockHost.
func (c *Coordinator) putDecided(now causal.Now, l *homeLock, behind causal.Dep) {
	puts, conditions := l.part.Puts()
	for i := range puts {
		puts[i].ID, puts[i].Seq, puts[i].Unanswered = 0, 0, 0 // its sidecar has not asked for it
	}
	if behind.Version.Written() {
		puts[0].Deps = append(slices.Clone(puts[0].Deps), behind)
	}
	tail := c.session(now, sessionKey{l.name.Sidecar, l.name.Session})
	if tail == nil || c.Membership() != Serving {
		return
	}
	v, err := c.timestamp(now, l.name.Sidecar, &puts[0])
	if err != causal.OK {
		return
	}
	c.acceptPuts(now, l.name.Sidecar, &l.part, puts, conditions, v, tail, l)
}

// restorePart takes what a record of the log says of a commit of several homes, of which it has a part.
func (c *Coordinator) restorePart(now causal.Now, r *LoggedLock, writes []LoggedWrite, index uint64) {
	w := &writes[len(writes)-1]
	last := causal.Dep{Version: w.Record.Version, Slot: topology.SlotOf(w.Key)}
	if l := c.locks.byName[r.Name]; l != nil {
		c.locks.release(now, l)
	}
	c.locks.loggedFenceOf(now, r.Name).end(r.Name.Number, last)
	if c.locks.isDecider(&r.Name) && !c.cfg.Broken.Has(causal.DecisionForgotten) {
		c.locks.decide(now, LoggedDecision{Name: r.Name, Last: last, Others: c.locks.othersOf(r)}, index)
	}
}
