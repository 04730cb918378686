package process

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/causal/shard"
)

// A group of writes that share a change has at most this many requests, and bytes unless it is a single one: with
// several members it is one record of their log, which a message has to carry.
const (
	maxGroupOps   = 1024
	maxGroupBytes = 8 << 20
)

// writes are the requests of the middleman that change the storage. All that come during one change, up to the limits,
// share the next one.
type writes struct {
	queue    []middleman.StorageOp
	group    []middleman.StorageOp // of the change that is under way, or free
	underWay bool
}

// drop forgets what is not under way: nobody waits for it any more. Coordinators resend unacknowledged puts.
func (w *writes) drop() {
	clear(w.queue)
	w.queue = w.queue[:0]
}

// take moves the requests that share the next change from the queue to group.
func (w *writes) take() {
	n, size := 0, 0
	for n < len(w.queue) && n < maxGroupOps {
		size += len(w.queue[n].Key) + w.queue[n].Record.Value.Size()
		if n > 0 && size > maxGroupBytes {
			break
		}
		n++
	}
	if n == len(w.queue) {
		w.group, w.queue = w.queue, w.group[:0]
		return
	}
	w.group = append(w.group[:0], w.queue[:n]...)
	w.queue = slices.Delete(w.queue, 0, n)
}

// Reads appends the requests of the middleman that serves, but for those that change the storage, to dst. ReadDone
// takes their results, with the present generation. They are carried out at any time, in any order.
func (p *Shard) Reads(dst []middleman.StorageOp) []middleman.StorageOp {
	if p.serving == nil {
		return dst
	}
	from := len(dst)
	dst = p.serving.Ops(dst)
	reads := from
	for i := from; i < len(dst); i++ {
		switch op := &dst[i]; op.Kind {
		case middleman.StorageRead, middleman.StorageCount, middleman.StorageScan:
			if reads != i {
				dst[reads] = *op
			}
			reads++
		default:
			p.addWrite(op)
		}
	}
	return dst[:reads]
}

func (p *Shard) addWrite(op *middleman.StorageOp) {
	p.shard.NoteWrite(*op)
	p.writes.queue = append(p.writes.queue, *op)
}

// ReadDone takes the result of a read. It is dropped if the middleman that has asked serves no more.
func (p *Shard) ReadDone(now causal.Now, generation uint64, r middleman.StorageResult) {
	if p.now = now; p.serving != nil && p.generation == generation {
		p.serving.StorageDone(now, r)
	}
}

// beginWrite begins a change with what the middleman has asked for.
func (p *Shard) beginWrite() {
	w := &p.writes
	if w.underWay || len(w.queue) == 0 || p.marks.changing {
		return
	}
	w.take()
	c := member.Change{}
	for i := range w.group {
		switch op := &w.group[i]; op.Kind {
		case middleman.StorageWrite, middleman.StorageDelete:
			if c.Writes == nil {
				c.Writes = make([]causal.Write, 0, len(w.group))
			}
			c.Writes = append(c.Writes, causal.Write{Key: op.Key, Record: op.Record,
				Delete: op.Kind == middleman.StorageDelete, KeyExists: op.KeyExists})
		case middleman.StorageHorizon:
			p.marks.asked.Horizon = max(p.marks.asked.Horizon, op.Horizon)
		case middleman.StorageFence:
			p.marks.fence(op)
		case middleman.StorageExclusions:
			p.marks.asked.Exclusions = p.marks.asked.Exclusions.With(op.Exclusions)
		default:
			panic(fmt.Sprintf("storage request %d is not known", op.Kind))
		}
	}
	c.Meta = p.marks.needed(c.Writes)
	w.underWay = true
	p.marks.changing = len(c.Meta) > 0
	p.do(Effect{Kind: EffectWrite, Change: c}, func(r EffectResult) { p.endWrite(&c, &r) })
}

// endWrite takes what has become of a change.
func (p *Shard) endWrite(c *member.Change, r *EffectResult) {
	p.marks.end(c, r.Err)
	p.writes.underWay = false
	result := middleman.StorageResult{Failed: r.Err != nil}
	if r.Err == nil {
		result.Changes = p.position.Changes
	}
	for i := range p.writes.group {
		op := &p.writes.group[i]
		p.shard.NoteWrite(*op)
		if p.serving != nil {
			result.ID = op.ID
			p.serving.StorageDone(p.now, result)
		}
	}
	clear(p.writes.group)
	p.writes.group = p.writes.group[:0]
}

// marks are the marks of a storage that change while a middleman serves: the horizon, the origins, the fences and the
// exclusions. They are part of the change that needs them.
//
// Invariants: at most one change with some of them is under way. Each such change has all of them that were ever asked
// for: what an earlier one asked for that has failed may be in the storage, and is not replaced by less.
type marks struct {
	durable Marks
	asked   Marks // at least durable
	// changing says that a change with some of them is under way, and waiting is what waits for its end.
	changing bool
	waiting  func()
}

func (m *marks) init(read Marks) { m.durable, m.asked = read, read }

func (m *marks) fence(op *middleman.StorageOp) {
	if op.Generation > m.asked.Fences[op.Origin] {
		m.asked.Fences = m.asked.Fences.With(op.Origin, op.Generation)
	}
}

// needed adds the origins of writes, and returns what has to be part of a change with them.
func (m *marks) needed(writes []causal.Write) (meta []member.Meta) {
	for i := range writes {
		if o := writes[i].Record.Version.Origin; o != 0 { // a removal has none
			m.asked.Origins = m.asked.Origins.With(o)
		}
	}
	if m.asked.Horizon > m.durable.Horizon {
		meta = append(meta, m.asked.Meta(MarkHorizon))
	}
	if !bytes.Equal(m.asked.Origins, m.durable.Origins) {
		meta = append(meta, m.asked.Meta(MarkOrigins))
	}
	if !maps.Equal(m.asked.Fences, m.durable.Fences) {
		meta = append(meta, m.asked.Meta(MarkFences))
	}
	if !m.durable.Exclusions.Covers(m.asked.Exclusions) {
		meta = append(meta, m.asked.Meta(MarkExclusions))
	}
	return meta
}

// end takes what has become of a change that needed has added to.
func (m *marks) end(c *member.Change, err error) {
	if len(c.Meta) > 0 {
		m.changing = false
	}
	if err == nil {
		m.note(c.Meta)
	}
}

// note takes note that marks are durable.
func (m *marks) note(meta []member.Meta) {
	for i := range meta {
		if err := m.durable.Set(meta[i].Name, meta[i].Value); err != nil {
			panic(err) // it was made by Meta
		}
	}
	m.asked.Exclusions = m.asked.Exclusions.With(m.durable.Exclusions)
}

// release lets go on what waits, if it can.
func (m *marks) release() {
	if then := m.waiting; then != nil && !m.changing {
		m.waiting = nil
		then()
	}
}

// takeIn changes the storage by records of a mover.
func (p *Shard) takeIn(op *shard.MoveOp, then func(error)) {
	writes := make([]causal.Write, len(op.Records))
	for i, r := range op.Records {
		writes[i] = causal.Write{Key: r.Key, Record: r.Record, Delete: r.Record.Version.IsZero()}
	}
	p.marks.asked.Horizon = max(p.marks.asked.Horizon, op.Horizon)
	p.marks.waiting = func() {
		c := member.Change{Writes: writes, Meta: p.marks.needed(writes)}
		if len(c.Writes)+len(c.Meta) == 0 {
			then(nil)
			return
		}
		p.marks.changing = len(c.Meta) > 0
		p.do(Effect{Kind: EffectChange, Change: c, CheckExistence: len(writes) > 0}, func(r EffectResult) {
			p.marks.end(&c, r.Err)
			then(r.Err)
		})
	}
}
