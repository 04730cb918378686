package coordinator

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// handleCommit accepts puts of several keys, or refuses all of them (PROTOCOL HOM). Those that are accepted have
// consecutive timestamps and are one record of the log. So the log has all or none of them after a crash, and they are
// published in one step. Each follows the one before it. To other data centers each travels on its own.
func (c *Coordinator) handleCommit(now causal.Now, from topology.Node, m causal.HomeCommit) {
	puts, conditions := m.Puts()
	if len(puts) == 0 {
		c.Send(causal.PutReply{ID: m.ID, Err: causal.ErrTooLarge}.Message(c.cfg.Self, from)) // no sidecar sends it
		return
	}
	tail, overtaken, isNew := c.receivePut(now, from, &puts[0])
	if !isNew {
		return
	}
	size := sizeOfPuts(puts) + sizeOfReads(conditions)
	v, err := c.nextVersions(now, from, &m, puts, conditions, overtaken, size)
	if err = c.refuseInOrder(tail, &puts[0], err); err != causal.OK {
		c.homeChange.tellRefused(from, err)
		c.Send(causal.PutReply{ID: m.ID, Err: err}.Message(c.cfg.Self, from))
		return
	}
	c.undurable.add(from, c.log.nextIndex, size)
	record := LogRecord{Commit: make([]LoggedWrite, 0, len(puts))}
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
	if !c.cfg.Broken.Has(causal.CommitForgotten) {
		tail.noteAccepted(m.Seq, v.HLC, nil)
	}
	if len(record.Commit) > 0 {
		c.log.append(record)
	}
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
	conditions []causal.Put, overtaken bool, size int) (causal.Version, causal.ErrCode) {
	if err := c.refusesPut(&puts[0], overtaken); err != causal.OK {
		return causal.Version{}, err
	}
	switch {
	case !c.home.enabled, !c.home.isOfCommit(m), !c.home.hasAll(&puts[0]), m.Local != 0 && c.home.hasOthers():
		return causal.Version{}, causal.ErrUnavailable // as checkAtHome
	case len(m.Deps) > causal.MaxPutDeps, causal.CheckCommit(m.Keys) != causal.OK:
		return causal.Version{}, causal.ErrTooLarge
	case c.log.full || c.bytes+size > c.cfg.MaxBytes, !c.undurable.quota.HasRoom(from, size),
		c.home.isCrowded(len(m.Deps)):
		return causal.Version{}, causal.ErrBusy
	}
	for i := range m.Keys {
		if !c.home.isOf(topology.SlotOf(m.Keys[i].Key)) {
			return causal.Version{}, causal.ErrUnavailable
		}
	}
	for i := range puts {
		if !c.cfg.Types.Accepts(&puts[i].Value) {
			return causal.Version{}, causal.ErrType
		}
	}
	for i := range conditions {
		if c.cfg.Broken.Has(causal.CommitReadsUnchecked) && !slices.ContainsFunc(puts,
			func(p causal.Put) bool { return p.Key == conditions[i].Key }) {
			continue
		}
		if !c.home.isNewest(&conditions[i]) {
			return causal.Version{}, causal.ErrConflict
		}
	}
	return c.timestamp(now, from, &puts[0])
}
