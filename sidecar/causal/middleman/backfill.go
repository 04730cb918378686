package middleman

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/transfer"
	"github.com/causalstore/causalstore/topology"
)

// backfill gets back from other rings what a storage has lost (PROTOCOL BKF), while the middleman takes puts and
// answers no read:
//
//  1. Asking. Every coordinator forgets what this shard had acknowledged of incomplete writes, sends these again, and
//     says up to where that goes. From then on no write completes without this incarnation. So what was complete before
//     is in all other rings.
//  2. Copying. Every key is looked up in another ring, and its newest version is written here, complete or not.
//  3. Catching up. The coordinators are asked again. What they had under way when everything was copied has to be
//     processed and clean here. So what was copied and was not complete has met its dependencies, too.
//
// Then the middleman is replaced by one that serves, as after a restart of a storage that has lost nothing.
//
// If it is known which keys were lost, only these are looked up.
//
// Invariant: a key that was looked up holds the newest version that was complete when all coordinators had answered, or
// a greater one, or it holds none and that version is a deletion at or below the horizon.
type backfill struct {
	*shared
	lanes       *lanes
	tombstones  *tombstones
	oldVersions *oldVersions
	fences      *fences

	stage     backfillStage
	round     uint64 // of the LaneHellos that count
	surpassed uint64 // an incarnation of this shard, above this one, that a coordinator knows
	// suspects are keys of puts that may have been complete, and overwritten, before all coordinators had answered: one
	// that restarts sends such puts again; and those of mayHaveLost. They are looked up once more.
	suspects map[string]struct{}
	// admitted are the origins whose coordinators have answered, with the fences of their logs.
	admitted map[topology.Origin]*claim

	configured, topo *topology.Topology // the last one, and the one whose slot maps are those of the donors
	donors           topology.RingID    // the ring of the donors; NoRing: there is none
	copied           [topology.Slots]bool
	donor            *donor // that is being listed
	// own is the listing of this storage: after a restart it holds what was copied before, and what was written
	// meanwhile.
	own         transfer.Receiver
	withoutData map[topology.Node]bool // donors that have last said that they have lost their data, too
	accepted    acceptedLoss

	queue    []string // keys to look up
	lookups  map[uint64]*lookup
	awaiting []*task // merges that wait for the horizon
	horizon  causal.HLC
	lastID   uint64
	heardAt  int64 // monotonic: when a donor has last answered, or had nothing to answer

	keys, bytes, expected uint64
}

type backfillStage uint8

const (
	backfillAsking backfillStage = iota
	backfillCopying
	backfillCatchingUp
	backfillDone
)

var backfillStages = [...]string{"asking", BackfillCopies, "catching up", "done"}

// BackfillCopies is the stage in which a backfill copies.
const BackfillCopies = "copying"

const (
	// maxLookups bounds the keys that are looked up at once, and lookupBytes about the bytes of their values.
	maxLookups  = 256
	lookupBytes = 4 << 20
	// donorRetry is when an unanswered request to a donor is sent again, and donorTimeout when another ring is asked.
	donorRetry   = time.Second
	donorTimeout = 5 * time.Second
)

// donor is a middleman of another ring whose keys are listed.
type donor struct {
	node  topology.Node
	pages transfer.Receiver
	asked transfer.Request // last
	id    uint64           // of the Scan that asks for that
}

func newBackfill(s *shared, ls *lanes, ts *tombstones, vs *oldVersions, f *fences) *backfill {
	return &backfill{shared: s, lanes: ls, tombstones: ts, oldVersions: vs, fences: f,
		round: 1, donors: topology.NoRing,
		suspects: map[string]struct{}{}, lookups: map[uint64]*lookup{}, admitted: map[topology.Origin]*claim{},
		withoutData: map[topology.Node]bool{},
		own:         transfer.ContinueReceiver(transfer.Config{Run: listingRun}, 0, transfer.First()),
		accepted:    newAcceptedLoss()}
}

// listingRun is the number of the run that lists keys: each listing has one.
const listingRun = 1

// HasRefilled reports whether a storage that had lost its data has them again: a middleman may serve on it that starts
// without Config.DataLost.
func (m *Middleman) HasRefilled() bool { return m.backfill != nil && m.backfill.stage == backfillDone }

// Surpassed returns an incarnation of this shard that a coordinator has heard of and that is above this one; 0: there
// is none. After a loss a shard may not have known of it. The middleman has to be replaced by one with a greater
// incarnation.
func (m *Middleman) Surpassed() uint64 {
	if m.backfill == nil {
		return 0
	}
	return m.backfill.surpassed
}

// helloRound returns the round of the LaneHellos whose answers count.
func (m *Middleman) helloRound() uint64 {
	if m.backfill == nil {
		return 0
	}
	return m.backfill.round
}

func (b *backfill) tick(now causal.Now) {
	b.raiseHorizon()
	switch b.stage {
	case backfillAsking:
		if b.lanes.allSynced || b.cfg.Broken.Has(causal.BackfillBeforeAnswers) {
			b.stage, b.heardAt = backfillCopying, now.Mono
			if b.cfg.DataKept { // nobody else has the data
				b.catchUp(now)
			}
		}
	case backfillCopying:
		if b.cfg.AcceptLoss {
			b.giveUp()
		}
		b.chooseRing(now)
		b.copy(now)
	case backfillCatchingUp:
		if b.lanes.allSynced && b.lanes.areClean() {
			b.stage = backfillDone
		}
	}
}

// notePut records a put that may be older than what the donors have dropped.
func (b *backfill) notePut(key string, l *lane, hlc causal.HLC) {
	if b.stage <= backfillCopying && (!l.synced || hlc <= l.syncTarget) && b.wants(key) {
		b.suspects[key] = struct{}{}
	}
}

// mayHaveLost reports whether a key that storage does not have may be lost, and not deleted: it was not copied yet.
// Then the horizon says nothing about it, and a value that merges is written without. Else: the value remembers that
// everything up to the horizon was overwritten, also what the donors have of it. They are asked again when all is
// copied: if they have dropped a tombstone of the key, they are who knows.
func (b *backfill) mayHaveLost(t *task, r *StorageResult) bool {
	if r.Found || !t.record().Value.Merges() || b.cfg.DataKept || b.stage > backfillCopying ||
		b.copied[topology.SlotOf(t.key)] || !b.wants(t.key) || b.cfg.Broken.Has(causal.BackfillLostDeleted) {
		return false
	}
	b.suspects[t.key] = struct{}{}
	return true
}

// chooseRing chooses the ring of the donors: another one if it is silent or refuses.
func (b *backfill) chooseRing(now causal.Now) {
	t := b.lanes.coordinators
	if len(b.lookups) == 0 && (b.donor == nil || !b.donor.pages.IsWaiting()) {
		b.heardAt = now.Mono
	}
	silent := now.Mono-b.heardAt >= int64(donorTimeout)
	if silent && b.cfg.AcceptLoss {
		b.noteSilence(now)
	}
	next := b.donors
	if silent || next == topology.NoRing {
		b.heardAt, next = now.Mono, b.ringAfter(t)
	}
	if silent && next == b.donors && t == b.configured { // perhaps it asks who has left the ring
		b.useMap(b.otherMaps(), false)
	}
	if t != b.configured || next != b.donors {
		isSame := next == b.donors && t.Map(next) == b.topo.Map(next)
		b.configured, b.donors = t, next
		b.useMap(t, isSame)
	}
}

// ringAfter returns the next ring that can give data.
func (b *backfill) ringAfter(t *topology.Topology) topology.RingID {
	first := b.ring
	if b.donors != topology.NoRing {
		first = b.donors
	}
	next := topology.RingID((int(first) + 1) % len(t.Rings))
	if next == b.ring {
		next = topology.RingID((int(next) + 1) % len(t.Rings))
	}
	return next
}

// noteMap takes the slot map by which a donor has refused. While its ring is resharded, each of its middlemen uses the
// old or the new one.
func (b *backfill) noteMap(id topology.MapID) {
	other := b.otherMaps()
	if id != b.topo.Map(b.donors) && id == other.Map(b.donors) {
		b.useMap(other, false)
	}
}

// otherMaps returns the topology with the old slot map of the donors' ring if its new one is used, and the other way
// round.
func (b *backfill) otherMaps() *topology.Topology {
	if b.topo == b.configured {
		return b.configured.WithOldMaps(topology.RingsOf(b.donors))
	}
	return b.configured
}

// useMap makes the slot maps of t those of the donors. If these are others than before, listings begin again: a key may
// move from a donor that was not listed yet to one that was.
func (b *backfill) useMap(t *topology.Topology, isSame bool) {
	b.topo = t
	if isSame {
		return
	}
	if !b.cfg.Broken.Has(causal.DonorMoves) {
		b.donor = nil
	}
	for id, l := range b.lookups {
		if l.asked {
			delete(b.lookups, id)
			b.queue = append(b.queue, l.key)
		}
	}
	slices.Sort(b.queue)
}

// copy goes on with what is next: own keys, those of each donor, then those of suspect puts.
func (b *backfill) copy(now causal.Now) {
	b.repeatLookups(now)
	b.startLookups(now)
	idle := len(b.queue)+len(b.lookups) == 0
	switch {
	case len(b.queue) >= b.cfg.BackfillPage:
	case !b.own.IsDone():
		b.listOwnKeys(now)
	case b.donor != nil && !b.donor.pages.IsDone():
		b.listDonor(now)
	case !idle || b.tombstones.horizon < b.horizon:
	case b.donor != nil:
		b.finishDonor()
	case b.nextDonor(now):
	case len(b.suspects) > 0:
		for key := range b.suspects {
			b.queue = append(b.queue, key)
		}
		slices.Sort(b.queue)
		clear(b.suspects)
	default:
		b.catchUp(now)
	}
}

// catchUp asks the coordinators again: what was copied and is not complete is at or below what they answer now.
func (b *backfill) catchUp(now causal.Now) {
	b.stage, b.round = backfillCatchingUp, b.round+1
	if b.cfg.Broken.Has(causal.BackfillEarly) {
		b.stage = backfillDone
	}
	b.lanes.desynchronize(now)
}

// nextDonor begins with the next middleman that has slots which were not copied. It returns false if there is none.
func (b *backfill) nextDonor(now causal.Now) bool {
	for s := range topology.Slots {
		if !b.copied[s] && b.owns(topology.Slot(s)) {
			cfg := transfer.Config{Run: listingRun, Repeat: donorRetry, Broken: b.cfg.Broken}
			b.donor = &donor{node: b.topo.Owner(b.donors, topology.Slot(s)),
				pages: transfer.ContinueReceiver(cfg, 0, transfer.First())}
			if b.cfg.Missing == nil {
				b.Send(causal.Count{ID: b.newID()}.Message(b.cfg.Self, b.donor.node))
			}
			return true
		}
	}
	return false
}

// isGivenBy reports whether a slot is to be copied from a donor.
func (b *backfill) isGivenBy(d topology.Node, s topology.Slot) bool {
	return !b.copied[s] && b.owns(s) && b.topo.Owner(b.donors, s) == d
}

// finishDonor notes that every key of the donor was looked up.
func (b *backfill) finishDonor() {
	for s := range topology.Slots {
		b.copied[s] = b.copied[s] || b.isGivenBy(b.donor.node, topology.Slot(s))
	}
	b.donor = nil
}

func (b *backfill) newID() uint64 {
	b.lastID++
	return b.lastID
}

// BackfillProgress is how far a backfill has come.
type BackfillProgress struct {
	// Stage is "asking", "copying", "catching up" or "done".
	Stage string
	// Keys were looked up, of about Expected, and Bytes were copied.
	Keys, Expected, Bytes uint64
	// Donors is the ring that gives the data now; NoRing: none can.
	Donors topology.RingID
	// Kept says that nothing is copied: the shard goes on with what it has (Config.DataKept).
	Kept bool
	// NobodyHas says that in all other rings the shards of some slot have lost their data, too.
	NobodyHas bool
	// Waiting are coordinators whose answer is missing, or whose writes are not all here again.
	Waiting []topology.Node
}

// Backfill returns the progress of the backfill, or false if there is none.
func (m *Middleman) Backfill() (p BackfillProgress, ok bool) {
	b := m.backfill
	if b == nil {
		return p, false
	}
	p = BackfillProgress{Stage: backfillStages[b.stage], Keys: b.keys, Expected: max(b.expected, b.keys),
		Bytes: b.bytes, Donors: b.donors, Kept: m.cfg.DataKept, NobodyHas: b.nobodyHas()}
	if b.stage == backfillAsking || b.stage == backfillCatchingUp {
		p.Waiting = m.lanes.unclean(b.stage == backfillCatchingUp)
	}
	return p, true
}
