package coordinator

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// handleCommit accepts puts of several keys, or refuses all of them (PROTOCOL HOK). Those that are accepted have
// consecutive timestamps and are one record of the log. So the log has all or none of them after a crash, and they are
// published in one step. Each follows the one before it. To other data centers each travels on its own. They may be a
// part of a commit of several homes, for which the keys are kept then.
func (c *Coordinator) handleCommit(now causal.Now, from topology.Node, m causal.HomeCommit) {
	if m.Step != causal.StepPut {
		c.locks.step(now, from, m)
		return
	}
	puts, conditions := m.Puts()
	if len(puts) == 0 {
		c.Send(causal.PutReply{ID: m.ID, Err: causal.ErrTooLarge}.Message(c.cfg.Self, from)) // no sidecar sends it
		return
	}
	tail, overtaken, isNew := c.receivePut(now, from, &puts[0])
	if !isNew {
		return
	}
	var lock *homeLock
	if m.Lock.Number != 0 {
		if lock = c.locks.byName[m.NameOf(from)]; lock == nil && c.answerEnded(now, from, &m) || lock.isPutting() {
			return
		}
	}
	size := sizeOfPuts(puts) + sizeOfReads(conditions)
	v, err := c.nextVersions(now, from, &m, puts, conditions, overtaken, size, lock)
	if err = c.refuseInOrder(tail, &puts[0], err); err != causal.OK {
		c.homeChange.tellRefused(from, err)
		c.refusePut(from, m.ID, err)
		return
	}
	c.undurable.add(from, c.log.nextIndex, size)
	v = c.acceptPuts(now, from, &m, puts, conditions, v, tail, lock)
	if !c.cfg.Broken.Has(causal.CommitForgotten) {
		tail.noteAccepted(m.Seq, v.HLC, nil)
	}
}

// acceptPuts accepts the puts of a commit, and returns the version of the last one.
func (c *Coordinator) acceptPuts(now causal.Now, from topology.Node, m *causal.HomeCommit, puts,
	conditions []causal.Put, v causal.Version, tail *sessionTail, lock *homeLock) causal.Version {
	record := LogRecord{Commit: make([]LoggedWrite, 0, len(puts))}
	if m.Lock.Number != 0 {
		record.Lock = &LoggedLock{Name: m.NameOf(from), Others: m.Others}
	}
	var last *write
	for i := range puts {
		if i > 0 {
			v.HLC, _ = c.clock.Next(now, 0, c.cfg.ClockBoundMs) // the first one is the greatest that can be refused
			puts[i].Deps, puts[i].Local = nil, 0                // the one before has them
			if c.cfg.Broken.Has(causal.CommitUnordered) {
				tail.last = causal.Version{}
			}
		}
		w, logged := c.accept(now, from, &puts[i], v, tail)
		w.committedWith, last = i < len(puts)-1, w
		if i > 0 {
			logged.Deps = nil
		}
		if i < len(puts)-1 {
			puts[i+1].Foreign = w.foreignPast
		}
		c.home.noteCompared(now, puts[i].Key)
		if c.cfg.Broken.Has(causal.CommitInRecords) {
			c.log.append(LogRecord{Write: logged})
			continue
		}
		record.Commit = append(record.Commit, logged)
	}
	c.home.goBy(last, conditions)
	if len(record.Commit) > 0 {
		c.locks.accepted(now, lock, last, record.Lock, c.log.nextIndex)
		c.log.append(record)
	}
	return v
}

// sizeOfPuts is about what puts with the same dependencies take, in bytes.
func sizeOfPuts(puts []causal.Put) (size int) {
	for i := range puts {
		size += sizeOf(puts[i].Key, puts[i].Value, 0)
	}
	return size + depBytes*len(puts[0].Deps)
}

// nextVersions returns the version of the first of some puts, or why all are refused.
func (c *Coordinator) nextVersions(now causal.Now, from topology.Node, m *causal.HomeCommit, puts,
	conditions []causal.Put, overtaken bool, size int, lock *homeLock) (causal.Version, causal.ErrCode) {
	if err := c.refusesPut(&puts[0], overtaken); err != causal.OK {
		return causal.Version{}, err
	}
	var err causal.ErrCode
	if m.Lock.Number != 0 {
		err = c.refusesPart(m, lock, size)
	} else {
		err = c.refusesCommit(from, m, puts, conditions, size)
	}
	if err != causal.OK {
		return causal.Version{}, err
	}
	return c.timestamp(now, from, &puts[0])
}

// refusesCommit returns why a commit of this home alone is refused.
func (c *Coordinator) refusesCommit(from topology.Node, m *causal.HomeCommit, puts, conditions []causal.Put,
	size int) causal.ErrCode {
	if err := c.refusesContent(m); err != causal.OK {
		return err
	}
	if c.bytes+size > c.cfg.MaxBytes || !c.undurable.quota.HasRoom(from, size) {
		return causal.ErrBusy
	}
	if err := c.home.refusesKeptOf(puts, conditions); err != causal.OK {
		return err
	}
	for i := range conditions {
		if c.cfg.Broken.Has(causal.CommitReadsUnchecked) && !slices.ContainsFunc(puts,
			func(p causal.Put) bool { return p.Key == conditions[i].Key }) {
			continue
		}
		if !c.home.isNewest(&conditions[i]) {
			return causal.ErrConflict
		}
	}
	return causal.OK
}

// refusesContent returns why a commit, or a part of one, cannot be put here, whatever its conditions say.
func (c *Coordinator) refusesContent(m *causal.HomeCommit) causal.ErrCode {
	first := causal.Put{Deps: m.Deps, Local: m.Local}
	switch {
	case !c.home.enabled, !c.home.isOfCommit(m), !c.home.hasAll(&first), m.Local != 0 && c.home.hasOthers():
		return causal.ErrUnavailable // as checkAtHome
	case len(m.Deps) > causal.MaxPutDeps, causal.CheckCommit(m.Keys) != causal.OK:
		return causal.ErrTooLarge
	case c.log.full, c.home.isCrowded(len(m.Deps)):
		return causal.ErrBusy
	}
	for i := range m.Keys {
		if !c.home.isOf(topology.SlotOf(m.Keys[i].Key)) {
			return causal.ErrUnavailable
		}
	}
	for i := range m.Keys {
		v := &m.Keys[i].Record.Value
		if !c.cfg.Types.Accepts(v) {
			return causal.ErrType
		}
		if err := c.formats.refuses(v); err != causal.OK {
			return err
		}
	}
	return causal.OK
}
