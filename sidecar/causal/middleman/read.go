package middleman

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/keystate"
	"github.com/causalstore/causalstore/topology"
)

// Reads of sidecars and fills of caches (PROTOCOL MM-11; PROTOCOL SNAP, MGET for reads at a cut).

// readRequest is a Get of a sidecar or a Fill of a cache.
type readRequest struct {
	from      topology.Node
	id        uint64
	key       string
	cut, seen causal.HLC
	snapshot  bool
	at, base  causal.HLC // with snapshot
	fill      bool
	ahead     bool   // with fill: it may be kept though it is in-flight
	epoch     uint64 // with fill: of the stream
	// versionOnly asks for the version alone if it is still known; never with fill.
	versionOnly bool
	known       causal.Version
	since       uint64 // the last probe for dependencies that was sent when it arrived
}

func readOfGet(from topology.Node, g causal.Get) readRequest {
	return readRequest{from: from, id: g.ID, key: g.Key, cut: g.Cut, seen: g.Seen, snapshot: g.Snapshot, at: g.At,
		base: g.Base, versionOnly: g.VersionOnly, known: g.Known}
}

func readOfFill(from topology.Node, f causal.Fill) readRequest {
	r := readRequest{from: from, id: f.ID, key: f.Key, cut: f.Cut, seen: f.Seen, snapshot: f.Snapshot, fill: true,
		ahead: f.Ahead, epoch: f.Epoch}
	if f.Base != 0 { // those who wait have seen nothing above it
		r.seen, r.at, r.base = f.Base, f.Seen, f.Base
	}
	return r
}

// read serves a Get or a Fill.
func (m *Middleman) read(now causal.Now, r readRequest) {
	if r.fill && m.currentStream(now, r.from, r.epoch) == nil {
		return
	}
	// A shard that gets its data back may ask for what an earlier version has accepted.
	if len(r.key) > causal.MaxKeyBytes && r.from.Part != topology.Middleman {
		m.reply(now, &r, causal.GetReply{ID: r.id, Ring: m.ring, Err: causal.ErrTooLarge})
		return
	}
	if !m.owns(topology.SlotOf(r.key)) && !m.cfg.Broken.Has(causal.ServeMoved) {
		// The map in the reply tells the reader who owns the slot.
		m.reply(now, &r, causal.GetReply{ID: r.id, Ring: m.ring, Key: r.key, Err: causal.ErrMoved, Map: m.slotMap()})
		return
	}
	if m.cfg.DataLost && !m.cfg.Broken.Has(causal.ServeLostData) &&
		(r.fill || !m.gives(r.from, causal.KeyRanges{causal.OneKey(r.key)})) {
		m.reply(now, &r, causal.GetReply{ID: r.id, Ring: m.ring, Key: r.key, Err: causal.ErrDataLost})
		return
	}
	if !m.IsChecked() {
		err := causal.ErrStarting
		if r.fill {
			err = causal.ErrDataLost // so that the cache asks another ring, and not at once here again
		}
		m.reply(now, &r, causal.GetReply{ID: r.id, Ring: m.ring, Key: r.key, Err: err})
		return
	}
	if !r.ahead && m.deferRead(now, &r) { // nobody waits for what is fetched ahead
		return
	}
	t := &task{kind: taskRead, key: r.key, read: r}
	if m.readsUnserialized() {
		t.status = m.status(t.key, m.mutations.latest[t.key])
		m.tasks.requestRead(t)
		return
	}
	m.tasks.submit(t)
}

// RefuseRead answers a Get or a Fill without reading: there is no room for the reply.
func (m *Middleman) RefuseRead(now causal.Now, msg *causal.Message) {
	r := readOfGet(msg.From, msg.Get())
	if msg.Kind == causal.KindFill {
		r = readOfFill(msg.From, msg.Fill())
	}
	m.stats.RefusedReads++
	m.reply(now, &r, causal.GetReply{ID: r.id, Ring: m.ring, Key: r.key, Err: causal.ErrBusy})
}

// finishRead replies with what storage has returned.
func (m *Middleman) finishRead(now causal.Now, t *task, stored StorageResult) {
	r := &t.read
	reply := causal.GetReply{ID: r.id, Ring: m.ring, Key: r.key}
	switch {
	case stored.Failed:
		reply.Err = causal.ErrStorage
	case stored.Busy:
		m.stats.RefusedReads++
		reply.Err = causal.ErrBusy
	case r.snapshot && !stored.Foreign:
		reply.Record, reply.Next = m.newestAtSnapshot(r, stored.Record)
	case r.cut != 0 && stored.Record.Version.HLC > r.cut:
		var ok bool
		if reply.Record, _, ok = m.oldVersions.at(r.key, r.cut); !ok {
			m.stats.CutsTooOld++
			reply.Err = causal.ErrCutTooOld
		}
	default:
		reply.Record = stored.Record
	}
	m.judge(r, &reply)
	if stored.Foreign {
		reply.Status = causal.InFlight // nothing is known of it; without a version it is not kept either (sendFill)
	}
	if m.cfg.Broken.Has(causal.StatusNotAtomic) {
		reply.Status = t.status
	}
	if reply.Status == causal.InFlight {
		m.stats.InFlightReads++
	}
	if r.fill {
		m.stats.Fills++
	} else {
		m.stats.Gets++
		if r.versionOnly && reply.Record.Version == r.known && keystate.Identifies(&reply.Record) {
			reply.Record.Value.Data, reply.VersionOnly = nil, true
		}
	}
	m.reply(now, r, reply)
	if !m.readsUnserialized() {
		m.tasks.release(t)
	}
}

// judge says of the value in a reply what of it is unstable, and what its past is.
func (m *Middleman) judge(r *readRequest, reply *causal.GetReply) {
	v := reply.Record.Version
	reply.Status = m.status(r.key, v)
	if w := m.writes.find(v); w != nil {
		reply.Past = w.past
	}
	if r.snapshot && v.HLC <= r.cut {
		reply.Status = causal.Stable // the reader's vectors are newer than the ones here
	}
	if keystate.Identifies(&reply.Record) {
		return
	}
	reply.Status = causal.Stable
	reply.Unstable = keystate.Unstable(m.cfg.Types, &reply.Record, func(v causal.Version) bool {
		return r.snapshot && v.HLC <= r.cut || m.status(r.key, v) == causal.Stable
	})
	if len(reply.Unstable) > 0 {
		reply.Status = causal.InFlight
	}
	if reply.Past != 0 { // that of its newest write is known, and each of the others has one
		reply.Past = m.pastOfAll(&reply.Record)
	}
}

// pastOfAll returns the greatest HLC in the past of the writes of a merging value.
func (m *Middleman) pastOfAll(rec *causal.Record) (past causal.HLC) {
	m.cfg.Types.Versions(rec, func(v causal.Version) bool {
		p := v.HLC // at least it is below that
		if known := m.writes.find(v); known != nil && known.past != 0 {
			p = known.past
		}
		past = max(past, p)
		return false
	})
	return past
}

// newestAtSnapshot returns the newest version at or below the cut and what the reader has seen, and the HLC of the
// version after it. In place of in-flight versions above the base of the read, it returns the newest complete one below
// them, or the newest at or below the base. If what it is to return is not kept any more, it returns a newer one.
//
// The reader misses nothing: every write in its past is complete, therefore processed here, or was waited for
// (deferRead), and is not above the base.
func (m *Middleman) newestAtSnapshot(r *readRequest, current causal.Record) (rec causal.Record, next causal.HLC) {
	upTo := max(r.cut, r.at, r.seen)
	if m.cfg.Broken.Has(causal.OlderThanSeen) {
		upTo = max(r.cut, r.at)
	}
	rec, next, ok := m.versionAt(r.key, current, upTo)
	if !ok {
		return current, 0
	}
	from := max(r.cut, r.base, r.seen)
	if m.cfg.Broken.Has(causal.OlderThanSeen) {
		from = max(r.cut, r.base)
	}
	for v := m.firstUnstable(r, &rec, from); v.HLC > from; {
		older, after, ok := m.versionAt(r.key, current, v.HLC-1)
		if !ok {
			break // older ones are not kept: the reader gets the in-flight version
		}
		if v = m.unstableAbove(r, &older, from); v.HLC <= from {
			rec, next = older, after
		}
	}
	if rec.Version != current.Version {
		m.stats.OlderReads++
	}
	return rec, next
}

// unstableAbove returns the write of a value that a read passes over first, since it is in-flight and above its base:
// of a register its version, of a merging value the oldest one. The zero Version: there is none.
func (m *Middleman) unstableAbove(r *readRequest, rec *causal.Record, from causal.HLC) causal.Version {
	return keystate.First(m.cfg.Types, rec, m.isPassedOver(r, from))
}

// firstUnstable is unstableAbove of a value that has an unstable write. Of one that merges it is the oldest one of the
// key: the newer ones that are to be seen may hide it, and to find that one version after the other takes long.
func (m *Middleman) firstUnstable(r *readRequest, rec *causal.Record, from causal.HLC) causal.Version {
	isPassedOver := m.isPassedOver(r, from)
	v := keystate.First(m.cfg.Types, rec, isPassedOver)
	if v.HLC <= from || !rec.Value.Merges() {
		return v
	}
	if first := m.oldVersions.first(r.key, isPassedOver); first.HLC > from && first.Less(v) {
		return first
	}
	return v
}

func (m *Middleman) isPassedOver(r *readRequest, from causal.HLC) func(causal.Version) bool {
	return func(v causal.Version) bool {
		return r.base != 0 && v.HLC > from && m.status(r.key, v) == causal.InFlight
	}
}

// versionAt returns the newest version of a key at or below an HLC, and the HLC of the version after it. It returns
// false if that is not kept any more.
func (m *Middleman) versionAt(key string, current causal.Record, upTo causal.HLC) (rec causal.Record,
	next causal.HLC, ok bool) {
	if current.Version.HLC <= upTo {
		return current, 0, true
	}
	return m.oldVersions.at(key, upTo)
}

// reply sends the reply to a Get, or to a Fill on the stream.
func (m *Middleman) reply(now causal.Now, r *readRequest, reply causal.GetReply) {
	if r.fill {
		m.sendFill(now, r, causal.FillReply{ID: reply.ID, Key: reply.Key, Record: reply.Record, Status: reply.Status,
			Unstable: reply.Unstable,
			Next:     reply.Next, Past: reply.Past, Ring: reply.Ring, Err: reply.Err, Map: reply.Map})
		return
	}
	m.Send(reply.Message(m.cfg.Self, r.from))
}
