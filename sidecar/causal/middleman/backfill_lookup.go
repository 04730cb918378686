package middleman

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/keystate"
	"github.com/causalstore/causalstore/sidecar/causal/transfer"
	"github.com/causalstore/causalstore/topology"
)

// The requests of a backfill: listings of keys, here and at donors, and lookups of single keys.

// lookup is a key that is looked up in another ring.
type lookup struct {
	key   string
	node  topology.Node // the donor, once asked
	known causal.Version
	asked bool
	sent  int64 // monotonic
}

func (b *backfill) listOwnKeys(now causal.Now) {
	if r, _, ok := b.own.Ask(now); ok {
		b.tasks.request(StorageOp{Kind: StorageScan, Key: r.At.After, Limit: b.cfg.BackfillPage},
			&task{kind: taskScan, read: readRequest{from: b.cfg.Self}})
	}
}

func (b *backfill) takeOwnKeys(r StorageResult) {
	if r.Failed {
		b.own.AskAgain()
		return
	}
	b.takeNames(&b.own, pageOfNames(b.own.At(), r.Next, r.BadCursor), r.Keys, b.owns)
}

// pageOfNames is the page of a listing at a place.
func pageOfNames(at transfer.Place, next string, isLost bool) transfer.Page {
	return transfer.Page{Run: listingRun, At: at, Lost: isLost, Next: at.Follows(1, next), End: next == "", Last: true}
}

// takeNames takes a page of names into the queue, but for those of slots that are not to be copied. Names that were
// listed before stay there if the listing starts over.
func (b *backfill) takeNames(listing *transfer.Receiver, p transfer.Page, keys []string, has func(topology.Slot) bool) {
	switch listing.Take(&p) {
	case transfer.StartOver:
		listing.Cleared()
	case transfer.Write:
		for _, key := range keys {
			if has(topology.SlotOf(key)) && b.wants(key) {
				b.queue = append(b.queue, key)
			}
		}
		listing.Written()
	case transfer.Ignore:
	}
}

func (b *backfill) listDonor(now causal.Now) {
	d := b.donor
	r, again, ok := d.pages.Ask(now)
	if !ok {
		return
	}
	if !again {
		d.asked, d.id = r, b.newID()
	}
	b.Send(causal.Scan{ID: d.id, After: r.At.After, Limit: uint64(b.cfg.BackfillPage), Map: b.topo.Map(b.donors),
		Wanted: b.wantedOf(d.node)}.Message(b.cfg.Self, d.node))
}

func (b *backfill) handleReply(now causal.Now, msg *causal.Message) {
	if b.stage != backfillCopying {
		return
	}
	switch msg.Kind {
	case causal.KindGetReply:
		b.noteDonor(msg.From, msg.GetReply().Err)
		b.takeLookup(now, msg.From, msg.GetReply())
	case causal.KindScanReply:
		b.noteDonor(msg.From, msg.ScanReply().Err)
		b.noteLacks(msg.From, msg.ScanReply())
		b.takeListing(now, msg.From, msg.ScanReply())
	case causal.KindCountReply:
		if d := b.donor; d != nil && d.node == msg.From {
			b.noteCount(msg.CountReply().Keys)
		}
	}
}

// noteDonor notes whether a middleman of another ring has its data.
func (b *backfill) noteDonor(n topology.Node, err causal.ErrCode) {
	switch err {
	case causal.ErrDataLost:
		b.withoutData[n] = true
	case causal.OK:
		delete(b.withoutData, n)
		delete(b.accepted.silent, n)
	}
}

// nobodyHas reports whether some slot is to be copied whose middlemen in all other rings have lost their data.
func (b *backfill) nobodyHas() bool {
	t := b.configured
	if b.stage != backfillCopying || t == nil {
		return false
	}
	for s := range topology.Slot(topology.Slots) {
		if b.isWithNobody(t, s) {
			return true
		}
	}
	return false
}

// isWithNobody reports whether a slot is to be copied whose middlemen in all other rings have lost their data.
func (b *backfill) isWithNobody(t *topology.Topology, s topology.Slot) bool {
	lost := len(b.withoutData) > 0 && !b.copied[s] && b.owns(s)
	for r := 0; lost && r < len(t.Rings); r++ {
		lost = topology.RingID(r) == b.ring || b.withoutData[t.Owner(topology.RingID(r), s)]
	}
	return lost
}

// noteCount takes how many keys the donor has, of all its slots.
func (b *backfill) noteCount(keys uint64) {
	given, all := uint64(0), uint64(0)
	for s := range topology.Slots {
		if b.topo.Owner(b.donors, topology.Slot(s)) == b.donor.node {
			all++
			if b.isGivenBy(b.donor.node, topology.Slot(s)) {
				given++
			}
		}
	}
	b.expected = b.keys + uint64(len(b.queue)+len(b.lookups)) + keys/max(all, 1)*given +
		keys%max(all, 1)*given/max(all, 1)
}

// takeListing takes a page of the donor's keys. A listing holds under one slot map: keys may have been named by nobody
// if it changes in between.
func (b *backfill) takeListing(now causal.Now, from topology.Node, r causal.ScanReply) {
	d := b.donor
	if d == nil || !d.pages.IsWaiting() || from != d.node || r.ID != d.id {
		return
	}
	isLost := r.Err == causal.ErrNotFound // its storage cannot continue
	switch {
	case r.Err == causal.ErrMoved:
		b.noteMap(r.Map)
		return
	case isLost:
	case r.Err != causal.OK || !r.TellsHorizon || r.Map != b.topo.Map(b.donors):
		return // it is asked again; if it goes on so, another ring is asked
	default:
		b.heardAt = now.Mono
		b.horizon = max(b.horizon, min(r.Horizon, b.timeLimit(now)))
	}
	b.takeNames(&d.pages, pageOfNames(d.asked.At, r.Next, isLost), r.Keys, func(s topology.Slot) bool {
		return b.isGivenBy(d.node, s)
	})
}

// startLookups looks up the keys of the queue: first here, so that a value that is here already is not sent.
func (b *backfill) startLookups(causal.Now) {
	window := max(4, min(maxLookups, lookupBytes/int(b.bytes/max(b.keys, 1)+1)))
	for len(b.queue) > 0 && len(b.lookups) < window {
		key := b.queue[0]
		b.queue[0] = ""
		b.queue = b.queue[1:]
		id := b.newID()
		b.lookups[id] = &lookup{key: key}
		b.tasks.request(StorageOp{Kind: StorageRead, Key: key},
			&task{kind: taskLookUp, key: key, read: readRequest{id: id}})
	}
}

// askDonor follows the read of this storage.
func (b *backfill) askDonor(now causal.Now, t *task, r StorageResult) {
	l := b.lookups[t.read.id]
	switch {
	case r.Failed:
		delete(b.lookups, t.read.id)
		b.queue = append(b.queue, l.key)
		return
	case r.Found && !r.Foreign && keystate.Identifies(&r.Record):
		l.known = r.Record.Version
	}
	l.asked, l.node = true, b.topo.Owner(b.donors, topology.SlotOf(l.key))
	if b.isGivenUp(l) {
		b.finishLookup(t.read.id)
		return
	}
	b.sendLookup(now, t.read.id, l)
}

func (b *backfill) sendLookup(now causal.Now, id uint64, l *lookup) {
	l.sent = now.Mono
	b.Send(causal.Get{ID: id, Key: l.key, VersionOnly: l.known.Written(),
		Known: l.known}.Message(b.cfg.Self, l.node))
}

func (b *backfill) repeatLookups(now causal.Now) {
	if len(b.lookups) == 0 {
		return
	}
	for id := b.lastID - min(b.lastID, maxIDsBack); id <= b.lastID; id++ { // in order
		if l := b.lookups[id]; l != nil && l.asked && now.Mono-l.sent >= int64(donorRetry) {
			if b.isGivenUp(l) {
				b.finishLookup(id)
				continue
			}
			b.sendLookup(now, id, l)
		}
	}
}

// maxIDsBack bounds how far back requests are repeated in the order of their numbers.
const maxIDsBack = 1 << 20

// takeLookup takes the newest version of a donor.
func (b *backfill) takeLookup(now causal.Now, from topology.Node, r causal.GetReply) {
	l := b.lookups[r.ID]
	if l == nil || !l.asked || l.node != from {
		return
	}
	if r.Err == causal.ErrMoved {
		b.noteMap(r.Map)
	}
	if r.Err != causal.OK {
		return // it is asked again; if it goes on to refuse, another ring is asked
	}
	v := r.Record.Version
	if v.HLC > b.timeLimit(now) {
		return
	}
	b.heardAt = now.Mono
	l.asked = false
	t := &task{kind: taskMerge, key: l.key, copied: &copiedRecord{lookup: r.ID, record: r.Record}}
	switch {
	case !v.Written() && r.Record.Value.Tombstone:
		b.horizon = max(b.horizon, v.HLC)
		b.awaiting = append(b.awaiting, t)
		b.raiseHorizon()
	case v.Written() && (v != l.known || !keystate.Identifies(&r.Record)):
		b.bytes += uint64(r.Record.Value.Size())
		b.tasks.submit(t)
	default: // it is here, or something else than this deployment has written it
		b.finishLookup(r.ID)
	}
}

func (b *backfill) finishLookup(id uint64) {
	delete(b.lookups, id)
	b.keys++
}

// raiseHorizon makes durable what donors say of dropped tombstones, before anything is removed: a coordinator that has
// restarted may send an older put of the key afterwards. Then it submits what waits for that.
func (b *backfill) raiseHorizon() {
	ts := b.tombstones
	waiting := b.awaiting
	b.awaiting = nil
	for _, t := range waiting {
		if t.copied.record.Version.HLC <= ts.horizon {
			b.tasks.submit(t)
		} else {
			b.awaiting = append(b.awaiting, t)
		}
	}
	if b.horizon > ts.horizon && !ts.raisingHorizon {
		ts.raisingHorizon = true
		b.tasks.request(StorageOp{Kind: StorageHorizon, Horizon: b.horizon},
			&task{kind: taskRaiseHorizon, horizon: b.horizon})
	}
}

// copiedRecord is what a donor has of a key, and then what that makes of the key here.
type copiedRecord struct {
	lookup uint64
	record causal.Record
	effect transfer.Effect
}

// continueMerge takes the result of the task's last storage request. The task is alone in the queue of its key, as a
// write is.
func (b *backfill) continueMerge(t *task, r StorageResult) {
	c := t.copied
	switch {
	case r.Failed:
		b.tasks.retries = append(b.tasks.retries, t)
		return
	case t.stored:
		b.oldVersions.noteOtherWrite(t.key)
	case b.mergeCopied(c, &r):
		t.stored, t.found = true, r.Found
		b.requestMerge(t)
		return
	}
	b.finishLookup(c.lookup)
	b.tasks.release(t)
}

// mergeCopied joins what a donor has of a key with what storage has, and reports whether that changes the latter.
func (b *backfill) mergeCopied(c *copiedRecord, r *StorageResult) bool {
	has := &r.Record
	if !r.Found || r.Foreign {
		has = nil
	}
	c.record, c.effect = transfer.Arrive(b.cfg.Types, has, c.record)
	return c.effect != transfer.Keeps
}

// requestMerge issues the next storage request of a merge.
func (b *backfill) requestMerge(t *task) {
	op := StorageOp{Kind: StorageRead, Key: t.key}
	switch t.copied.effect {
	case transfer.Removes:
		op.Kind, op.KeyExists = StorageDelete, t.found
	case transfer.Writes:
		op.Kind, op.Record, op.KeyExists = StorageWrite, t.copied.record, t.found
	case transfer.Keeps:
	}
	b.tasks.request(op, t)
}
