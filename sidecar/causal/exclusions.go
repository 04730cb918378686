package causal

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/causalstore/causalstore/topology"
)

// Exclusions say, by data center, how often it was excluded (PROTOCOL EXC-1). They are never changed
// in place, and end with a number that is not 0.
type Exclusions []uint32

// ExclusionsOf returns the exclusions that a topology declares.
func ExclusionsOf(t *topology.Topology) (x Exclusions) {
	for dc := range t.DCs {
		if n := t.DCs[dc].Exclusions; n > 0 {
			x = append(slices.Grow(x, dc+1-len(x)), make(Exclusions, dc-len(x))...)
			x = append(x, uint32(min(n, math.MaxUint32)))
		}
	}
	return x
}

// Of returns how often a data center was excluded.
func (x Exclusions) Of(dc topology.DC) uint32 {
	if int(dc) < len(x) {
		return x[dc]
	}
	return 0
}

// Covers reports whether x has every exclusion of y.
func (x Exclusions) Covers(y Exclusions) bool {
	for dc, n := range y {
		if x.Of(topology.DC(dc)) < n {
			return false
		}
	}
	return true
}

// With returns the exclusions of both.
func (x Exclusions) With(y Exclusions) Exclusions {
	if x.Covers(y) {
		return x
	}
	all := make(Exclusions, max(len(x), len(y)))
	for dc := range all {
		all[dc] = max(x.Of(topology.DC(dc)), y.Of(topology.DC(dc)))
	}
	return all
}

// Encode returns x as bytes: the numbers as varints.
func (x Exclusions) Encode() (b []byte) {
	for _, n := range x {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

// ParseExclusions is the inverse of Encode.
func ParseExclusions(b []byte) (x Exclusions, err error) {
	for len(b) > 0 {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > math.MaxUint32 || len(x) >= topology.MaxDCs {
			return nil,
				errors.New("it is no list of exclusions; the disk is damaged, or belongs to another application")
		}
		x, b = append(x, uint32(v)), b[n:]
	}
	return x, nil
}

// ExclusionCheck says what to do with a message, by the exclusions that its sender applies.
type ExclusionCheck uint8

// The results of Exclusions.Check.
const (
	// ExclusionsAdmit: handle it.
	ExclusionsAdmit ExclusionCheck = iota
	// ExclusionsRefuse: drop it. The sender applies exclusions that the configuration here does not know yet, or it has
	// data of an excluded data center and does not know that.
	ExclusionsRefuse
	// ExclusionsNew: what is here has to apply the exclusions of the sender first.
	ExclusionsNew
)

// Check says what a part that applies x does with a message. It may apply all exclusions that its configuration knows;
// no message teaches it others, so that nobody can make shards drop their data by a message alone.
func (x Exclusions) Check(m *Message, known Exclusions, broken Mutations) ExclusionCheck {
	theirs := m.fields.Exclusions
	if len(x)+len(theirs) == 0 || broken.Has(ExclusionUnmarked) {
		return ExclusionsAdmit
	}
	switch {
	case !x.Covers(theirs) && !x.With(known).Covers(theirs):
		return ExclusionsRefuse
	case !x.Covers(theirs):
		return ExclusionsNew
	case m.From.Part == topology.Middleman && theirs.Of(m.From.DC) < x.Of(m.From.DC):
		return ExclusionsRefuse
	}
	return ExclusionsAdmit
}

// Exclusions returns the exclusions that the sender of m applies.
func (m *Message) Exclusions() Exclusions { return m.fields.Exclusions }
