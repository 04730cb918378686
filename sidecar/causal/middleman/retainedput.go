package middleman

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// What a shard keeps of the puts that it has received, until they are known to be complete, so that somebody else can
// put them in all rings if their coordinator falls silent (PROTOCOL ADO). It is kept in memory: after a restart
// only what is received again counts.

// retainedPuts are those of all origins.
type retainedPuts struct {
	byOrigin   map[topology.Origin]*retainedLane
	bytes      int
	lastNumber uint64
}

// retainedLane are those of one origin, in the order in which they arrived.
type retainedLane struct {
	puts     []retainedPut
	known    []causal.HLC // of puts, ascending
	purgedAt causal.HLC   // SV when they were last purged
	// generation is that of the log that has sent them. What a log has sent that was given up since does not count.
	generation uint64
}

// retainedPut is a put with all its dependencies.
type retainedPut struct {
	number     uint64
	key        string
	record     causal.Record
	deps       causal.DepList
	previous   causal.HLC
	generation uint64
	complete   bool // it came without a value, because it is complete
}

const (
	// maxRetainedBytes bounds what is retained. What arrives beyond is not, and so cannot be adopted, nor what follows
	// it.
	maxRetainedBytes = 64 << 20
	// retainedOverhead is about what a retained put takes beside its key, value and dependencies, in bytes.
	retainedOverhead = 200
	// maxIdleRetained is the room for puts that an origin keeps when nothing of it is retained.
	maxIdleRetained = 4096
	// retainedPageBytes is about how much an answer to a query carries.
	retainedPageBytes = 1 << 20
)

func newRetainedPuts() retainedPuts {
	return retainedPuts{byOrigin: map[topology.Origin]*retainedLane{}}
}

func (p *retainedPut) size() int {
	return retainedOverhead + len(p.key) + p.record.Value.Size() + 24*p.deps.Len()
}

// retain keeps a put, with the dependencies that its ring has, unless filtered.
func (rs *retainedPuts) retain(a *causal.PutAfter, filtered bool) {
	v := a.Record.Version
	l := rs.byOrigin[v.Origin]
	if l != nil && a.Generation > l.generation {
		for i := range l.puts {
			rs.bytes -= l.puts[i].size()
		}
		l = nil
	}
	if l == nil {
		l = &retainedLane{generation: a.Generation}
		rs.byOrigin[v.Origin] = l
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
	p := retainedPut{number: rs.lastNumber + 1, key: a.Key, record: a.Record, deps: a.Deps, previous: a.Previous,
		generation: a.Generation, complete: a.Complete}
	if a.Met.Len() > 0 && !filtered {
		p.deps = a.Deps.With(a.Met)
	}
	if rs.bytes+p.size() > maxRetainedBytes {
		return
	}
	rs.lastNumber++
	rs.bytes += p.size()
	l.known = slices.Insert(l.known, place, v.HLC)
	l.puts = append(l.puts, p)
}

// purge drops what the vectors cover.
func (rs *retainedPuts) purge(known *causal.Stability) {
	for o, l := range rs.byOrigin {
		sv := known.SV(o)
		if sv == l.purgedAt {
			continue
		}
		l.purgedAt = sv
		l.puts = slices.DeleteFunc(l.puts, func(p retainedPut) bool {
			if p.record.Version.HLC > sv {
				return false
			}
			rs.bytes -= p.size()
			return true
		})
		covered, _ := slices.BinarySearch(l.known, sv+1)
		l.known = slices.Delete(l.known, 0, covered)
		if len(l.puts) == 0 && cap(l.puts) > maxIdleRetained {
			delete(rs.byOrigin, o)
		}
	}
}

// after returns the puts of an origin that have greater numbers.
func (rs *retainedPuts) after(o topology.Origin, number uint64) []retainedPut {
	l := rs.byOrigin[o]
	if l == nil {
		return nil
	}
	i, _ := slices.BinarySearchFunc(l.puts, number+1, func(p retainedPut, n uint64) int {
		return int(int64(p.number) - int64(n))
	})
	return l.puts[i:]
}

// reportRetained answers an adopter with the next puts of an origin.
func (a *adoption) reportRetained(from topology.Node, q causal.AdoptQuery) {
	if a.lanes.of(q.Origin) == nil {
		return
	}
	before := q.After
	if q.Incarnation != a.cfg.Incarnation {
		before = 0
	}
	h := causal.AdoptHeld{ID: q.ID, Origin: q.Origin, Incarnation: a.cfg.Incarnation, Map: a.slotMap()}
	retained := a.retained.after(q.Origin, before)
	if len(retained) == 0 {
		h.Before, h.None = before, true
		a.Send(h.Message(a.cfg.Self, from))
		return
	}
	bytes := 0
	for i := range retained {
		p := &retained[i]
		if bytes += p.size(); i > 0 && bytes > retainedPageBytes {
			return
		}
		h.Before, h.Number = before, p.number
		h.Key, h.Record, h.Deps, h.Previous, h.Generation = p.key, p.record, p.deps, p.previous, p.generation
		h.State = a.adoptionState(p.record.Version, topology.SlotOf(p.key))
		if p.complete {
			h.State = causal.AdoptionComplete
		} else if w := a.writes.pendingPut(p.record.Version); w != nil && !w.adopted {
			h.State = causal.AdoptionUnknown // nobody has told it yet that what follows it may be written
		}
		a.Send(h.Message(a.cfg.Self, from))
		before = p.number
	}
}
