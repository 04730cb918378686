package causal

import "github.com/causalstore/causalstore/topology"

// Before a kind had a body, its content was in Fields, as that of all kinds was. What is sent to a process of before,
// and received from one, is converted here. This file, and BodyField.before, can go with link protocols 1 and 2.

// sharedField names a field of Shared.
type sharedField uint8

const (
	sharedID sharedField = iota + 1
	sharedSession
	sharedSeq
	sharedEpoch
	sharedHash
	sharedHLC
	sharedCut
	sharedDuration
	sharedErr
	sharedMap
	sharedReachIncarnation // a Reach is two versions; the zero Reach none
	sharedReachChanges
	sharedClean
	sharedHit
	sharedOlder
	sharedVersionOnly
	sharedKey
	sharedData    // of the record's value
	sharedVersion // of the record
	sharedRecord
	sharedMoved
	sharedNames // keys of Moved
	sharedVersions
	sharedDeps
	sharedDep // the only one
	sharedVectors
	sharedLatencies // the two numbers of each round trip
	sharedMarks     // of shards, as versions
	sharedRanges    // of keys, as the data of the record's value
)

// Shared is the content of a message of any kind, as it was before some kinds had bodies.
type Shared struct {
	Fields
	Former
}

// Former are the fields that only kinds have used that have bodies now.
type Former struct {
	Latencies []float64
	Moved     []Moved
}

// Shared returns the content of m as it was before its kind had a body.
func (m *Message) Shared() Shared {
	if m.body == nil || bodies[m.Kind].since <= 1 {
		return Shared{Fields: m.fields}
	}
	s := sharedFields{of: &Shared{Fields: Fields{Exclusions: m.fields.Exclusions}}}
	m.body.Visit(VisitorFunc(s.visit))
	return *s.of
}

// MakeBody gives m a body if its kind has one and it has none: its content is in Fields, and former.
func (m *Message) MakeBody(former Former) {
	if m.body != nil || !hasBody(m.Kind) || bodies[m.Kind].since <= 1 {
		return
	}
	b, s := NewBody(m.Kind), sharedFields{of: &Shared{m.fields, former}, toBody: true}
	b.Visit(VisitorFunc(s.visit))
	m.body, m.fields = b, Fields{Exclusions: m.fields.Exclusions}
}

// sharedFields copies the fields of a body to Shared, or back.
type sharedFields struct {
	of     *Shared
	toBody bool
}

// visit is a VisitorFunc.
func (s *sharedFields) visit(f BodyField, p any) {
	if !f.IsShared() {
		return
	}
	switch p := p.(type) {
	case *uint64:
		if s.toBody {
			*p = min(s.number(f.before), f.Max)
		} else {
			s.setNumber(f.before, *p)
		}
	case *HLC:
		exchange(s, p, s.time(f.before))
	case *bool:
		exchange(s, p, s.flag(f.before))
	case *string:
		s.text(f.before, p)
	case *[]string:
		s.names(p)
	case *[]byte:
		exchange(s, p, &s.of.Record.Value.Data)
	case *Record:
		exchange(s, p, &s.of.Record)
	case *[]Moved:
		exchange(s, p, &s.of.Moved)
	case *Version:
		exchange(s, p, &s.of.Record.Version)
	case *[]Version:
		exchange(s, p, &s.of.Versions)
	case *Dep:
		s.dep(p)
	case *[]Dep:
		exchange(s, p, &s.of.Deps)
	case *[]VectorEntry:
		exchange(s, p, &s.of.Vectors)
	case BodyParts:
		s.parts(p.List())
	}
}

func (s *sharedFields) number(which sharedField) uint64 {
	switch which {
	case sharedID:
		return s.of.ID
	case sharedSession:
		return s.of.Session
	case sharedSeq:
		return s.of.Seq
	case sharedEpoch:
		return s.of.Epoch
	case sharedHash:
		return s.of.Hash
	case sharedCut:
		return uint64(s.of.Cut)
	case sharedDuration:
		return uint64(s.of.Duration)
	case sharedErr:
		return uint64(s.of.Err)
	case sharedMap:
		return uint64(s.of.Map)
	case sharedReachIncarnation, sharedReachChanges:
		if vs := s.of.Versions; len(vs) == 2 {
			return uint64(vs[which-sharedReachIncarnation].HLC)
		}
	}
	return 0
}

func (s *sharedFields) setNumber(which sharedField, n uint64) {
	switch which {
	case sharedID:
		s.of.ID = n
	case sharedSession:
		s.of.Session = n
	case sharedSeq:
		s.of.Seq = n
	case sharedEpoch:
		s.of.Epoch = n
	case sharedHash:
		s.of.Hash = n
	case sharedCut:
		s.of.Cut = HLC(n)
	case sharedDuration:
		s.of.Duration = int64(n)
	case sharedErr:
		s.of.Err = ErrCode(n)
	case sharedMap:
		s.of.Map = topology.MapID(n)
	case sharedReachIncarnation, sharedReachChanges:
		if n != 0 && s.of.Versions == nil {
			s.of.Versions = make([]Version, 2)
		}
		if n != 0 {
			s.of.Versions[which-sharedReachIncarnation].HLC = HLC(n)
		}
	}
}

func (s *sharedFields) time(which sharedField) *HLC {
	if which == sharedCut {
		return &s.of.Cut
	}
	return &s.of.HLC
}

func (s *sharedFields) flag(which sharedField) *bool {
	switch which {
	case sharedHit:
		return &s.of.Hit
	case sharedOlder:
		return &s.of.Older
	case sharedVersionOnly:
		return &s.of.VersionOnly
	}
	return &s.of.Clean
}

func (s *sharedFields) text(which sharedField, p *string) {
	switch {
	case which == sharedKey:
		exchange(s, p, &s.of.Key)
	case s.toBody:
		*p = string(s.of.Record.Value.Data)
	case *p != "":
		s.of.Record.Value.Data = []byte(*p)
	}
}

func (s *sharedFields) names(p *[]string) {
	if s.toBody {
		for i := range s.of.Moved {
			*p = append(*p, s.of.Moved[i].Key)
		}
		return
	}
	for _, name := range *p {
		s.of.Moved = append(s.of.Moved, Moved{Key: name})
	}
}

func (s *sharedFields) dep(p *Dep) {
	switch {
	case !s.toBody:
		s.of.Deps = []Dep{*p}
	case len(s.of.Deps) > 0:
		*p = s.of.Deps[0]
	}
}

// parts copies a list of parts, given as a pointer to it.
func (s *sharedFields) parts(list any) {
	switch p := list.(type) {
	case *[]ShardMark:
		if s.toBody {
			*p = decodeMarks(s.of.Versions)
		} else {
			s.of.Versions = encodeMarks(*p)
		}
	case *[]KeyRange:
		if s.toBody {
			*p = rangesOf(s.of.Record)
		} else {
			s.of.Record = KeyRanges(*p).record()
		}
	case *[]RoundTrip:
		if s.toBody {
			*p = decodeRoundTrips(s.of.Latencies)
		} else {
			s.of.Latencies = encodeRoundTrips(*p)
		}
	}
}

func exchange[T any](s *sharedFields, body, shared *T) {
	if s.toBody {
		*body = *shared
	} else {
		*shared = *body
	}
}

// encodeRoundTrips stores round trips as two numbers each.
func encodeRoundTrips(trips []RoundTrip) (ms []float64) {
	for _, r := range trips {
		ms = append(ms, r.Ms, r.ExpectedMs)
	}
	return ms
}

func decodeRoundTrips(ms []float64) (trips []RoundTrip) {
	for ; len(ms) >= 2; ms = ms[2:] {
		trips = append(trips, RoundTrip{ms[0], ms[1]})
	}
	return trips
}
