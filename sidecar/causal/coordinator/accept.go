package coordinator

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// handlePut accepts a put, or refuses it. An accepted put has its place in the order from here on, but it is
// acknowledged only when the log holds it.
//
// A put for another leadership is late: its session knows by now that it was refused, or has sent it again
// (PROTOCOL PUT-15).
func (c *Coordinator) handlePut(now causal.Now, from topology.Node, p causal.Put) {
	if p.Value.Type == causal.Operation {
		c.handleOperation(now, from, p)
		return
	}
	tail, overtaken, isNew := c.receivePut(now, from, &p)
	if !isNew {
		return
	}
	v, err := c.nextVersion(now, from, &p, overtaken)
	if err = c.refuseInOrder(tail, &p, err); err != causal.OK {
		c.homeChange.tellRefused(from, err)
		c.refusePut(from, p.ID, err)
		return
	}
	c.undurable.add(from, c.log.nextIndex, sizeOf(p.Key, p.Value, len(p.Deps)))
	_, logged := c.accept(now, from, &p, v, tail)
	tail.noteAccepted(p.Seq, v.HLC, nil)
	c.home.noteCompared(now, p.Key)
	c.log.append(LogRecord{Write: logged})
}

// refusePut answers a put, or a part of a commit, with an error. Of a part that is to be kept, it may be OK.
func (c *Coordinator) refusePut(to topology.Node, id uint64, err causal.ErrCode) {
	c.Send(causal.PutReply{ID: id, Err: err, Lacking: c.formats.lacking(err)}.Message(c.cfg.Self, to))
}

// refuseInOrder returns whether a put is refused. After one that another coordinator may take, those are refused too
// that were sent before the session has heard of that: it sends all of them again in their order, and if one of them
// were accepted, those before it would fail.
func (c *Coordinator) refuseInOrder(tail *sessionTail, p *causal.Put, err causal.ErrCode) causal.ErrCode {
	if !c.home.enabled || err == causal.ErrUnknown { // it may have been accepted
		return err
	}
	if tail.refused != 0 && p.Seq > tail.refused && min(p.Unanswered, p.Seq) <= tail.refused {
		err = causal.ErrUnavailable
	}
	if err == causal.ErrUnavailable || err == causal.ErrLocked {
		tail.refused = max(tail.refused, p.Seq)
	}
	return err
}

// receivePut returns the session of a put, and whether a later one was seen before. A put that is late, or was accepted
// before, is not new: it is answered, if it has an answer.
func (c *Coordinator) receivePut(now causal.Now, from topology.Node, p *causal.Put) (tail *sessionTail, overtaken,
	isNew bool) {
	if p.Leadership != c.cfg.Leadership && !c.cfg.Broken.Has(causal.AnyLeadership) {
		return nil, false, false
	}
	if tail = c.session(now, sessionKey{from, p.Session}); tail == nil {
		c.Send(causal.PutReply{ID: p.ID, Err: causal.ErrBusy}.Message(c.cfg.Self, from))
		return nil, false, false
	}
	tail.confirm(min(p.Unanswered, p.Seq))
	asNew := (p.Resent || p.Seq <= tail.seq) && c.cfg.Broken.Has(causal.ResendAsNew) ||
		p.Value.Type == causal.Operation && (c.cfg.Broken.Has(causal.HomeExecutesTwice) ||
			p.Resent && c.cfg.Broken.Has(causal.HomeForgetsExecuted))
	if a, found := tail.find(p.Seq); found && !asNew {
		if c.cfg.Broken.Has(causal.HomeRefusesExecuted) && !c.home.isOf(topology.SlotOf(p.Key)) {
			c.Send(causal.PutReply{ID: p.ID, Err: causal.ErrUnavailable}.Message(c.cfg.Self, from))
			return nil, false, false
		}
		c.answerAgain(now, from, p, a)
		return nil, false, false
	}
	overtaken = p.Seq <= tail.seq && !asNew
	tail.seq = max(tail.seq, p.Seq) // a duplicate of a refused put must not be accepted
	return tail, overtaken, true
}

// accept gives a put its place in the order, and returns what the log is to hold of it.
func (c *Coordinator) accept(now causal.Now, from topology.Node, p *causal.Put, v causal.Version,
	tail *sessionTail) (*write, LoggedWrite) {
	if p.Value.Tombstone {
		p.Value.Data = nil // nobody stores it
	}
	if p.Value.Merges() && c.home.enabled {
		c.home.precedeMerging(p)
	}
	w := &write{
		rec: causal.Record{Version: v, Value: p.Value}, key: p.Key, slot: topology.SlotOf(p.Key),
		past:    pastOf(p, tail),
		session: p.Session, sidecar: from, putID: p.ID, index: c.log.nextIndex,
	}
	direct := c.directDeps(p.Deps, tail)
	followsAll := p.Local != 0 && !c.cfg.Broken.Has(causal.HomeSkipsPast)
	own := c.flattenDeps(w, direct, followsAll)
	past := max(p.Foreign, tail.foreign)
	if followsAll {
		past = max(past, c.home.past)
	}
	if c.home.enabled { // otherwise no put follows all
		c.home.accept(w, past)
		c.home.leases.withdraw(now, w.key)
		c.noteInLanes(w)
	}
	tail.last, tail.slot, tail.foreign = v, w.slot, w.foreignPast
	c.add(w)
	c.progress = c.progress || c.isQuiet(now) // others are to publish often from now on
	c.noteOwnActivity(now)
	if c.cfg.Broken.Has(causal.PropagateBeforeDurable) {
		c.release(w)
	}
	return w, logWrite(w, p, own, followsAll)
}

// sessionLimit returns the greatest floor or dependency of a put to believe. What peers have published may be further
// ahead than what sidecars claim, so a claim never moves the limit for the next one.
func (c *Coordinator) sessionLimit(now causal.Now) causal.HLC {
	claimed := causal.HLCAt(now.WallMs + causal.MaxSessionAheadMs)
	return max(claimed, c.clock.Peek(now), c.known.MaxRV())
}

// nextVersion returns the version of a put, or why it is refused.
func (c *Coordinator) nextVersion(now causal.Now, from topology.Node, p *causal.Put, overtaken bool) (causal.Version,
	causal.ErrCode) {
	if err := c.refusesPut(p, overtaken); err != causal.OK {
		return causal.Version{}, err
	}
	switch {
	case causal.CheckPut(p.Key, p.Value, len(p.Deps)) != nil:
		return causal.Version{}, causal.ErrTooLarge
	case !c.cfg.Types.Accepts(&p.Value):
		return causal.Version{}, causal.ErrType
	case c.log.full || c.bytes+sizeOf(p.Key, p.Value, len(p.Deps)) > c.cfg.MaxBytes, !c.HasRoom(from, p):
		return causal.Version{}, causal.ErrBusy
	}
	if err := c.formats.refuses(&p.Value); err != causal.OK {
		return causal.Version{}, err
	}
	if err := c.checkAtHome(p); err != causal.OK {
		return causal.Version{}, err
	}
	if err := c.home.refusesKept(p); err != causal.OK {
		return causal.Version{}, err
	}
	return c.timestamp(now, from, p)
}

// refusesPut returns why a put cannot be accepted now, whatever it writes.
func (c *Coordinator) refusesPut(p *causal.Put, overtaken bool) causal.ErrCode {
	switch {
	case (p.Resent || overtaken) && !c.isDecidable(p):
		return causal.ErrUnknown // it may have been accepted, and forgotten since
	case overtaken:
		return causal.ErrStale // accepted now, it would take effect after a later one
	case c.refusesPuts || c.Membership() != Serving, c.namesUnknownOrigin(p.Deps):
		return causal.ErrUnavailable
	}
	return causal.OK
}

// timestamp returns the version of a put that is accepted, unless it is refused for the clock.
func (c *Coordinator) timestamp(now causal.Now, from topology.Node, p *causal.Put) (causal.Version, causal.ErrCode) {
	after := p.Floor
	for _, d := range p.Deps {
		after = max(after, d.Version.HLC)
	}
	if c.cfg.Broken.Has(causal.FloorWithoutOwn) {
		after = 0
	}
	if after > c.sessionLimit(now) {
		c.stats.ClockRefused++
		c.stats.RefusedFrom = from
		return causal.Version{}, causal.ErrClock
	}
	hlc, ok := c.clock.Next(now, after, c.cfg.ClockBoundMs)
	if !ok {
		return causal.Version{}, causal.ErrClock
	}
	return causal.Version{HLC: hlc, Origin: c.origin}, causal.OK
}

// namesUnknownOrigin reports whether a dependency is of a coordinator that this topology does not have. No shard would
// ever be without it, and nothing behind the put could complete.
func (c *Coordinator) namesUnknownOrigin(deps []causal.Dep) bool {
	return slices.ContainsFunc(deps, func(d causal.Dep) bool { return !c.cfg.Topology.HasOrigin(d.Version.Origin) })
}

// pastOf returns the greatest HLC in the past of a put: what its session has seen and written, and what these depend
// on.
func pastOf(p *causal.Put, tail *sessionTail) causal.HLC {
	past := max(p.Floor, tail.last.HLC, 1) // 0 would be unknown
	for _, d := range p.Deps {
		past = max(past, d.Version.HLC)
	}
	return past
}

// directDeps returns the dependencies that still matter: those that the session names, and the session's put before
// this one, so that a session may pipeline its puts.
//
// The result is valid until the next call.
func (c *Coordinator) directDeps(named []causal.Dep, tail *sessionTail) []causal.Dep {
	if c.cfg.Broken.Has(causal.SkipDeps) {
		return nil
	}
	deps := c.direct[:0]
	previous := false
	for _, d := range named {
		if !c.isComplete(d.Version) {
			deps = append(deps, d)
			previous = previous || d.Version == tail.last
		}
	}
	if !previous && !tail.last.IsZero() && !c.isComplete(tail.last) {
		deps = append(deps, causal.Dep{Version: tail.last, Slot: tail.slot})
	}
	c.direct = deps
	return deps
}

// flattenDeps orders w after direct (PROTOCOL LAN-1). Of this origin, w names for each shard the newest write
// in its past; of other origins, the writes that it depends on itself or through its predecessors. So a burst of puts
// becomes visible in a ring as soon as all of it has arrived there, and not one hop after the other. When the list gets
// too long, w names its direct predecessors of this origin by id instead, which costs it one hop. It returns these
// predecessors.
//
// With followsAll, all that was accepted before is in the past of w: its session has read some of it at the home.
func (c *Coordinator) flattenDeps(w *write, direct []causal.Dep, followsAll bool) (own []causal.Dep) {
	if followsAll {
		c.followAll(w, direct)
		return nil
	}
	own = w.fewOwn[:0]
	clear(c.manyDeps)
	if n := c.foreignDeps(direct); n > len(w.fewDeps) {
		w.deps = make([]causal.Dep, 0, n)
	}
	for _, d := range direct {
		if d.Version.Origin != c.origin {
			c.addDep(w, d)
		} else if c.incomplete[d.Version.HLC] != nil {
			own = append(own, d)
		}
	}
	if len(own) == 0 {
		return nil
	}
	byID := len(w.deps)
	if n := len(c.laneOrder); n <= len(w.fewLanes) {
		w.laneDeps = w.fewLanes[:n]
	} else {
		w.laneDeps = make([]causal.HLC, n)
	}
	for _, d := range own {
		if len(w.deps) > c.cfg.MaxDeps {
			break // whoever names many predecessors that have many dependencies would else keep the coordinator busy
		}
		u := c.incomplete[d.Version.HLC]
		for _, dep := range u.deps {
			if c.addDep(w, dep); len(w.deps) > c.cfg.MaxDeps {
				break
			}
		}
		for i, h := range u.laneDeps {
			w.laneDeps[i] = max(w.laneDeps[i], h)
		}
		for r := range c.cfg.Topology.Rings {
			l := c.laneTo(topology.RingID(r), u.slot)
			w.laneDeps[l.index] = max(w.laneDeps[l.index], u.rec.Version.HLC)
		}
	}
	if len(w.deps) > c.cfg.MaxDeps || c.cfg.Comparison.DepsByID {
		w.laneDeps, w.deps = nil, append(w.deps[:byID], own...)
	}
	return own
}

// followAll orders w after all that was accepted before.
func (c *Coordinator) followAll(w *write, direct []causal.Dep) {
	clear(c.manyDeps)
	for _, d := range direct {
		if d.Version.Origin != c.origin {
			c.addDep(w, d)
		}
	}
	for _, d := range c.home.carried(causal.NoLimit) {
		c.addDep(w, d)
	}
	w.laneDeps = make([]causal.HLC, len(c.laneOrder))
	for i, l := range c.laneOrder {
		w.laneDeps[i] = l.newest
	}
}

// noteInLanes notes that a write was accepted, in its lane to each ring.
func (c *Coordinator) noteInLanes(w *write) {
	for r := range c.cfg.Topology.Rings {
		c.laneTo(topology.RingID(r), w.slot).note(w)
	}
}

// checkAtHome returns why a put that its session bases on what it has read at the home is refused.
func (c *Coordinator) checkAtHome(p *causal.Put) causal.ErrCode {
	switch {
	case !c.home.enabled && p.Local == 0 && !p.Conditional:
		return causal.OK
	case !c.home.enabled, !c.home.isOf(topology.SlotOf(p.Key)), !c.home.hasAll(p):
		return causal.ErrUnavailable
	case p.Local != 0 && c.home.isCrowded(len(p.Deps)):
		return causal.ErrBusy
	case p.Conditional && !c.home.isNewest(p):
		c.home.stats.Conflicts++
		return causal.ErrConflict
	}
	return causal.OK
}

// foreignDeps returns how many dependencies are of other origins.
func (c *Coordinator) foreignDeps(deps []causal.Dep) (n int) {
	for i := range deps {
		if deps[i].Version.Origin != c.origin {
			n++
		}
	}
	return n
}

// addDep adds a dependency to w, unless w has it or it is known to be complete.
func (c *Coordinator) addDep(w *write, d causal.Dep) {
	if c.isComplete(d.Version) || c.hasDep(w, d) {
		return
	}
	if w.deps == nil {
		w.deps = w.fewDeps[:0]
	}
	w.deps = append(w.deps, d)
}

// manyDeps is from how many dependencies on looking for one in the list takes longer than a set.
const manyDeps = 64

// hasDep reports whether w, whose dependencies are being collected, has d. If not, d is to be added.
func (c *Coordinator) hasDep(w *write, d causal.Dep) bool {
	if len(w.deps) < manyDeps {
		return slices.Contains(w.deps, d)
	}
	if len(c.manyDeps) == 0 {
		for _, has := range w.deps {
			c.manyDeps[has] = struct{}{}
		}
	}
	_, has := c.manyDeps[d]
	c.manyDeps[d] = struct{}{}
	return has
}
