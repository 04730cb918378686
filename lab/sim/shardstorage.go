package sim

import (
	"bytes"

	"maps"
	"math/rand/v2"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/process"
	"github.com/causalstore/causalstore/topology"
)

// content is what the storage of a middleman holds.
type content struct {
	records map[string]causal.Record
	process.Marks
	changes uint64 // counts durable changes, of a storage with one member
	// Of a member of a shard: what the storage says about itself, and how many keys it counts.
	marker member.Applied
	count  int
}

func newContent() content { return content{records: map[string]causal.Record{}} }

// copy returns a copy. Records are not changed, so it may refer to the same.
func (c *content) copy() *content {
	d := *c
	d.records = maps.Clone(c.records)
	return &d
}

// isEmpty reports whether it holds no key and no metadata of a middleman.
func (c *content) isEmpty() bool { return len(c.records) == 0 && len(c.meta()) == 0 }

// meta returns the metadata of a middleman.
func (c *content) meta() (meta []member.Meta) {
	var none process.Marks
	for _, name := range process.MarkNames {
		if m := c.Meta(name); !sameMeta(m, none.Meta(name)) {
			meta = append(meta, m)
		}
	}
	return meta
}

func (c *content) setMeta(m member.Meta) {
	if err := c.Set(m.Name, m.Value); err != nil {
		panic(err) // it was made by Meta
	}
}

// write carries out a write, and counts keys as a storage does that believes what it is told about which exist.
func (c *content) write(w member.Write, checkExistence bool) {
	exists := w.KeyExists
	if checkExistence {
		_, exists = c.records[w.Key]
	}
	if exists {
		c.count--
	}
	if w.Delete {
		delete(c.records, w.Key)
		return
	}
	c.count++
	w.Record.Value.Data = slices.Clone(w.Record.Value.Data)
	c.records[w.Key] = w.Record
}

// apply makes a change.
func (c *content) apply(change *member.Change, checkExistence bool) {
	for _, w := range change.Writes {
		c.write(w, checkExistence)
	}
	for _, m := range change.Meta {
		c.setMeta(m)
	}
}

// run carries out a task of a member, but for TaskRead, in one step.
func (c *content) run(t *member.StorageTask) {
	switch t.Kind {
	case member.TaskApply:
		for i := range t.Changes {
			c.apply(&t.Changes[i], t.CheckExistence)
		}
	case member.TaskClear:
		*c = newContent()
	case member.TaskWrite:
		for _, r := range t.Records {
			c.write(member.Write{Key: r.Key, Record: r.Record}, true)
		}
		for _, m := range t.Meta {
			c.setMeta(m)
		}
	}
	c.marker = t.Marker
}

// pageRecords is how many records a page of a copy has: few, so that much happens between two.
const pageRecords = 2

// readPage fills in a page from a key on.
func (c *content) readPage(t *member.StorageTask, r *process.EffectResult) {
	for _, key := range slices.Sorted(maps.Keys(c.records)) {
		if key < t.After {
			continue
		}
		if len(r.Records) == pageRecords {
			r.Next = key
			break
		}
		r.Records = append(r.Records, causal.Moved{Key: key, Record: c.records[key]})
	}
	if t.First {
		r.Meta = c.meta()
	}
}

// list returns the keys of the slots that want wants; nil: all.
func (c *content) list(want func(topology.Slot) bool) (keys []string) {
	for _, key := range slices.Sorted(maps.Keys(c.records)) {
		if want == nil || want(topology.SlotOf(key)) {
			keys = append(keys, key)
		}
	}
	return keys
}

// page returns the names of some keys, and where to continue.
func (c *content) page(from string, limit int) (keys []string, next string) {
	for _, key := range slices.Sorted(maps.Keys(c.records)) {
		if key < from {
			continue
		}
		if len(keys) == limit {
			return keys, key
		}
		keys = append(keys, key)
	}
	return keys, ""
}

func (c *content) tombstones() (all []causal.Moved) {
	for _, key := range slices.Sorted(maps.Keys(c.records)) {
		if r := c.records[key]; r.Value.Tombstone || r.Value.Merges() || r.Value.ExpireAtMs != 0 {
			all = append(all, causal.Moved{Key: key, Record: r})
		}
	}
	return all
}

// setKeyExists sets KeyExists of writes.
func (c *content) setKeyExists(writes []causal.Write) {
	exists := map[string]bool{}
	for i := range writes {
		w := &writes[i]
		e, known := exists[w.Key]
		if !known {
			_, e = c.records[w.Key]
		}
		w.KeyExists = e
		exists[w.Key] = !w.Delete
	}
}

// loseLog makes the log of a member an empty one.
func (d *disk) loseLog() {
	d.volume, d.log, d.firstIndex, d.unsynced, d.isDamaged = 0, nil, 1, nil, false
}

// loseStorage makes the storage of a member an empty one.
func (d *disk) loseStorage() { d.content = newContent() }

// loseSome makes the storage of a member lose some keys, and say so with the next request.
func (d *disk) loseSome(rng *rand.Rand) {
	d.lost, d.before = true, nil
	for _, key := range slices.Sorted(maps.Keys(d.records)) {
		if rng.IntN(2) == 0 {
			delete(d.records, key)
		}
	}
}

// crashTask decides whether the storage keeps what it was asked for and has not acknowledged.
func (d *disk) crashTask(rng *rand.Rand, none bool) {
	if d.before != nil && (none || rng.IntN(2) == 0) {
		d.content = *d.before
	}
	if d.task != nil && !none && rng.IntN(2) == 0 {
		d.partly(rng, d.task)
	}
	d.before, d.task = nil, nil
}

// partly carries out a task, as a whole or, if that is not one transaction, a part of it.
func (d *disk) partly(rng *rand.Rand, t *member.StorageTask) {
	if t.Kind == member.TaskClear && rng.IntN(2) == 0 {
		d.marker = t.Marker
		for _, key := range slices.Sorted(maps.Keys(d.records)) {
			if rng.IntN(2) == 0 {
				delete(d.records, key)
			}
		}
		return
	}
	d.run(t)
}

// runTask carries out a task. One that fails may have been done anyway, and not be durable.
func (w *World) runTask(n *node, t *member.StorageTask) (r process.EffectResult) {
	d := n.disk
	d.task = nil
	if w.storageFails() {
		r.Err = errStorage
	}
	if t.Kind == member.TaskRead {
		switch {
		case r.Err == nil && !t.First && w.settings.FaultsPerMillion > 0 && w.rng.IntN(200) == 0:
			r.BadCursor = true
		case r.Err == nil:
			d.readPage(t, &r)
		}
		return r
	}
	switch {
	case r.Err == nil:
		if d.marker.Copying && !t.Marker.Copying {
			w.members.Copies++
		}
		d.run(t)
		d.before = nil
	case w.rng.IntN(2) == 0:
		if d.before == nil {
			d.before = d.content.copy()
		}
		d.partly(w.rng, t)
	}
	return r
}

func sameMeta(a, b member.Meta) bool { return a.Name == b.Name && bytes.Equal(a.Value, b.Value) }

func sameRecord(a, b causal.Record) bool {
	return a.Version == b.Version && a.Value.Tombstone == b.Value.Tombstone &&
		a.Value.ExpireAtMs == b.Value.ExpireAtMs && bytes.Equal(a.Value.Data, b.Value.Data)
}
