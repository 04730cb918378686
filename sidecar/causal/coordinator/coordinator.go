// Package coordinator is the state machine of a client coordinator (PROTOCOL COO): it accepts writes into a durable
// log, sends them to every ring at the ring's own pace, learns when they are complete, and publishes the stability
// vectors. The first coordinator of a data center is also its leader.
//
// The caller makes the records that Appends returns durable, in order, and reports that with Appended. It delivers
// messages with Step, calls Tick periodically, and sends what Take returns. Failure model: see package causal.
package coordinator

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/value"
	"github.com/causalstore/causalstore/topology"
)

// Config configures a Coordinator.
type Config struct {
	Topology *topology.Topology
	Self     topology.Node
	// Incarnation differs from that of every earlier start.
	Incarnation uint64
	// Leadership under which the coordinator serves: greater than that of every earlier start. Puts that name another
	// one are ignored; with the zero Leadership, those that name any.
	Leadership causal.Leadership
	// MaxBytes bounds what incomplete writes take, in bytes; beyond it puts are answered ErrBusy. A quarter of it
	// bounds those that are not durable yet, which take more, and half of that those of one identity; but what the two
	// largest puts take always has room.
	MaxBytes int
	// ClockBoundMs is how far ahead of the wall clock a timestamp may be, in milliseconds.
	ClockBoundMs int64
	// Window bounds the unacknowledged puts in flight to one shard, in bytes, and ShardWindow those of all coordinators
	// together, which share it equally. A single put may be larger.
	Window, ShardWindow int
	// MaxDeps bounds the dependencies that a write inherits from its predecessors. Beyond it, the write depends on its
	// direct predecessors by id.
	MaxDeps int
	// PublishEvery and IdleEvery are the periods at which the vectors are published while writes complete and while
	// none do. QuietEvery is the period once nobody has written anywhere for QuietAfter.
	PublishEvery, IdleEvery, QuietEvery, QuietAfter time.Duration
	// ResendAfter is how long beyond a round trip an unacknowledged put waits before it is sent again.
	ResendAfter time.Duration
	// ExclusionDelay is how long after it has learned of an exclusion a coordinator completes writes without the data
	// center: by then the others should have learned of it, since they ignore each other until both have.
	ExclusionDelay time.Duration
	// Home makes the coordinator the home of the keys of its data center (PROTOCOL HOM).
	Home bool
	// OwnerOf returns the identity behind a node, as for causal.Quota; nil: there are none.
	OwnerOf func(topology.Node) string
	// Types are the types of values that are known here; nil: registers only. MembersRead returns what the members of
	// the coordinator's group read, of which Lacking reads least; nil: it has no others.
	Types       *value.Types
	MembersRead func(causal.Now) causal.FormatReply
	// Signer signs and verifies what leaders pass on of other data centers; nil: there are no identities, and all of it
	// is believed.
	Signer Signer
	// Comparison switches off what goes beyond Karma. Only the laboratory sets it.
	Comparison Comparison
	Broken     causal.Mutations
}

// Comparison switches off improvements, to measure what they gain.
type Comparison struct {
	// DepsByID makes every write depend on its predecessors by id, which costs a round trip inside the ring for each
	// write of a burst.
	DepsByID bool
}

// DefaultWindow is the default of Config.Window.
const DefaultWindow = 8 << 20

// DefaultConfig returns the defaults for a coordinator of t.
func DefaultConfig(t *topology.Topology, self topology.Node) Config {
	return Config{
		Topology: t, Self: self, MaxBytes: 256 << 20, ClockBoundMs: 10_000, Window: DefaultWindow,
		ShardWindow: 128 << 20, MaxDeps: causal.MaxInheritedDeps,
		PublishEvery: 5 * time.Millisecond, IdleEvery: 50 * time.Millisecond, QuietEvery: defaultQuietEvery,
		QuietAfter: defaultQuietAfter, ResendAfter: defaultResendAfter,
		ExclusionDelay: defaultExclusionDelay,
	}
}

// Coordinator is the state machine of one client coordinator.
//
// Invariants: writes are in HLC order. Every write of this origin that is not in writes is complete. Whatever was
// published as SV is below every timestamp issued later, also across restarts, because SV never exceeds the durable
// ceiling or the HLC of a durable write.
type Coordinator struct {
	shared
	buffer
	laneTable
	activity
	direct     []causal.Dep            // see directDeps
	manyDeps   map[causal.Dep]struct{} // see hasDep
	unmet, met causal.DepList          // see sendPutAfter
	depRoom    causal.DepRoom          // of messages
	completed  completions
	log        logState
	home       home

	// Machines of their own, which the coordinator hosts.
	member     membership
	terms      termKeeper // of a leader
	past       pastInquiry
	recovery   *logRecovery // while a lost log is being given up
	adopter    adopter      // of a leader
	exclusion  exclusion
	answers    pastAnswers
	homeChange homeChange
	locks      homeLocks
	formats    formats

	stats       Stats
	refusesPuts bool    // the process is about to stop
	leader      *leader // if this is the data center's first coordinator
}

// Stats counts since the start.
type Stats struct {
	// ClockRefused counts puts whose floor or dependencies are too far ahead; RefusedFrom has sent the last one.
	ClockRefused uint64
	RefusedFrom  topology.Node
}

// Stats returns the counters.
func (c *Coordinator) Stats() Stats { return c.stats }

// New returns a coordinator that continues from what its log holds: replay are the log's records in order, and
// nextIndex is the index that the log will give to the next record that Appends returns. Those after it follow without
// gaps.
func New(cfg Config, now causal.Now, replay []Logged, nextIndex uint64) *Coordinator {
	c := &Coordinator{
		shared: newShared(cfg), manyDeps: map[causal.Dep]struct{}{},
		log: logState{nextIndex: nextIndex, durableIndex: nextIndex - 1},
	}
	c.buffer, c.laneTable = newBuffer(&c.shared), newLaneTable(&c.shared)
	c.home = newHome(&c.shared, &c.log, now)
	c.activity = activity{periods: &c.cfg, publishAt: now.Mono}
	for r := range c.cfg.Topology.Rings {
		c.makeLanes(topology.RingID(r))
	}
	if c.isLeader() {
		c.leader = newLeader(c.cfg, c.known, now)
	}
	c.host(now)
	c.restore(now, replay)
	c.formats.restore()
	c.homeChange.restore(now)
	c.applyExclusions(now)
	if cfg.Broken.Has(causal.ReuseOrigin) && c.leader != nil {
		c.log.durable.Term, c.log.pending.Term = 1, 1
	} else if !c.log.isEstablished() {
		c.past.begin()
	}
	c.stayActive(now)
	return c
}

// host makes the machines that the coordinator hosts.
func (c *Coordinator) host(now causal.Now) {
	s, log := &c.shared, &c.log
	c.homeChange = homeChange{shared: s, host: c, log: log, home: &c.home, answers: map[topology.Node]causal.HomeVote{}}
	c.home.change = &c.homeChange
	c.locks = newHomeLocks(s, c, log, &c.home)
	c.formats = formats{shared: s, host: c, log: log, lanes: &c.laneTable, said: map[topology.Node]saidFormat{}}
	c.home.formats = &c.formats
	c.member = membership{shared: s, host: c, log: log, intent: c.cfg.Incarnation}
	c.terms = termKeeper{shared: s, host: c, log: log}
	c.past = pastInquiry{shared: s}
	c.answers = pastAnswers{shared: s, log: log, terms: &c.terms, given: map[topology.Node]pastAnswer{}}
	c.exclusion = newExclusion(s, now, c, log, &c.laneTable, newForeignWrites(s, &c.laneTable, &c.buffer))
	c.adopter = newAdopter(s, now, &c.exclusion)
}

// Step handles one message.
func (c *Coordinator) Step(now causal.Now, m *causal.Message) {
	if !c.exclusion.admits(now, m) {
		return
	}
	if ring, switched := c.maps.Observe(m); switched {
		c.remap(now, ring)
	}
	switch m.Kind {
	case causal.KindPut:
		c.handlePut(now, m.From, m.Put())
	case causal.KindHomeCommit:
		c.handleCommit(now, m.From, m.HomeCommit())
	case causal.KindHomeRead:
		c.handleHomeRead(now, m.From, m.HomeRead())
	case causal.KindHomeWait:
		c.handleHomeWait(now, m.From, m.HomeWait())
	case causal.KindScan:
		c.handleScan(now, m.From, m.Scan())
	case causal.KindPutAck:
		c.handlePutAck(now, m.From, m.PutAck())
	case causal.KindVectors:
		c.handleVectors(now, m.From, m.Vectors())
	case causal.KindSignedVectors:
		c.handleSignedVectors(now, m.From, m.SignedVectors())
	case causal.KindLogGet:
		c.handleLogGet(m.From, m.LogGet())
	case causal.KindLaneHello:
		c.handleLaneHello(now, m)
	case causal.KindTerm:
		c.terms.takeTerm(now, m.From, m.Term())
	case causal.KindTermReply:
		c.handleTermReply(now, m.From, m.TermReply())
	case causal.KindTermQuery:
		c.member.takeQuery(now, m.From, m.TermQuery())
	case causal.KindPastQuery:
		c.answers.answer(m.From, m.PastQuery(), len(c.DataLost()) > 0)
	case causal.KindPastReply:
		c.handlePastReply(now, m)
	case causal.KindSalvaged, causal.KindTermAnswer:
		if c.recovery != nil {
			c.recovery.step(now, m)
		}
	case causal.KindHomeChange:
		c.homeChange.take(now, m.HomeChange())
	case causal.KindHomeVote:
		c.homeChange.takeVote(now, m.From, m.HomeVote())
	case causal.KindHomeVerdict:
		c.locks.takeVerdict(now, m.From, m.HomeVerdict())
	case causal.KindFormatQuery:
		c.formats.answer(now, m.From)
	case causal.KindFormatReply:
		c.formats.take(now, m.From, m.FormatReply())
	case causal.KindAdoptHeld, causal.KindAdoptState:
		c.adopter.step(now, m)
	case causal.KindDepStatus:
		c.exclusion.foreign.takeStatus(m.From, m.DepStatus())
	case causal.KindSubscribe, causal.KindPong:
		if c.leader != nil {
			c.leader.step(now, m)
		}
		if m.Kind == causal.KindSubscribe { // it may have missed the last change
			c.homeChange.tell(m.From)
		}
	}
}

// Tick does what is due: resends, publication of the vectors, and checkpoints in the log.
func (c *Coordinator) Tick(now causal.Now) {
	c.renewCeiling(now)
	c.home.publishRest()
	c.exclusion.tick(now)
	c.advanceMembership(now)
	c.homeChange.tick(now)
	c.locks.tick(now)
	c.home.waiters.tick(now)
	c.formats.tick(now)
	c.maps.Poll(now, c.cfg.Self, c.Send)
	c.releaseRecovered()
	c.publishHeld(now)
	c.noteLeases(now)
	if c.leader != nil {
		c.adopter.tick(now, c.log.isEstablished())
	}
	for _, l := range c.laneOrder {
		c.continuePass(now, l)
		c.resendLate(now, l)
		c.pump(now, l)
	}
	c.exclusion.foreign.tick(now)
	if c.leader != nil {
		c.leader.inUse = c.terms.inUse() // 0 until it is established
		defer c.tickLeader(now)
	}
	if now.Mono < c.nextPublication(now) {
		return
	}
	if progress := c.notePublished(now); c.leader != nil {
		c.leader.urgent = c.leader.urgent || progress
	}
	c.publish(now)
}

func (c *Coordinator) tickLeader(now causal.Now) {
	c.tellLeaderOfActivity(now)
	if c.log.isInUse() && c.log.isEstablished() {
		c.leader.heard.note(now, c.cfg.Self.Index)
	}
	c.leader.tick(now)
}

// Take appends the messages to be sent to dst and empties the outbox.
func (c *Coordinator) Take(dst []causal.Message) []causal.Message {
	c.completed.flush(func(to topology.Node, m causal.Complete) { c.Send(m.Message(c.cfg.Self, to)) })
	dst = c.Outbox.Take(dst)
	if c.leader != nil {
		dst = c.leader.Take(dst)
	}
	return dst
}

// handleVectors takes the vectors of a coordinator of this data center or of another leader, or, if this is not the
// leader, those that it sends. A leader believes others about their own data centers only.
func (c *Coordinator) handleVectors(now causal.Now, from topology.Node, v causal.Vectors) {
	limit := c.limit.At(now)
	if c.leader != nil && !c.cfg.Broken.Has(causal.VectorsOfOthers) && !v.AreOf(from.DC, c.cfg.Topology) {
		return
	}
	c.noteHeard(now, from, v)
	c.mergeVectors(v.Entries, limit)
	c.noteActivity(now, min(v.ActiveAt, limit))
	switch {
	case c.leader == nil:
	case from.DC == c.cfg.Self.DC:
		c.leader.urgent = true
	default:
		c.leader.relay.noteVectors(now, from.DC, v)
	}
}

// handleSignedVectors takes what the leader of a data center has signed, from that or from another leader.
func (c *Coordinator) handleSignedVectors(now causal.Now, from topology.Node, v causal.SignedVectors) {
	if limit := c.limit.At(now); c.leader != nil && c.leader.relay.take(now, from, v, limit) {
		c.mergeVectors(v.Entries, limit)
	}
}

func (c *Coordinator) mergeVectors(entries []causal.VectorEntry, limit causal.HLC) {
	if c.known.Merge(entries, limit) && c.leader != nil {
		c.leader.vectorsChanged = true
	}
}

// RefusePuts makes the coordinator refuse every further put, because the process is about to stop.
func (c *Coordinator) RefusePuts() { c.refusesPuts = true }

// Pending returns the number of incomplete writes and about what they take, in bytes.
func (c *Coordinator) Pending() (writes, bytes int) { return len(c.writes), c.bytes }

// Known returns the stability vectors as this coordinator has them. The leader of a data center has the newest of the
// data center.
func (c *Coordinator) Known() *causal.Stability { return c.known }

// ForEachRoundTrip calls f for each data center that the leader has probed, with the round trip in milliseconds, or a
// negative number if the data center does not answer. It does nothing on a coordinator that is not the leader.
func (c *Coordinator) ForEachRoundTrip(f func(dc topology.DC, ms float64)) {
	if c.leader != nil {
		c.leader.forEachRoundTrip(f)
	}
}

// Relayed returns how often signed vectors of a data center were taken from the leader of another one.
func (c *Coordinator) Relayed(of topology.DC) uint64 {
	if c.leader == nil {
		return 0
	}
	return c.leader.relay.taken[of]
}

// IsDrained reports whether every accepted put is complete and every part has been told so: the coordinator may then
// leave.
func (c *Coordinator) IsDrained() bool {
	if len(c.writes) > 0 || len(c.log.appends) > 0 || c.known.SV(c.origin) < c.newest {
		return false
	}
	return !slices.ContainsFunc(c.laneOrder, func(l *lane) bool { return len(l.stableMarks) > 0 })
}

// isHome reports whether the coordinator is the home of some keys.
func (c *Coordinator) isHome() bool { return c.home.enabled && c.homeChange.isHome() }

// tellSidecars sends a message to the sidecars that have subscribed.
func (c *Coordinator) tellSidecars(now causal.Now, m causal.Message) {
	if c.leader != nil {
		c.leader.sendToSubscribers(now, m)
	}
}

// oldestIncomplete returns the HLC of the oldest incomplete write; 0: there is none.
func (b *buffer) oldestIncomplete() causal.HLC {
	if len(b.writes) == 0 {
		return 0
	}
	return b.writes[0].rec.Version.HLC
}
