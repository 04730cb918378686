package causal

import "github.com/causalstore/causalstore/topology"

// What a message speaks of, for the authorization of links: a part may speak for itself only.

// SpeaksOnlyOf reports whether every version and every vector in m, beside dependencies, is of an origin. A version
// that names no write is of every origin.
func (m *Message) SpeaksOnlyOf(o topology.Origin) bool {
	if b, ok := m.body.(interface{ speaksOf() Version }); ok {
		v := b.speaksOf()
		return v == (Version{}) || v.Origin == o
	}
	f := &m.fields
	if v := f.Record.Version; v != (Version{}) && v.Origin != o {
		return false
	}
	for i := range f.Versions {
		if f.Versions[i].Origin != o {
			return false
		}
	}
	for i := range f.Vectors {
		if e := &f.Vectors[i]; e.Origin != o || e.Last != 0 && e.Last != o {
			return false
		}
	}
	return true
}

// areOfDC reports whether entries are of origins of a data center, in ascending order.
func areOfDC(entries []VectorEntry, dc topology.DC, t *topology.Topology) bool {
	next := t.OriginOf(topology.Node{DC: dc, Part: topology.Coordinator})
	end := next + topology.MaxCoordinators
	for i := range entries {
		e := &entries[i]
		last := max(e.Origin, e.Last)
		if e.Origin < next || last >= end || len(e.RV) > len(t.Rings) {
			return false
		}
		next = last + 1
	}
	return true
}

// IsOfRing reports whether m names a ring. An answer that reports a failure need not name one.
func (m *Message) IsOfRing(r topology.RingID) bool { return m.fields.Ring == r || m.fields.Err != OK }
