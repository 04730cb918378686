package causal

import "github.com/causalstore/causalstore/topology"

// Before link protocol 2, all kinds shared Fields. What is sent to a process of before, and received from one, is
// converted here. This file, and BodyField.before, can go with protocol 1.

// sharedField names a field of Fields.
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
	sharedClean
	sharedHit
	sharedKey
	sharedData // of the record's value
	sharedRecord
	sharedMoved
	sharedVersions
	sharedDeps
)

// lastShared is the last kind that was in Fields. A process of before knows no later one, and ignores it: it is sent
// with its body.
const lastShared = KindAdoptState

// WithoutBody returns m with its body in Fields, if a process of before knows its kind.
func (m *Message) WithoutBody() Message {
	if m.body == nil || m.Kind > lastShared {
		return *m
	}
	c := Message{Kind: m.Kind, From: m.From, To: m.To, fields: Fields{Exclusions: m.fields.Exclusions}}
	m.body.Visit(&sharedFields{f: &c.fields})
	return c
}

// MakeBody gives m a body if its kind has one and it has none: its content is in Fields.
func (m *Message) MakeBody() {
	if m.body != nil || m.Kind > lastShared {
		return
	}
	b := NewBody(m.Kind)
	if b == nil {
		return
	}
	b.Visit(&sharedFields{f: &m.fields, toBody: true})
	m.body, m.fields = b, Fields{Exclusions: m.fields.Exclusions}
}

// sharedFields copies the fields of a body to Fields, or back.
type sharedFields struct {
	f      *Fields
	toBody bool
}

// Number implements BodyVisitor.
func (s *sharedFields) Number(f BodyField, is uint64) (n uint64, set bool) {
	if s.toBody {
		return min(s.number(f.before), f.Max), true
	}
	s.setNumber(f.before, is)
	return 0, false
}

func (s *sharedFields) number(which sharedField) uint64 {
	switch which {
	case sharedID:
		return s.f.ID
	case sharedSession:
		return s.f.Session
	case sharedSeq:
		return s.f.Seq
	case sharedEpoch:
		return s.f.Epoch
	case sharedHash:
		return s.f.Hash
	case sharedCut:
		return uint64(s.f.Cut)
	case sharedDuration:
		return uint64(s.f.Duration)
	case sharedErr:
		return uint64(s.f.Err)
	case sharedMap:
		return uint64(s.f.Map)
	}
	return 0
}

func (s *sharedFields) setNumber(which sharedField, n uint64) {
	switch which {
	case sharedID:
		s.f.ID = n
	case sharedSession:
		s.f.Session = n
	case sharedSeq:
		s.f.Seq = n
	case sharedEpoch:
		s.f.Epoch = n
	case sharedHash:
		s.f.Hash = n
	case sharedCut:
		s.f.Cut = HLC(n)
	case sharedDuration:
		s.f.Duration = int64(n)
	case sharedErr:
		s.f.Err = ErrCode(n)
	case sharedMap:
		s.f.Map = topology.MapID(n)
	}
}

// Time implements BodyVisitor.
func (s *sharedFields) Time(f BodyField, p *HLC) {
	if f.before == sharedCut {
		exchange(s, p, &s.f.Cut)
		return
	}
	exchange(s, p, &s.f.HLC)
}

// Flag implements BodyVisitor.
func (s *sharedFields) Flag(f BodyField, p *bool) {
	if f.before == sharedHit {
		exchange(s, p, &s.f.Hit)
		return
	}
	exchange(s, p, &s.f.Clean)
}

// Text implements BodyVisitor.
func (s *sharedFields) Text(f BodyField, p *string) {
	switch {
	case f.before == sharedKey:
		exchange(s, p, &s.f.Key)
	case s.toBody:
		*p = string(s.f.Record.Value.Data)
	case *p != "":
		s.f.Record.Value.Data = []byte(*p)
	}
}

// Bytes implements BodyVisitor.
func (s *sharedFields) Bytes(_ BodyField, p *[]byte) { exchange(s, p, &s.f.Record.Value.Data) }

// Record implements BodyVisitor.
func (s *sharedFields) Record(_ BodyField, p *Record) { exchange(s, p, &s.f.Record) }

// Records implements BodyVisitor.
func (s *sharedFields) Records(_ BodyField, p *[]Moved) { exchange(s, p, &s.f.Moved) }

// Versions implements BodyVisitor.
func (s *sharedFields) Versions(_ BodyField, p *[]Version) { exchange(s, p, &s.f.Versions) }

// Deps implements BodyVisitor.
func (s *sharedFields) Deps(_ BodyField, p *[]Dep) { exchange(s, p, &s.f.Deps) }

func exchange[T any](s *sharedFields, body, shared *T) {
	if s.toBody {
		*body = *shared
	} else {
		*shared = *body
	}
}
