package middleman

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Scans (PROTOCOL SCAN). A scan returns names only, and the session reads those keys afterwards. So it may name too
// many keys, but must not leave out one that the session knows: it is processed here, and then storage has it, or it is
// a pending put at or below what the session has seen.

const (
	// maxScanKeys bounds the keys that are asked of storage at once.
	maxScanKeys = 1000
	// maxNamedBytes bounds the names of pending puts in a reply.
	maxNamedBytes = 8 << 20
	// maxScans bounds the scans and counts that are with storage, in bytes: scanBytes for each, which is about what
	// most replies take, and its cursor. maxScansOfOne is that of one identity: 256 at a time, or one with the longest
	// cursor that there may be. Beyond, who asks is answered ErrBusy, and asks again.
	maxScans, maxScansOfOne = 96 << 20, 24 << 20
	scanBytes               = 96 << 10
)

// admitScan counts a scan or a count, unless there is no room.
func (m *Middleman) admitScan(t *task, cursor int) (ok bool) {
	size := scanBytes + cursor
	if t.holder, ok = m.scans.TakeSize(t.read.from, size); ok {
		t.size = size
	}
	return ok
}

func (m *Middleman) endScan(t *task) {
	if t.size > 0 {
		m.scans.Release(t.holder, t.size)
	}
}

func (m *Middleman) count(from topology.Node, c causal.Count) {
	reply := causal.CountReply{ID: c.ID, Err: causal.ErrBusy}
	t := &task{kind: taskCount, read: readRequest{from: from, id: c.ID}}
	switch {
	case m.cfg.DataLost:
		reply.Err = causal.ErrDataLost
	case !m.IsChecked():
		reply.Err = causal.ErrStarting
	case m.admitScan(t, 0):
		m.tasks.request(StorageOp{Kind: StorageCount}, t)
		return
	}
	m.Send(reply.Message(m.cfg.Self, from))
}

func (m *Middleman) scan(from topology.Node, s causal.Scan) {
	reply := causal.ScanReply{ID: s.ID, Map: m.slotMap()}
	known := true
	if s.Place != 0 {
		s.After, known = m.scanPlaces.Find(s.Place)
	}
	switch {
	case s.Map != m.slotMap():
		reply.Err = causal.ErrMoved
	case !known:
		reply.Err = causal.ErrNotFound
	case m.cfg.DataLost && !m.cfg.Broken.Has(causal.ServeLostData) && !m.gives(from, s.Wanted):
		reply.Err, reply.Lacks = causal.ErrDataLost, m.cfg.Missing
	case !m.IsChecked(), s.Seen != 0 && m.mayLackWritesUpTo(s.Seen):
		reply.Err = causal.ErrStarting
	default:
		t := &task{kind: taskScan, read: readRequest{from: from, id: s.ID}}
		if m.admitScan(t, len(s.After)) {
			var ok bool
			if t.named, ok = m.pendingKeys(s.Seen); ok {
				m.tasks.request(StorageOp{Kind: StorageScan, Key: s.After, Limit: int(min(s.Limit, maxScanKeys))}, t)
				return
			}
			m.endScan(t)
		}
		reply.Err = causal.ErrBusy
	}
	m.Send(reply.Message(m.cfg.Self, from))
}

// pendingKeys returns the keys of the puts up to an HLC that are here, and that storage may not hold yet. It is asked
// before storage is, so a put that is processed in between is not missed. It returns false if there are too many.
func (m *Middleman) pendingKeys(upTo causal.HLC) (keys []string, ok bool) {
	if upTo == 0 || m.cfg.Broken.Has(causal.ScanPastStaged) {
		return nil, true
	}
	bytes := 0
	for v, w := range m.writes.byVersion {
		if p := w.put; p != nil && !p.processed && v.HLC <= upTo {
			keys = append(keys, p.key)
			bytes += len(p.key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), bytes <= maxNamedBytes
}

// finishScan replies with what storage has returned. Storage may hold keys of slots that were given away.
func (m *Middleman) finishScan(t *task, r StorageResult) {
	if t.read.from == m.cfg.Self {
		m.backfill.takeOwnKeys(r)
		return
	}
	reply := causal.ScanReply{ID: t.read.id, Keys: t.named, Next: r.Next, Map: m.slotMap(),
		Horizon: m.tombstones.horizon, TellsHorizon: true}
	switch {
	case r.BadCursor:
		reply.Keys, reply.Err = nil, causal.ErrNotFound
	case r.Failed:
		reply.Keys, reply.Err = nil, causal.ErrStorage
	case r.Next != "" && t.read.from.Part == topology.Sidecar:
		reply.Place = m.scanPlaces.Add(r.Next)
	}
	for _, key := range r.Keys {
		if m.owns(topology.SlotOf(key)) {
			reply.Keys = append(reply.Keys, key)
		}
	}
	m.Send(reply.Message(m.cfg.Self, t.read.from))
}
