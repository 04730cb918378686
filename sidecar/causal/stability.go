package causal

import (
	"slices"

	"github.com/causalstore/causalstore/topology"
)

// Stability holds the vectors SV and RV of every origin (PROTOCOL COO). Entries only grow.
//
// Invariant: SV[o] <= RV[r][o] for every ring r, since complete means acknowledged by all rings.
type Stability struct {
	sv      []HLC   // by origin; index 0 is unused
	rv      [][]HLC // by ring, by origin
	settled []HLC   // by origin; see Settled
}

// NewStability returns vectors in which nothing is known.
func NewStability(t *topology.Topology) *Stability {
	s := &Stability{sv: make([]HLC, t.Origins()+1), rv: make([][]HLC, len(t.Rings)),
		settled: make([]HLC, t.Origins()+1)}
	for r := range s.rv {
		s.rv[r] = make([]HLC, t.Origins()+1)
	}
	return s
}

// SV returns the HLC at or below which every write of an origin is known to be complete.
func (s *Stability) SV(o topology.Origin) HLC { return s.sv[o] }

// RV returns the HLC at or below which every write of an origin is known to be acknowledged by ring r.
func (s *Stability) RV(r topology.RingID, o topology.Origin) HLC { return s.rv[r][o] }

// Settled returns the HLC at or below which every write of an origin is known to be complete, or to be lost with a log
// that was given up. SV does not pass what is lost before all that may precede it is settled (PROTOCOL LOG-6).
func (s *Stability) Settled(o topology.Origin) HLC { return max(s.sv[o], s.settled[o]) }

// settledBeside returns Settled as an entry has it: 0 if it is SV.
func (s *Stability) settledBeside(o topology.Origin) HLC {
	if s.settled[o] <= s.sv[o] {
		return 0
	}
	return s.settled[o]
}

// Merge takes the newer of both and reports whether any entry was newer. What is above limit is taken for limit: what
// holds up to a timestamp also holds up to an earlier one.
func (s *Stability) Merge(entries []VectorEntry, limit HLC) bool {
	changed := false
	for i := range entries {
		e := &entries[i]
		for o := int(e.Origin); o <= max(int(e.Origin), int(e.Last)) && o < len(s.sv); o++ {
			changed = s.merge(o, e, limit) || changed
		}
	}
	return changed
}

// IsNews reports whether Merge would find an entry newer.
func (s *Stability) IsNews(entries []VectorEntry, limit HLC) bool {
	for i := range entries {
		e := &entries[i]
		for o := int(e.Origin); o <= max(int(e.Origin), int(e.Last)) && o < len(s.sv); o++ {
			if min(e.SV, limit) > s.sv[o] || min(e.Settled, limit) > s.Settled(topology.Origin(o)) {
				return true
			}
			for r := range s.rv {
				if min(e.ring(r), limit) > s.rv[r][o] {
					return true
				}
			}
		}
	}
	return false
}

// ring returns the HLC at or below which a ring has acknowledged every write of the origin.
func (e *VectorEntry) ring(r int) HLC {
	if r < len(e.RV) {
		return max(e.SV, e.RV[r])
	}
	return e.SV
}

func (s *Stability) merge(o int, e *VectorEntry, limit HLC) (changed bool) {
	if sv := min(e.SV, limit); sv > s.sv[o] {
		s.sv[o], changed = sv, true
	}
	if h := min(e.Settled, limit); h > s.Settled(topology.Origin(o)) {
		s.settled[o], changed = h, true
	}
	for r := range s.rv {
		if h := min(e.ring(r), limit); h > s.rv[r][o] {
			s.rv[r][o], changed = h, true
		}
	}
	return changed
}

// Entry returns what is known of one origin.
func (s *Stability) Entry(o topology.Origin) VectorEntry {
	e := VectorEntry{Origin: o, SV: s.sv[o], RV: make([]HLC, len(s.rv))}
	for r := range s.rv {
		e.RV[r] = s.rv[r][o]
	}
	e.Settled = s.settledBeside(o)
	return e
}

// Entries returns what is known of all origins. Neighbors with equal values share an entry; origins of which nothing is
// known are left out.
func (s *Stability) Entries() []VectorEntry { return s.EntriesBetween(1, topology.Origin(len(s.sv)-1)) }

// EntriesBetween returns the entries of the origins from first to last.
func (s *Stability) EntriesBetween(first, last topology.Origin) []VectorEntry {
	var all []VectorEntry
	for o := first; o <= last; o++ {
		e := VectorEntry{Origin: o, SV: s.sv[o], Settled: s.settledBeside(o)}
		for o < last && s.isEqual(o, o+1) {
			o++
			e.Last = o
		}
		if flat := !slices.ContainsFunc(s.rv, func(rv []HLC) bool { return rv[o] != e.SV }); !flat {
			e.RV = s.Entry(o).RV
		} else if e.SV == 0 && e.Settled == 0 {
			continue
		}
		all = append(all, e)
	}
	return all
}

// isEqual reports whether the same is known of two origins.
func (s *Stability) isEqual(a, b topology.Origin) bool {
	return s.sv[a] == s.sv[b] && s.Settled(a) == s.Settled(b) && !slices.ContainsFunc(s.rv, func(rv []HLC) bool {
		return rv[a] != rv[b]
	})
}

// Complete reports whether v is known to be in all rings, and older values of its key in no cache.
func (s *Stability) Complete(v Version) bool {
	return int(v.Origin) < len(s.sv) && v.HLC <= s.sv[v.Origin]
}

// ProcessedIn reports whether v is known to be acknowledged by ring r.
func (s *Stability) ProcessedIn(r topology.RingID, v Version) bool {
	return int(v.Origin) < len(s.sv) && v.HLC <= s.rv[r][v.Origin]
}

// RingsWith returns the rings that are known to have acknowledged v.
func (s *Stability) RingsWith(v Version) topology.RingSet {
	var set topology.RingSet
	for r := range s.rv {
		if s.ProcessedIn(topology.RingID(r), v) {
			set = set.With(topology.RingID(r))
		}
	}
	return set
}

// MinSV returns a cut at or below which every write of every origin is complete. Being one timestamp and not a vector,
// it is closed under happens-before: a dependency has a smaller HLC than what depends on it.
func (s *Stability) MinSV() HLC { return least(s.sv[1:]) }

// Cut is an HLC to read at.
//
// Invariant: every write at or below Complete is complete, and so is every write at or below At of an origin that is
// not of a data center in LeftOut.
type Cut struct {
	At, Complete HLC
	LeftOut      uint64 // a bit for each data center
}

// Covers reports whether a version is complete because of the cut.
func (c *Cut) Covers(v Version) bool {
	return v.HLC <= c.Complete || v.HLC <= c.At && v.Origin != 0 &&
		c.LeftOut>>((v.Origin-1)/topology.MaxCoordinators)&1 == 0
}

// LeftOut returns how many data centers cuts leave out, of n: a quarter. Those are the furthest behind.
func LeftOut(n int) int { return n / 4 }

// LeftOutAtMost is LeftOut, if one of the data centers may be late.
func LeftOutAtMost(n int) int { return max(LeftOut(n), 1) }

// CutWithout returns the cut at or below which every write is complete, but for those of the n data centers whose
// origins are the furthest behind. It never leaves out all.
func (s *Stability) CutWithout(n int) Cut { return cutWithout(s.sv[1:], n) }

func cutWithout(hs []HLC, n int) (c Cut) {
	var byDC, sorted [topology.MaxDCs]HLC
	dcs := 0
	for ; dcs*topology.MaxCoordinators < len(hs); dcs++ {
		byDC[dcs] = least(hs[dcs*topology.MaxCoordinators : min((dcs+1)*topology.MaxCoordinators, len(hs))])
	}
	copy(sorted[:], byDC[:dcs])
	slices.Sort(sorted[:dcs])
	c.At, c.Complete = sorted[min(n, dcs-1)], sorted[0]
	for dc, h := range byDC[:dcs] {
		if h < c.At {
			c.LeftOut |= 1 << dc
		}
	}
	return c
}

// NewestCutWithout returns a cut at or below which some ring has every write, but for those of the n data centers whose
// origins are the furthest behind there: soon CutWithout will get there.
func (s *Stability) NewestCutWithout(n int) HLC {
	var m HLC
	for r := range s.rv {
		m = max(m, cutWithout(s.rv[r][1:], n).At)
	}
	return m
}

// MinRV returns a cut at or below which ring r has every write.
func (s *Stability) MinRV(r topology.RingID) HLC { return least(s.rv[r][1:]) }

// MaxSV returns the greatest entry of SV.
func (s *Stability) MaxSV() HLC {
	var m HLC
	for _, h := range s.sv[1:] {
		m = max(m, h)
	}
	return m
}

// MaxRV returns the greatest entry of all vectors.
func (s *Stability) MaxRV() HLC {
	var m HLC
	for _, rv := range s.rv {
		for _, h := range rv[1:] {
			m = max(m, h)
		}
	}
	return m
}

// MaxRVOf returns the greatest entry of the origins of a data center. It grows while anything new is known of them.
func (s *Stability) MaxRVOf(dc topology.DC) HLC {
	var m HLC
	first := 1 + int(dc)*topology.MaxCoordinators
	for _, rv := range s.rv {
		for _, h := range rv[first:min(first+topology.MaxCoordinators, len(rv))] {
			m = max(m, h)
		}
	}
	return m
}

func least(hs []HLC) HLC {
	m := ^HLC(0)
	for _, h := range hs {
		m = min(m, h)
	}
	return m
}
