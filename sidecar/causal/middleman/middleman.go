// Package middleman implements the middleman: the state machine in front of the storage of one shard. It decides when a
// put may be written and acknowledged, what a read returns, and which copies caches may hold (PROTOCOL MM, CAC).
package middleman

import (
	"math"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Middleman is the state machine of one shard.
//
// Invariants: a write is processed only after all its dependencies are processed in this ring; it is acknowledged only
// when no cache of the ring holds a value older than it or, recursively, than one of its dependencies; each task of a
// key's queue is atomic for that key.
type Middleman struct {
	shared

	writes      writes
	lanes       lanes
	staged      stagedPuts
	acks        ackBatches
	copies      copies
	streams     streams
	oldVersions oldVersions
	tombstones  tombstones
	expiring    expiring
	scans       causal.Quota // of scans and counts that are with storage, in bytes
	scanPlaces  causal.ScanPlaces

	// Machines of their own, which the middleman hosts.
	deps      dependencies
	frontiers frontiers
	probes    depProbes
	history   ownHistory
	fences    fences
	recovery  logRecovery
	exclusion exclusion
	silence   silence
	adoption  adoption
	backfill  *backfill // nil unless the storage has lost its data and other rings have it

	purgedAt  int64
	mutations mutationState
}

// Stats counts events since the start.
type Stats struct {
	Gets, Fills, Puts, Superseded, InFlightReads, Invalidations, DepWaits, OlderReads, CutsTooOld, Foreign uint64
	// StreamsEnded counts the streams to caches that were ended because there were too many copies to remember.
	StreamsEnded uint64
	// UnknownTypes counts puts, and records in storage, of types that are not known here.
	UnknownTypes uint64
	// Expired counts values that were dropped since they had expired.
	Expired uint64
	// Crowded counts puts that were not taken, because their origin has too much staged here.
	Crowded uint64
	// RefusedReads counts the reads that were refused because there was no room for their replies.
	RefusedReads uint64
	// ClockRefused counts puts whose timestamp is too far ahead of the clock here; LastRefused is the version of the
	// last one, and RefusedFrom who sent it.
	ClockRefused uint64
	LastRefused  causal.Version
	RefusedFrom  topology.Node
}

// New returns a middleman that has just started.
func New(cfg Config, now causal.Now) *Middleman {
	t := cfg.Topology
	m := &Middleman{
		shared: newShared(cfg),
		writes: newWrites(),
		scans:  causal.Quota{Total: maxScans, Each: maxScansOfOne, OwnerOf: cfg.OwnerOf}, lanes: newLanes(t, cfg.Fresh),
		staged: newStagedPuts(cfg.OwnerOf), acks: newAckBatches(),
		copies:  newCopies(len(t.DCs), cfg.MaxCopies),
		streams: newStreams(t), oldVersions: newOldVersions(cfg.Types, cfg.MaxHistoryBytes),
		tombstones: tombstones{horizon: cfg.Horizon}, expiring: newExpiring(),
		scanPlaces: causal.ScanPlaces{Start: cfg.Incarnation * causal.ScanPlaceSpread},
	}
	m.host(now)
	if !cfg.Fresh && !cfg.Broken.Has(causal.RestartForgetsCaches) {
		m.streams.assumeUnknownCopies(now.Mono + int64(cfg.Lease))
	}
	if cfg.Inherited && !cfg.Broken.Has(causal.JoinFresh) {
		m.copies.foreignLeasesUntil = now.Mono + int64(cfg.Lease)
	}
	if cfg.DataLost && (len(t.Rings) > 1 || cfg.DataKept) {
		m.backfill = newBackfill(&m.shared, &m.lanes, &m.tombstones, &m.oldVersions, &m.fences)
	}
	m.tasks.startWrite = m.startWrite
	m.tasks.losesMerged = cfg.Broken.Has(causal.DeltaLost)
	m.mutations.init(m)
	m.exclusion.set(cfg.Exclusions)
	return m
}

// host makes the machines that the middleman hosts.
func (m *Middleman) host(now causal.Now) {
	s := &m.shared
	m.history = newOwnHistory(s, &m.lanes, now)
	m.fences = fences{shared: s, wanted: s.cfg.Fences}
	m.recovery = newLogRecovery(s, &m.fences, &m.writes, &m.tombstones)
	m.exclusion = exclusion{shared: s}
	m.silence = newSilence(s, now)
	m.deps = newDependencies(s, m, &m.writes, &m.exclusion, &m.mutations)
	m.frontiers = newFrontiers(s, m, &m.lanes, &m.writes)
	m.probes = depProbes{shared: s, host: m, staged: &m.staged, deps: &m.deps, frontiers: &m.frontiers,
		lanes: &m.lanes, writes: &m.writes}
	m.adoption = adoption{shared: s, host: m, silence: &m.silence, fences: &m.fences, lanes: &m.lanes,
		deps: &m.deps, frontiers: &m.frontiers, writes: &m.writes, staged: &m.staged, retained: newRetainedPuts()}
}

// Step handles one message.
func (m *Middleman) Step(now causal.Now, msg *causal.Message) {
	switch msg.Kind {
	case causal.KindGet:
		r := readOfGet(msg.From, msg.Get())
		r.since = m.staged.lastProbe
		m.read(now, r)
	case causal.KindFill:
		m.read(now, readOfFill(msg.From, msg.Fill()))
	case causal.KindPutAfter:
		m.putAfter(now, msg.From, msg.PutAfter())
	case causal.KindDepCheck:
		m.deps.answer(now, msg.From, msg.DepCheck())
	case causal.KindDepStatus:
		m.deps.takeStatus(now, msg.From, msg.DepStatus())
	case causal.KindDepProbe:
		m.probes.answer(now, msg.From, msg.DepProbe())
	case causal.KindDepMissing:
		m.probes.noteMissing(now, msg.From, msg.DepMissing())
	case causal.KindStable:
		m.markComplete(now, msg.StableMarks())
	case causal.KindLaneSync:
		m.syncLane(now, msg.From, msg.LaneSync())
	case causal.KindFrontier:
		m.frontiers.merge(now, msg.From, msg.Frontier())
	case causal.KindVectors:
		m.mergeVectors(now, msg.Vectors().Entries)
	case causal.KindStreamOpen:
		m.openStream(now, msg.From, msg.StreamOpen())
	case causal.KindLease:
		m.renewLease(now, msg.From, msg.LeaseRenewal())
	case causal.KindInvalidateAck:
		a := msg.InvalidateAck()
		if s := m.currentStream(now, msg.From, a.Epoch); s != nil {
			m.confirmStream(now, s, a.AckedSeq)
		}
	case causal.KindCount:
		m.count(msg.From, msg.Count())
	case causal.KindScan:
		m.scan(msg.From, msg.Scan())
	case causal.KindSalvage:
		if m.IsChecked() || m.cfg.DataLost { // else it is asked again
			m.recovery.answer(now, msg.From, msg.Salvage())
		}
	case causal.KindAdoptQuery, causal.KindAdoptPut, causal.KindAdoptStep:
		if m.backfill == nil { // without an answer it is sent again
			m.adoption.step(now, msg)
		}
	case causal.KindGetReply, causal.KindScanReply, causal.KindCountReply:
		if m.backfill != nil {
			m.backfill.handleReply(now, msg)
		}
	case causal.KindFormatQuery:
		m.Send(m.cfg.formats(now).Message(m.cfg.Self, msg.From))
	case causal.KindPing:
		m.Send(causal.Pong{ID: msg.Ping().ID, Map: m.slotMap()}.Message(m.cfg.Self, msg.From))
	}
}

// Tick does everything that is due.
func (m *Middleman) Tick(now causal.Now) {
	m.requestStreams()
	m.expireLeases(now)
	m.releaseForeignLeaseWaits(now)
	m.deps.tick(now)
	m.probes.tick(now)
	m.sendLaneHellos(now)
	m.frontiers.tick(now)
	m.history.check(now)
	m.history.tick(now)
	m.retryWrites()
	if m.backfill != nil {
		m.backfill.tick(now)
	}
	m.mutations.registerLateCopies(&m.copies)
	if now.Mono-m.purgedAt < int64(purgeInterval) {
		return
	}
	m.purgedAt = now.Mono
	m.writes.purge(m.known, m.ring)
	m.adoption.retained.purge(m.known)
	m.expireQuestions(now)
	m.deps.expireWatches(now)
	m.copies.older.forgetUpTo(m.known.MinRV(m.ring))
	keepFrom := m.known.MinSV() - min(m.known.MinSV(), causal.HLCAt(m.cfg.KeepMs))
	m.oldVersions.prune(max(keepFrom, m.lateKeepFrom()))
	if m.backfill == nil { // an older version of the key may still be copied
		m.dropTombstones(keepFrom)
		m.dropExpired(now, keepFrom)
	}
}

// lateKeepFrom returns the HLC below which no versions are kept for cuts, even if a data center is late: the cuts go on
// without it.
func (m *Middleman) lateKeepFrom() causal.HLC {
	at := m.known.CutWithout(causal.LeftOutAtMost(len(m.cfg.Topology.DCs))).At
	return at - min(at, causal.HLCAt(m.cfg.KeepMs+lateKeepMs))
}

// LinkUp says that a node can be reached again, perhaps at another member of its group that has to be told everything
// anew: what was asked of it is asked again, and what it was told is repeated.
func (m *Middleman) LinkUp(now causal.Now, n topology.Node) {
	switch n.Part {
	case topology.Coordinator:
		m.lanes.nextHelloAt = now.Mono // if its lane is not synchronized
		m.history.reportAgain(now, n)
		m.acks.addAgain(n)
	case topology.Middleman:
		m.deps.askAgain(now, n)
		m.frontiers.changed = m.frontiers.changed || slices.Contains(m.frontiers.peers, n)
	}
}

// NextTick returns when Tick has something to do next, if no input comes before.
func (m *Middleman) NextTick(now causal.Now) int64 {
	if m.isBusy() || !m.history.checked {
		return now.Mono
	}
	next := min(m.lanes.nextHello(), m.history.nextTick())
	if m.lanes.hasReceived() {
		next = min(next, m.frontiers.nextTick())
	}
	if m.writes.processed+m.writes.complete+m.adoption.retained.bytes+len(m.oldVersions.order)+len(m.tombstones.stored)+
		len(m.copies.older.byHash)+len(m.deps.watchers) > 0 {
		next = min(next, m.purgedAt+int64(purgeInterval))
	}
	if firstMs := m.expiring.first(); firstMs != math.MaxInt64 {
		next = min(next, max(m.purgedAt+int64(purgeInterval), now.Mono+(firstMs-now.WallMs)*int64(time.Millisecond)))
	}
	return next
}

// isBusy reports whether something is in progress that has to be repeated, or expires, if nothing is heard of it.
func (m *Middleman) isBusy() bool {
	return m.writes.pending+len(m.deps.unresolved)+len(m.staged.questioned)+len(m.tasks.retries)+
		len(m.copies.awaitForeignLeases) > 0 ||
		!m.streams.requested || m.cfg.Broken.Any() || m.backfill != nil ||
		slices.ContainsFunc(m.streams.ordered, func(s *stream) bool { return len(s.pending) > 0 })
}

// purgeInterval is how often state that is not needed any more is removed.
const purgeInterval = 100 * time.Millisecond

// lateKeepMs is for how much longer than KeepMs old versions are kept for a cut that waits for a data center, in
// milliseconds.
const lateKeepMs = 2000

// SetCoordinators takes the coordinators from another topology; slots, shards and caches stay those of the configured
// one.
func (m *Middleman) SetCoordinators(t *topology.Topology) { m.lanes.coordinators = t }

// Take appends the messages to send to dst and empties the outbox. Acknowledgements are sent as one message per
// coordinator. They wait until the storage is known to be no older copy.
func (m *Middleman) Take(dst []causal.Message) []causal.Message {
	if !m.history.checked {
		return m.Outbox.Take(dst)
	}
	m.acks.flush(func(coordinator topology.Node, versions []causal.Version) {
		m.Send(causal.PutAck{Versions: versions, Incarnation: m.cfg.Incarnation,
			Changes: m.history.changesFor(m.cfg.Topology.OriginOf(coordinator))}.Message(m.cfg.Self, coordinator))
	})
	return m.Outbox.Take(dst)
}

// Ops appends the storage requests to dst and empties the list.
func (m *Middleman) Ops(dst []StorageOp) []StorageOp { return m.tasks.take(dst) }

// Stats returns the counters.
func (m *Middleman) Stats() Stats { return m.stats }

// Depth returns what is kept in memory: unacknowledged puts, processed writes above RV, bytes of cached-at, bytes of
// old versions.
func (m *Middleman) Depth() (puts, processed, cachedAtBytes, historyBytes int) {
	return m.writes.pending, m.writes.processed, m.copies.cachedAt.bytes(), m.oldVersions.bytes
}

// HasReceivedFrom reports whether a put of an origin has arrived since the start.
func (m *Middleman) HasReceivedFrom(o topology.Origin) bool {
	l := m.lanes.of(o)
	return l != nil && l.received > 0 || slices.Contains(m.adoption.origins, o)
}

// Known returns the vectors as this middleman knows them.
func (m *Middleman) Known() *causal.Stability { return m.known }
