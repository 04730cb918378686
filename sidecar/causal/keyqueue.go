package causal

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// keyQueue serialises what touches one key: reads may overlap each other, a write is alone. So reading a value and
// registering its copy are one step, and so are writing and taking the list of copies (PROTOCOL §5).
type keyQueue struct {
	readers int
	writing bool
	queue   []*keyOp
}

// keyOp is one read, write or tombstone removal of a key.
type keyOp struct {
	key    string
	msg    Message // of a read
	put    *put    // of a write
	also   []*put  // of a write: older ones of the key, which it overtakes
	tomb   Version // of a removal
	stage  int     // of a write: 0 reads what stands, 1 writes
	alien  bool    // what stood was written by somebody else
	old    Record
	status Status // only for the StatusNotAtomic fault
}

func (o *keyOp) isRead() bool { return o.put == nil && o.tomb.IsZero() }

// submit runs o as soon as its key allows.
func (m *Middleman) submit(now Now, o *keyOp) {
	if o.isRead() && (m.cfg.Broken.has(StatusNotAtomic) || m.cfg.Broken.has(RegisterLate)) {
		o.status = m.status(o.key, m.faultLatest[o.key])
		m.request(StorageOp{Kind: StorageRead, Key: o.key}, o)
		return
	}
	q := m.keys[o.key]
	if q == nil {
		q = &keyQueue{}
		m.keys[o.key] = q
	}
	q.queue = append(q.queue, o)
	m.runQueue(q)
}

func (m *Middleman) runQueue(q *keyQueue) {
	for len(q.queue) > 0 {
		o := q.queue[0]
		if q.writing || !o.isRead() && q.readers > 0 {
			return
		}
		q.queue[0] = nil
		q.queue = q.queue[1:]
		if o.isRead() {
			q.readers++
		} else {
			q.writing = true
			q.gather(o)
		}
		m.request(StorageOp{Kind: StorageRead, Key: o.key}, o)
	}
}

// gather takes the other writes that wait for the key into one: the newest is written, and the others are superseded by it
// in the same step. So a key that many write at once costs one write at a time, and its readers do not wait for each.
func (q *keyQueue) gather(o *keyOp) {
	if o.put == nil {
		return
	}
	q.queue = slices.DeleteFunc(q.queue, func(w *keyOp) bool {
		if w.put == nil {
			return false
		}
		if o.put.rec.Version.Less(w.put.rec.Version) {
			o.put, w.put = w.put, o.put
		}
		o.also = append(o.also, w.put)
		return true
	})
}

func (m *Middleman) request(op StorageOp, o *keyOp) {
	m.nextOp++
	op.ID = m.nextOp
	m.waiting[op.ID] = o
	m.ops = append(m.ops, op)
}

// release ends what o did to its key.
func (m *Middleman) release(o *keyOp) {
	q := m.keys[o.key]
	if q == nil {
		return
	}
	if o.isRead() {
		q.readers--
	} else {
		q.writing = false
	}
	m.runQueue(q)
	if len(q.queue) == 0 && q.readers == 0 && !q.writing {
		delete(m.keys, o.key)
	}
}

// StorageDone takes the answer to one storage request.
func (m *Middleman) StorageDone(now Now, r StorageResult) {
	if r.ID == m.horizonAsk {
		m.horizonDone(r)
		return
	}
	o := m.waiting[r.ID]
	if o == nil {
		return
	}
	delete(m.waiting, r.ID)
	if r.Failed {
		m.stats.StorageErrors++
	}
	if o.msg.Kind == KindCount {
		m.send(Message{Kind: KindCountReply, From: m.cfg.Self, To: o.msg.From, ID: o.msg.ID, Seq: uint64(r.Count)})
		return
	}
	if r.Foreign {
		m.stats.Foreign++
		r.Record.Version = Version{} // older than every write
	} else if !r.Found {
		r.Record = Missing(m.horizon)
		if m.cfg.Broken.has(ForgetDropped) {
			r.Record = Missing(0)
		}
	}
	switch {
	case o.put != nil:
		m.writeStep(now, o, r)
	case !o.tomb.IsZero():
		m.dropStep(o, r)
	default:
		m.readStep(now, o, r)
	}
}

// read serves a get of a sidecar or a fill of a cache.
func (m *Middleman) read(now Now, msg *Message) {
	if msg.Kind == KindFill && !m.streamCurrent(now, msg) {
		return
	}
	if !m.local(topology.SlotOf(msg.Key)) && !m.cfg.Broken.has(ServeMoved) {
		m.refuseMoved(now, msg)
		return
	}
	if m.hold(now, msg) {
		return
	}
	m.submit(now, &keyOp{key: msg.Key, msg: *msg})
}

// refuseMoved: another middleman owns the slot. The answer names the map in use here, from which the reader learns which.
func (m *Middleman) refuseMoved(now Now, msg *Message) {
	reply := Message{Kind: KindGetReply, From: m.cfg.Self, To: msg.From, ID: msg.ID, Ring: m.ring, Key: msg.Key, Err: ErrMoved, Map: m.slots()}
	if msg.Kind == KindFill {
		m.fillReply(now, msg, reply)
		return
	}
	m.send(reply)
}

func (m *Middleman) readStep(now Now, o *keyOp, r StorageResult) {
	reply := Message{Kind: KindGetReply, From: m.cfg.Self, To: o.msg.From, ID: o.msg.ID, Ring: m.ring, Key: o.key}
	switch {
	case r.Failed:
		reply.Err = ErrStorage
	case o.msg.Older && !r.Foreign:
		reply.Record, reply.Cut = m.older(o, r.Record)
	case o.msg.Cut != 0 && r.Record.Version.HLC > o.msg.Cut:
		var ok bool
		if reply.Record, _, ok = m.hist.at(o.key, o.msg.Cut); !ok {
			m.stats.CutsTooOld++
			reply.Err = ErrCutTooOld
		}
	default:
		reply.Record = r.Record
	}
	reply.Status = m.status(o.key, reply.Record.Version)
	if o.msg.Older && reply.Record.Version.HLC <= o.msg.Cut {
		reply.Status = Stable // the reader has newer vectors
	}
	if r.Foreign {
		reply.Status = InFlight // nothing is known of it: it must not be cached
	}
	if m.cfg.Broken.has(StatusNotAtomic) {
		reply.Status = o.status
	}
	if reply.Status == InFlight {
		m.stats.InFlightReads++
	}
	if o.msg.Kind == KindFill {
		m.stats.Fills++
		m.fillReply(now, &o.msg, reply)
	} else {
		m.stats.Gets++
		if o.msg.VersionOnly && reply.Record.Version == o.msg.Record.Version {
			reply.Record.Value.Data, reply.VersionOnly = nil, true
		}
		m.send(reply)
	}
	if !m.cfg.Broken.has(StatusNotAtomic) && !m.cfg.Broken.has(RegisterLate) {
		m.release(o)
	}
}

// older returns the newest version at or below what the reader has seen and knows to be complete, and the HLC of the next
// one. If that is not remembered any more, the version in storage has to do.
//
// The reader misses nothing: it is unbound, so every write in its past is complete and therefore here, and not above what
// it has seen.
func (m *Middleman) older(o *keyOp, current Record) (Record, HLC) {
	upTo := max(o.msg.Cut, o.msg.HLC)
	if m.cfg.Broken.has(OlderThanSeen) {
		upTo = o.msg.Cut
	}
	if current.Version.HLC > upTo {
		if rec, next, ok := m.hist.at(o.key, upTo); ok {
			m.stats.OlderReads++
			return rec, next
		}
	}
	return current, 0
}

func (m *Middleman) write(now Now, p *put) {
	m.submit(now, &keyOp{key: p.key, put: p})
	m.unstage(now, p)
}

// writeStep writes if the version wins over the one that stands.
func (m *Middleman) writeStep(now Now, o *keyOp, r StorageResult) {
	p := o.put
	switch {
	case r.Failed && m.cfg.Broken.has(TrustFailedWrite):
		o.stage = 0
		m.failed = append(m.failed, o)
	case o.stage == 0 && m.cfg.Broken.has(TrustFailedWrite) && r.Record.Version == p.rec.Version:
		m.processedNow(now, p, false)
		m.release(o)
	case r.Failed:
		// Whether it was done is not known, so what waits for the key goes on waiting, and it is done again.
		m.failed = append(m.failed, o)
	case o.stage == 0 && !p.rec.Version.Less(r.Record.Version):
		// Also if it stands there already: from before a restart, and perhaps never made durable.
		o.stage, o.old, o.alien = 1, r.Record, r.Foreign
		m.requestWrite(o)
	case o.stage == 0:
		m.overtaken(now, append(o.also, p))
		m.release(o)
	default:
		switch {
		case o.alien:
			m.hist.drop(o.key) // nothing is known of it, and so nothing of what came before
		case o.old.Version != p.rec.Version:
			m.hist.overwritten(o.key, o.old, p.rec.Version)
		}
		if p.rec.Value.Tombstone {
			m.tombs = append(m.tombs, tomb{version: p.rec.Version, key: o.key})
		}
		m.processedNow(now, p, false)
		m.overtaken(now, o.also)
		m.release(o)
	}
}

// overtaken: a greater version stands in storage.
func (m *Middleman) overtaken(now Now, puts []*put) {
	for _, p := range puts {
		m.hist.superseded(p.key, p.rec)
		m.processedNow(now, p, true)
	}
}

// requestWrite issues the storage request of a write, at the stage where it is.
func (m *Middleman) requestWrite(o *keyOp) {
	op := StorageOp{Kind: StorageRead, Key: o.key}
	if o.stage == 1 {
		op.Kind, op.Record = StorageWrite, o.put.rec
		if o.put.rec.Value.Tombstone && m.cfg.Broken.has(DeleteRemoves) {
			op.Kind = StorageDelete
		}
	}
	m.request(op, o)
}

// NoteTombstone tells of a tombstone that storage held at the start, so that it is dropped in its time.
func (m *Middleman) NoteTombstone(key string, v Version) {
	if m.local(topology.SlotOf(key)) { // others' may be written by a mover meanwhile
		m.tombs = append(m.tombs, tomb{version: v, key: key})
	}
}

// dropTombstones removes the tombstones at or below keepFrom, which is below every origin's SV: no older put of the key
// can arrive any more. Before the first is dropped the horizon is made durable, so that a coordinator that lost its memory
// and sends an old put again cannot bring the key back.
func (m *Middleman) dropTombstones(now Now, keepFrom HLC) {
	upTo := min(keepFrom, m.horizon)
	if m.cfg.Broken.has(TombstoneEarly) {
		upTo = ^HLC(0)
	} else if len(m.tombs) > 0 && m.tombs[0].version.HLC <= keepFrom && m.horizon < m.tombs[0].version.HLC {
		if m.horizonAsk == 0 {
			m.nextOp++
			m.horizonAsk, m.horizonNext = m.nextOp, keepFrom
			m.ops = append(m.ops, StorageOp{ID: m.horizonAsk, Kind: StorageHorizon, Horizon: keepFrom})
		}
		return
	}
	for len(m.tombs) > 0 && m.tombs[0].version.HLC <= upTo {
		t := m.tombs[0]
		m.tombs = m.tombs[1:]
		m.submit(now, &keyOp{key: t.key, tomb: t.version})
	}
}

func (m *Middleman) horizonDone(r StorageResult) {
	m.horizonAsk = 0
	if !r.Failed {
		m.horizon = max(m.horizon, m.horizonNext)
	}
}

func (m *Middleman) dropStep(o *keyOp, r StorageResult) {
	switch {
	case r.Failed:
		m.tombs = append(m.tombs, tomb{version: o.tomb, key: o.key})
	case o.stage == 0 && r.Record.Version == o.tomb:
		o.stage = 1
		m.hist.drop(o.key) // a cut below the tombstone finds nothing any more, and must not find what stood before it
		m.request(StorageOp{Kind: StorageDelete, Key: o.key}, o)
		return
	}
	m.release(o)
}
