package sim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/shard"
	"github.com/causalstore/causalstore/topology"
)

// The names of a middleman's metadata.
const (
	metaStarts     = "starts"
	metaDataLost   = "data-lost"
	metaHorizon    = "horizon"
	metaState      = "state"
	metaMoves      = "moves"
	metaCaches     = "caches"
	metaOrigins    = "origins"
	metaFences     = "fences"
	metaExclusions = "exclusions"
	metaMissing    = "missing"
	metaLineage    = "lineage"
)

func metaUint(name string, v uint64) member.Meta {
	return member.Meta{Name: name, Value: binary.AppendUvarint(nil, v)}
}

func stateMeta(s shard.MigrationState) member.Meta {
	v := uint64(s.Map) << 2
	if s.Stopped {
		v |= 2
	}
	if s.HoldsMovedSlots {
		v |= 1
	}
	return metaUint(metaState, v)
}

func originsMeta(origins map[topology.Origin]bool) member.Meta {
	m := member.Meta{Name: metaOrigins}
	for _, o := range slices.Sorted(maps.Keys(origins)) {
		m.Value = binary.AppendUvarint(m.Value, uint64(o))
	}
	return m
}

// maxOrigins is above the number of origins in every simulated deployment.
const maxOrigins = 1 << 10

func fencesMeta(f causal.Fences) member.Meta {
	return member.Meta{Name: metaFences, Value: f.Encode(maxOrigins)}
}

func lineageMeta(l causal.Lineage) member.Meta {
	return member.Meta{Name: metaLineage, Value: l.Encode()}
}

func exclusionsMeta(x causal.Exclusions) member.Meta {
	return member.Meta{Name: metaExclusions, Value: x.Encode()}
}

// content is what the storage of a middleman holds.
type content struct {
	records    map[string]causal.Record
	horizon    causal.HLC
	state      shard.MigrationState
	starts     uint64                   // counts the middlemen that served
	origins    map[topology.Origin]bool // whose writes it has ever held
	fences     causal.Fences            // never changed in place
	exclusions causal.Exclusions
	loss       shard.Loss
	missing    causal.KeyRanges // of the loss; never changed in place
	moves      uint64           // counts movers
	lineage    causal.Lineage
	changes    uint64               // counts durable changes, of a storage with one member
	caches     topology.CacheLayout // saved once the leases from before have expired
	// Of a member of a shard: what the storage says about itself, and how many keys it counts.
	marker member.Applied
	count  int
}

func newContent() content {
	return content{records: map[string]causal.Record{}, origins: map[topology.Origin]bool{}}
}

// copy returns a copy. Records are not changed, so it may refer to the same.
func (c *content) copy() *content {
	d := *c
	d.records, d.origins = maps.Clone(c.records), maps.Clone(c.origins)
	return &d
}

// isEmpty reports whether it holds no key and no metadata of a middleman.
func (c *content) isEmpty() bool {
	return len(c.records) == 0 && len(c.origins) == 0 && c.starts == 0 && c.horizon == 0 &&
		c.state == (shard.MigrationState{}) && c.loss == shard.NoLoss && c.moves == 0 && c.caches == 0 &&
		len(c.fences) == 0 && len(c.exclusions) == 0
}

// meta returns the metadata of a middleman.
func (c *content) meta() []member.Meta {
	return []member.Meta{metaUint(metaStarts, c.starts), metaUint(metaDataLost, uint64(c.loss)),
		metaUint(metaHorizon, uint64(c.horizon)), stateMeta(c.state),
		metaUint(metaMoves, c.moves), metaUint(metaCaches, uint64(c.caches)), originsMeta(c.origins),
		fencesMeta(c.fences), exclusionsMeta(c.exclusions),
		{Name: metaMissing, Value: c.missing.Encode()}, lineageMeta(c.lineage)}
}

func (c *content) setMeta(m member.Meta) {
	v, _ := binary.Uvarint(m.Value)
	switch m.Name {
	case metaStarts:
		c.starts = v
	case metaDataLost:
		c.loss = shard.Loss(v)
	case metaHorizon:
		c.horizon = causal.HLC(v)
	case metaState:
		c.state = shard.MigrationState{Map: topology.MapID(v >> 2), Stopped: v&2 != 0, HoldsMovedSlots: v&1 != 0}
	case metaMoves:
		c.moves = v
	case metaCaches:
		c.caches = topology.CacheLayout(v)
	case metaFences:
		fences, err := causal.ParseFences(m.Value)
		if err != nil {
			panic(err) // it was made by fencesMeta
		}
		c.fences = fences
	case metaExclusions:
		x, err := causal.ParseExclusions(m.Value)
		if err != nil {
			panic(err) // it was made by exclusionsMeta
		}
		c.exclusions = x
	case metaMissing:
		missing, err := causal.ParseKeyRanges(m.Value)
		if err != nil {
			panic(err) // it was made by Encode
		}
		c.missing = missing
	case metaLineage:
		l, err := causal.ParseLineage(m.Value)
		if err != nil {
			panic(err) // it was made by lineageMeta
		}
		c.lineage = l
	case metaOrigins:
		clear(c.origins)
		for b := m.Value; len(b) > 0; {
			o, size := binary.Uvarint(b)
			c.origins[topology.Origin(o)], b = true, b[size:]
		}
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

// run carries out a task of a member, but for TaskRead, in one step.
func (c *content) run(t *member.StorageTask) {
	switch t.Kind {
	case member.TaskApply:
		for i := range t.Changes {
			for _, w := range t.Changes[i].Writes {
				c.write(w, t.CheckExistence)
			}
			for _, m := range t.Changes[i].Meta {
				c.setMeta(m)
			}
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
func (c *content) readPage(t *member.StorageTask, r *member.StorageTaskResult) {
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

// removals returns the writes that remove the wanted slots.
func (c *content) removals(want func(topology.Slot) bool) (writes []member.Write) {
	for _, key := range slices.Sorted(maps.Keys(c.records)) {
		if want(topology.SlotOf(key)) {
			writes = append(writes, member.Write{Key: key, Delete: true, KeyExists: true})
		}
	}
	return writes
}

// moved returns the writes that take in the records of a mover.
func (c *content) moved(records []causal.Moved) (writes []member.Write) {
	exists := map[string]bool{}
	for _, m := range records {
		e, known := exists[m.Key]
		if !known {
			_, e = c.records[m.Key]
		}
		remove := m.Record.Version.IsZero()
		writes = append(writes, member.Write{Key: m.Key, Record: m.Record, Delete: remove, KeyExists: e})
		exists[m.Key] = !remove
	}
	return writes
}

// loseLog makes the log of a member an empty one.
func (d *disk) loseLog() {
	d.volume, d.log, d.firstIndex, d.unsynced, d.syncing = 0, nil, 1, nil, false
}

// loseStorage makes the storage of a member an empty one.
func (d *disk) loseStorage() { d.content = newContent() }

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

// runTasks makes the storage of a member do what its machine asks for, one task after the other.
func (w *World) runTasks(n *node, m *shardMember) {
	m.tasks = m.Tasks(m.tasks)
	if len(m.tasks) == 0 {
		m.since = w.now
	}
	isHung := w.now < n.disk.hungUntil && w.now-n.disk.hungSince > int64(time.Second)
	if isSilent := isHung || w.now-m.since > int64(time.Second); isSilent != m.silent {
		m.silent = isSilent
		m.SetStorageResponds(w.clock(n), !isSilent)
	}
	if m.working || len(m.tasks) == 0 {
		return
	}
	m.working = true
	t := &m.tasks[0]
	if t.Kind != member.TaskRead {
		n.disk.task = t
	}
	w.schedule(w.storageDelay(n, 2*time.Millisecond), func() {
		if n.m != m {
			return
		}
		result := w.runTask(n, t)
		m.tasks, m.working = slices.Clone(m.tasks[1:]), false
		if result.Err == nil {
			m.since = w.now
		}
		m.TaskDone(w.clock(n), t.ID, result)
		w.flush(n)
	})
}

var errStorage = errors.New("the storage has failed")

// runTask carries out a task. One that fails may have been done all the same, and not be durable.
func (w *World) runTask(n *node, t *member.StorageTask) (r member.StorageTaskResult) {
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
