package coordinator

import (
	"errors"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// A log that is lost with all of its copies can be given up by a person (PROTOCOL LOG). Then a log
// of a greater generation begins with what the shards hold of the origin: every shard refuses puts of earlier
// generations from the time on when it is asked, and answers with what it holds above SV. What no shard holds is lost.

// salvage is the collection of what the shards hold. It is not durable: until it has ended, a restart finds a log that
// is lost, as before.
type salvage struct {
	generation uint64
	shards     map[topology.Node]*salvagedShard
	terms      map[uint64]MembershipTerm // the leader's: of the other coordinators, by index
	found      map[causal.HLC]causal.Moved
	sv, seen   causal.HLC
	askTermsAt int64
}

// salvagedShard is how far a shard has been read.
type salvagedShard struct {
	after       string
	parts       map[uint64]bool // of the page after it, all of one edition
	edition     uint64
	done        bool
	askAt       int64
	incarnation uint64
}

const (
	// salvageInterval is when a page is asked for again that has not come.
	salvageInterval = 500 * time.Millisecond
	// maxSalvagedParts bounds the messages of one page.
	maxSalvagedParts = 1 << 16
)

// AcceptLoss says that a person gives up the lost log of this coordinator: it begins anew with what the shards hold.
func (c *Coordinator) AcceptLoss(now causal.Now) error {
	switch {
	case c.salvage != nil:
		return nil // it was said before
	case c.isRetired:
		return errors.New("this log was given up, and another one has taken its place: empty the data folder")
	case c.Membership() != LogLost:
		return errors.New("the log is not lost, so there is nothing to accept")
	}
	// The wall clock makes the generation greater than those of earlier attempts, of which a message may be late.
	c.salvage = &salvage{generation: uint64(now.WallMs), seen: max(c.known.MaxRV(), causal.HLCAt(now.WallMs)),
		terms: map[uint64]MembershipTerm{}}
	c.salvage.restart()
	return nil
}

// restart forgets what was collected.
func (s *salvage) restart() {
	s.shards, s.found = map[topology.Node]*salvagedShard{}, map[causal.HLC]causal.Moved{}
}

// Salvaging returns the shards and coordinators that have not answered yet, and how many writes were found; active is
// false if no lost log is being given up.
func (c *Coordinator) Salvaging() (active bool, waiting []topology.Node, found int) {
	s := c.salvage
	if s == nil {
		return false, nil, 0
	}
	for n := range c.middlemen() {
		if shard := s.shards[n]; shard == nil || !shard.done {
			waiting = append(waiting, n)
		}
	}
	return true, append(waiting, c.silentCoordinators()...), len(s.found)
}

// middlemen yields those of all data centers that run.
func (c *Coordinator) middlemen() iter.Seq[topology.Node] {
	return func(yield func(topology.Node) bool) {
		for dc := range c.cfg.Topology.DCs {
			for i := range c.cfg.Topology.DCs[dc].RunningMiddlemen() {
				if !yield(topology.Node{DC: topology.DC(dc), Part: topology.Middleman, Index: uint64(i)}) {
					return
				}
			}
		}
	}
}

// silentCoordinators are those whose terms the leader has to know and does not.
func (c *Coordinator) silentCoordinators() (silent []topology.Node) {
	if c.leader == nil {
		return nil
	}
	for i := 1; i < c.cfg.Topology.DCs[c.cfg.Self.DC].RunningCoordinators(); i++ {
		if _, told := c.salvage.terms[uint64(i)]; !told {
			silent = append(silent, topology.Node{DC: c.cfg.Self.DC, Part: topology.Coordinator, Index: uint64(i)})
		}
	}
	return silent
}

// advanceSalvage asks for what is missing, and begins the log once nothing is.
func (c *Coordinator) advanceSalvage(now causal.Now) {
	s := c.salvage
	if c.maps.Pending()|c.cfg.Topology.Resharding() != 0 {
		s.restart() // what moves meanwhile could be missed
		return
	}
	for n := range c.middlemen() {
		if s.shards[n] == nil {
			s.shards[n] = &salvagedShard{}
		}
		c.askForPage(now, n, s.shards[n])
	}
	if now.Mono >= s.askTermsAt {
		s.askTermsAt = now.Mono + int64(pastQueryInterval)
		for _, n := range c.silentCoordinators() {
			c.Send(causal.TermQuery{ID: c.cfg.Incarnation}.Message(c.cfg.Self, n))
		}
	}
	c.finishSalvage(now)
}

func (c *Coordinator) askForPage(now causal.Now, n topology.Node, shard *salvagedShard) {
	if shard.done || now.Mono < shard.askAt {
		return
	}
	shard.askAt = now.Mono + int64(salvageInterval)
	c.Send(causal.Salvage{ID: c.cfg.Incarnation, Generation: c.salvage.generation,
		After: shard.after}.Message(c.cfg.Self, n))
}

// handleSalvaged takes a part of a page.
func (c *Coordinator) handleSalvaged(now causal.Now, from topology.Node, r causal.Salvaged) {
	s := c.salvage
	if s == nil || r.ID != c.cfg.Incarnation || from.Part != topology.Middleman || s.shards[from] == nil {
		return
	}
	shard := s.shards[from]
	switch {
	case r.Refused && !c.isPlausible(now, r.Generation): // no attempt has got there yet
		return
	case r.Refused && r.Generation >= s.generation: // an earlier attempt has got there, or the shard has restarted
		s.generation = r.Generation + 1
		s.restart()
		return
	case r.Refused || r.Generation != s.generation || r.After != shard.after || shard.done || r.Part >= r.Parts ||
		r.Parts > maxSalvagedParts:
		return
	case r.Failed:
		*shard = salvagedShard{askAt: now.Mono + int64(salvageInterval)}
		return
	}
	if !c.isPlausibleIncarnation(now, r.Incarnation) {
		return
	}
	limit := c.limit.At(now)
	s.sv, s.seen, shard.incarnation = max(s.sv, min(r.SV, limit)), max(s.seen, min(r.Seen, limit)),
		max(shard.incarnation, r.Incarnation)
	for _, m := range r.Records {
		if v := m.Record.Version; v.Origin == c.origin && v.HLC <= limit {
			s.found[v.HLC] = m
			s.seen = max(s.seen, v.HLC)
		}
	}
	if shard.parts == nil || r.Edition != shard.edition {
		shard.parts, shard.edition = map[uint64]bool{}, r.Edition
	}
	if shard.parts[r.Part] = true; uint64(len(shard.parts)) < r.Parts {
		return
	}
	shard.after, shard.parts, shard.done, shard.askAt = r.Next, nil, r.Next == "", 0
	c.askForPage(now, from, shard)
}

// handleTermQuery tells a leader that has lost its log which term this coordinator is in. What the lost log has
// answered to earlier requests does not count any more: the leader does not know of it.
func (c *Coordinator) handleTermQuery(now causal.Now, from topology.Node, q causal.TermQuery) {
	if c.leader != nil || from != c.cfg.Topology.Leader(c.cfg.Self.DC) || c.log.pending.Term != c.log.durable.Term {
		return
	}
	a := causal.TermAnswer{ID: q.ID, Term: uint64(c.log.durable.Term), UpTo: c.clock.Peek(now)}
	if !c.isEstablished() {
		a.Term = 1 // this log is empty or lost: nobody may publish for it
	}
	c.member.intent++
	c.member.hasLeft, c.member.dueAt = false, 0
	c.Send(a.Message(c.cfg.Self, from))
}

// handleTermAnswer takes the term of another coordinator.
func (c *Coordinator) handleTermAnswer(now causal.Now, from topology.Node, a causal.TermAnswer) {
	if c.salvage == nil || a.ID != c.cfg.Incarnation || from.DC != c.cfg.Self.DC ||
		from.Index >= uint64(c.cfg.Topology.DCs[from.DC].RunningCoordinators()) {
		// only those that the topology has are asked: a term of another one would wait for somebody who never comes
		return
	}
	if !MembershipTerm(a.Term).isReachableFrom(0) {
		return
	}
	c.salvage.terms[from.Index] = MembershipTerm(a.Term)
	c.salvage.seen = max(c.salvage.seen, min(a.UpTo, c.limit.At(now)))
}

// hasLeftTerm is the term that a leader with a new log takes for one of a coordinator that the topology does not have:
// an even one that is not the first, since it may have been in use before.
const hasLeftTerm MembershipTerm = 2

// finishSalvage begins the log. The clock starts above everything that was seen, and above what the lost log may have
// issued without being heard: a timestamp is at most the bound ahead of the wall clock.
func (c *Coordinator) finishSalvage(now causal.Now) {
	s := c.salvage
	if _, waiting, _ := c.Salvaging(); len(waiting) > 0 {
		return
	}
	above := s.seen + causal.HLCAt(c.cfg.ClockBoundMs)
	if above > causal.HLCAt(now.WallMs) {
		return
	}
	c.clock.Raise(above)
	c.log.pending.LostUpTo = above
	c.known.Merge([]causal.VectorEntry{{Origin: c.origin, SV: s.sv}}, causal.NoLimit)
	p := &c.log.pending
	p.Generation, p.Term = s.generation, c.past.leaderTerm
	if c.leader != nil {
		p.Term = 1
		for i := range p.Terms {
			p.Terms[i] = hasLeftTerm
		}
		for i, term := range s.terms {
			p.Terms[i] = term
		}
	}
	for n, shard := range s.shards { // what was acknowledged before may have been lost since: the lost log knew
		p.note(causal.ShardMark{DC: n.DC, Index: n.Index, Incarnation: shard.incarnation, HasData: true,
			Lost: shard.incarnation})
	}
	c.forgetAll(now)
	c.adopt(s.found)
	c.past, c.salvage, c.givenUpBy = pastInquiry{}, nil, nil
	c.writeCheckpoint(now)
}

// adopt puts what was salvaged into the log. Each write follows the one before it, as if one session had written them
// all: which of them precede which is not known.
func (c *Coordinator) adopt(found map[causal.HLC]causal.Moved) {
	sv := c.known.SV(c.origin)
	for _, l := range c.laneOrder {
		l.base = max(l.base, sv)
	}
	var previous []causal.Dep
	for _, hlc := range slices.Sorted(maps.Keys(found)) {
		if hlc <= sv {
			continue
		}
		m := found[hlc]
		r := LoggedWrite{Key: m.Key, Record: m.Record, Salvaged: c.log.pending.Generation, OwnDeps: previous}
		w := c.addAdopted(&r, c.log.nextIndex)
		c.log.append(LogRecord{Write: r})
		previous = []causal.Dep{{Version: w.rec.Version, Slot: w.slot}}
	}
}

// addAdopted puts a salvaged write into the buffer.
func (c *Coordinator) addAdopted(r *LoggedWrite, index uint64) *write {
	w := &write{rec: r.Record, key: r.Key, slot: topology.SlotOf(r.Key), index: index, adopted: true}
	c.flattenDeps(w, r.OwnDeps)
	c.add(w)
	return w
}

// hasLostAboveSV reports whether SV has not passed all writes that may be lost.
func (c *Coordinator) hasLostAboveSV() bool { return c.log.pending.LostUpTo > c.known.SV(c.origin) }

// settledElsewhere returns the HLC at or below which every write of another origin is complete or lost. What precedes a
// write that is lost, or was salvaged, is not known; but it has a smaller timestamp.
func (c *Coordinator) settledElsewhere() causal.HLC {
	upTo := causal.NoLimit
	for o := topology.Origin(1); int(o) <= c.cfg.Topology.Origins(); o++ {
		if o != c.origin {
			upTo = min(upTo, c.known.Settled(o))
		}
	}
	return upTo
}

// isAdopting reports whether a salvaged write is incomplete. They are the oldest ones.
func (c *Coordinator) isAdopting() bool { return len(c.writes) > 0 && c.writes[0].adopted }

// Adopting returns the salvaged writes that are incomplete.
func (c *Coordinator) Adopting() (vs []causal.Version) {
	for _, w := range c.writes {
		if w.adopted {
			vs = append(vs, w.rec.Version)
		}
	}
	return vs
}

// Recovering returns how many salvaged writes are incomplete, and the coordinators that have to complete older writes
// before the next of them is sent.
func (c *Coordinator) Recovering() (waiting []topology.Node, left int) {
	need := causal.HLC(0) // every write below it is to be settled
	for i := len(c.writes) - 1; i >= 0; i-- {
		if w := c.writes[i]; w.adopted {
			left++
			if !w.released {
				need = w.rec.Version.HLC
			}
		}
	}
	t := c.cfg.Topology
	for o := topology.Origin(1); int(o) <= t.Origins(); o++ {
		if c.known.Settled(o)+1 >= need {
			continue
		}
		n := t.CoordinatorOf(o)
		if int(n.Index) >= t.DCs[n.DC].RunningCoordinators() {
			n = t.Leader(n.DC)
		}
		if n != c.cfg.Self && !slices.Contains(waiting, n) {
			waiting = append(waiting, n)
		}
	}
	return waiting, left
}

// releaseAdopted sends salvaged writes once everything of other origins that may precede them is complete: what
// precedes them is not known, but it has smaller timestamps. What has the same one does not count: two logs that are
// given up at once would wait for each other. After a restart the log may hold later writes behind them: a lane carries
// all of them in order.
func (c *Coordinator) releaseAdopted() {
	if !c.isAdopting() || !c.isEstablished() {
		return
	}
	upTo := c.settledElsewhere()
	if c.cfg.Broken.Has(causal.AdoptUnordered) {
		upTo = causal.NoLimit
	}
	for _, w := range c.writes {
		if !w.durable || w.adopted && w.rec.Version.HLC-1 > upTo {
			return
		}
		if !w.released {
			c.release(w)
		}
	}
}

// IsRetired reports whether this log was given up, and is there after all: another one has its origin.
func (c *Coordinator) IsRetired() bool { return c.isRetired }

// isPlausible reports whether a log of a generation can have begun by now, by what the clocks of others may be ahead.
func (c *Coordinator) isPlausible(now causal.Now, generation uint64) bool {
	return generation <= uint64(c.limit.At(now).WallMs())
}

// givenUpTold is how many shards must say that this log was given up, unless there are fewer: the word of one shard
// takes no log out of use. All shards refuse its puts if it is true, those of every ring, so a second one is heard of
// soon.
const givenUpTold = 2

// noteGivenUp takes the word of a shard that this log was given up.
func (c *Coordinator) noteGivenUp(now causal.Now, by topology.Node, below uint64) {
	if !c.isPlausible(now, below) || slices.Contains(c.givenUpBy, by) {
		return
	}
	if c.givenUpBy = append(c.givenUpBy, by); len(c.givenUpBy) >= min(givenUpTold, len(c.lanes)) {
		c.retire()
	}
}

// retire ends the use of a log that was given up.
func (c *Coordinator) retire() { c.isRetired, c.past.lostTo = true, c.givenUpBy }
