package middleman

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// What a shard keeps of the puts that it has received, until they are known to be complete, so that somebody else can
// put them in all rings if their coordinator falls silent (PROTOCOL ADO). It is kept in memory: after a restart
// only what is received again counts.

// heldPuts are those of all origins.
type heldPuts struct {
	byOrigin   map[topology.Origin]*heldLane
	bytes      int
	lastNumber uint64
}

// heldLane are those of one origin, in the order in which they arrived.
type heldLane struct {
	puts     []heldPut
	known    []causal.HLC // of puts, ascending
	purgedAt causal.HLC   // SV when they were last purged
	// generation is that of the log that has sent them. What a log has sent that was given up since does not count.
	generation uint64
}

// heldPut is a put with all its dependencies.
type heldPut struct {
	number     uint64
	key        string
	record     causal.Record
	deps       causal.DepList
	previous   causal.HLC
	generation uint64
	complete   bool // it came without a value, because it is complete
}

const (
	// maxHeldBytes bounds what is held. What arrives beyond is not held, and so cannot be adopted, nor what follows it.
	maxHeldBytes = 64 << 20
	// heldOverhead is about what a held put takes beside its key, value and dependencies, in bytes.
	heldOverhead = 200
	// maxIdleHeld is the room for puts that an origin keeps when nothing of it is held.
	maxIdleHeld = 4096
	// heldPageBytes is about how much an answer to a query carries.
	heldPageBytes = 1 << 20
)

func newHeldPuts() heldPuts { return heldPuts{byOrigin: map[topology.Origin]*heldLane{}} }

func (p *heldPut) size() int {
	return heldOverhead + len(p.key) + p.record.Value.Size() + 24*p.deps.Len()
}

// hold keeps a put, with the dependencies that its ring has, unless filtered.
func (hs *heldPuts) hold(a *causal.PutAfter, filtered bool) {
	v := a.Record.Version
	l := hs.byOrigin[v.Origin]
	if l != nil && a.Generation > l.generation {
		for i := range l.puts {
			hs.bytes -= l.puts[i].size()
		}
		l = nil
	}
	if l == nil {
		l = &heldLane{generation: a.Generation}
		hs.byOrigin[v.Origin] = l
	}
	place := len(l.known) // puts mostly come in order
	if place > 0 && v.HLC <= l.known[place-1] {
		var found bool
		if place, found = slices.BinarySearch(l.known, v.HLC); found {
			return
		}
	}
	if len(l.puts) == 0 {
		l.generation, l.purgedAt = a.Generation, 0
	}
	p := heldPut{number: hs.lastNumber + 1, key: a.Key, record: a.Record, deps: a.Deps, previous: a.Previous,
		generation: a.Generation, complete: a.Complete}
	if a.Met.Len() > 0 && !filtered {
		p.deps = a.Deps.With(a.Met)
	}
	if hs.bytes+p.size() > maxHeldBytes {
		return
	}
	hs.lastNumber++
	hs.bytes += p.size()
	l.known = slices.Insert(l.known, place, v.HLC)
	l.puts = append(l.puts, p)
}

// purge drops what the vectors cover.
func (hs *heldPuts) purge(known *causal.Stability) {
	for o, l := range hs.byOrigin {
		sv := known.SV(o)
		if sv == l.purgedAt {
			continue
		}
		l.purgedAt = sv
		l.puts = slices.DeleteFunc(l.puts, func(p heldPut) bool {
			if p.record.Version.HLC > sv {
				return false
			}
			hs.bytes -= p.size()
			return true
		})
		covered, _ := slices.BinarySearch(l.known, sv+1)
		l.known = slices.Delete(l.known, 0, covered)
		if len(l.puts) == 0 && cap(l.puts) > maxIdleHeld {
			delete(hs.byOrigin, o)
		}
	}
}

// after returns the puts of an origin that have greater numbers.
func (hs *heldPuts) after(o topology.Origin, number uint64) []heldPut {
	l := hs.byOrigin[o]
	if l == nil {
		return nil
	}
	i, _ := slices.BinarySearchFunc(l.puts, number+1, func(p heldPut, n uint64) int {
		return int(int64(p.number) - int64(n))
	})
	return l.puts[i:]
}

// reportHeld answers an adopter with the next puts of an origin.
func (m *Middleman) reportHeld(from topology.Node, q causal.AdoptQuery) {
	if m.lanes.of(q.Origin) == nil {
		return
	}
	before := q.After
	if q.Incarnation != m.cfg.Incarnation {
		before = 0
	}
	h := causal.AdoptHeld{ID: q.ID, Origin: q.Origin, Incarnation: m.cfg.Incarnation, Map: m.slotMap()}
	held := m.held.after(q.Origin, before)
	if len(held) == 0 {
		h.Before, h.None = before, true
		m.Send(h.Message(m.cfg.Self, from))
		return
	}
	bytes := 0
	for i := range held {
		p := &held[i]
		if bytes += p.size(); i > 0 && bytes > heldPageBytes {
			return
		}
		h.Before, h.Number = before, p.number
		h.Key, h.Record, h.Deps, h.Previous, h.Generation = p.key, p.record, p.deps, p.previous, p.generation
		h.State = m.adoptionState(p.record.Version, topology.SlotOf(p.key))
		if p.complete {
			h.State = causal.AdoptionComplete
		} else if w := m.writes.pendingPut(p.record.Version); w != nil && !w.adopted {
			h.State = causal.AdoptionUnknown // nobody has told it yet that what follows it may be written
		}
		m.Send(h.Message(m.cfg.Self, from))
		before = p.number
	}
}
