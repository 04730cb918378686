package causal

import (
	"fmt"

	"github.com/causalstore/causalstore/topology"
)

// The sizes of what may be written. A coordinator refuses a put beyond them, and so does the sidecar that would send
// it: what is in a log has to fit into every message, page and record that carries it on.
const (
	// MaxKeyBytes is the longest name under which a key is stored: a key of 64 KiB, and room for what a front end puts
	// before it.
	MaxKeyBytes = 64<<10 + 64
	// MaxValueBytes is the longest value.
	MaxValueBytes = 16 << 20
	// MaxRestrictions bounds the in-flight versions that a session may have read, and MaxPutDeps the dependencies that
	// a put names: these, and the newest own put.
	MaxRestrictions = 4096
	MaxPutDeps      = MaxRestrictions + 1
	// MaxInheritedDeps bounds the dependencies of a write that inherits any from its predecessors.
	MaxInheritedDeps = 128
	// MaxDeps bounds those in a message: what a put names, its predecessor in the session, and one lane to each shard
	// of a ring.
	MaxDeps = MaxPutDeps + 1 + topology.Slots
)

// MissingDepBytes is about what a dependency of a put takes at a middleman while the write that it names is missing
// there, in bytes. Coordinators count it for what they have in flight, and middlemen for what they have staged.
const MissingDepBytes = 128

// MaxMessageBytes bounds the encoding of a message. Versions without the bounds above have accepted puts of up to 20
// MiB, with key and dependencies; the rest is for what other messages and the log of a group add to the same record.
const MaxMessageBytes = 20<<20 + 192<<10

// CheckPut returns an error if a put is too large.
func CheckPut(key string, v Value, deps int) error {
	switch {
	case len(key) > MaxKeyBytes:
		return fmt.Errorf("the key has %d bytes; at most %d can be stored", len(key), MaxKeyBytes)
	case len(v.Data) > MaxValueBytes:
		return fmt.Errorf("the value has %d bytes; at most %d can be stored", len(v.Data), MaxValueBytes)
	case deps > MaxPutDeps:
		return fmt.Errorf("the put names %d dependencies; at most %d are taken", deps, MaxPutDeps)
	}
	return nil
}

// The greatest sizes in bytes of what messages are made of, encoded.
const (
	maxVersionBytes  = 1 + 8 + 1 + 5               // HLC and origin, each with a tag
	maxDepBytes      = 2 + maxVersionBytes + 1 + 2 // with a tag, a length and a slot
	maxRecordBytes   = 2*(1+4) + maxVersionBytes + 1 + 10 + 2
	maxVectorBytes   = 2 + 2 + 2*(1+5) + 2*(1+8) + 1 + 2
	maxMovedBytes    = 2 + 4 + 1 + 4 + maxRecordBytes
	maxOverheadBytes = 256 // kind, route, and every field with one value
)

// MaxEncodedSize returns a size that the encoding of m does not exceed, in bytes.
func (m *Message) MaxEncodedSize() int {
	f := &m.fields
	n := maxOverheadBytes + len(f.Key) + maxRecordBytes + len(f.Record.Value.Data) + maxDepBytes*len(f.Deps) +
		(2+maxVersionBytes)*len(f.Versions) +
		5*len(f.Exclusions) + m.sizeOfBody().most
	for i := range f.Vectors {
		n += maxVectorBytes + 8*len(f.Vectors[i].RV)
	}
	return n
}

// FitsMessage reports whether a message is within the bounds that every reader takes.
func (m *Message) FitsMessage() bool {
	return m.MaxEncodedSize() <= MaxMessageBytes && m.Lists().Deps <= MaxDeps
}

// Lists is what the lists of a message have.
type Lists struct {
	Deps    int           // how many dependencies
	Slot    topology.Slot // the greatest one of the dependencies
	Longest int           // the length of the longest list of something else
	Rings   int           // the greatest number of rings in a vector
}

// Lists returns what the lists of m have.
func (m *Message) Lists() Lists {
	l := m.sizeOfBody().Lists
	l.addDeps(m.fields.Deps)
	l.addVectors(m.fields.Vectors)
	l.Longest = max(l.Longest, len(m.fields.Versions))
	return l
}

func (l *Lists) addDeps(deps []Dep) {
	l.Deps += len(deps)
	for i := range deps {
		l.Slot = max(l.Slot, deps[i].Slot)
	}
}

func (l *Lists) addVectors(entries []VectorEntry) {
	l.Longest = max(l.Longest, len(entries))
	for i := range entries {
		l.Rings = max(l.Rings, len(entries[i].RV))
	}
}

// bodySize is a BodyVisitor that measures a body.
type bodySize struct {
	Lists
	most    int // what the encoding takes at most, in bytes
	payload int // the key and the value
}

// maxFieldBytes is what the tag of a field of a body takes at most, and a number or the length of something else.
const maxFieldBytes = 2 + 10

// BodySize returns a size that the encoding of the body of m does not exceed, in bytes.
func (m *Message) BodySize() int { return m.sizeOfBody().most }

func (m *Message) sizeOfBody() bodySize {
	if m.body == nil {
		return bodySize{}
	}
	return measure(m.body)
}

// measure is apart, since what it passes to a body is allocated, and most messages have none.
func measure(b Body) (s bodySize) {
	b.Visit(&s)
	return s
}

// Number implements BodyVisitor.
func (s *bodySize) Number(BodyField, uint64) (uint64, bool) {
	s.most += maxFieldBytes
	return 0, false
}

// Time implements BodyVisitor.
func (s *bodySize) Time(BodyField, *HLC) { s.most += maxFieldBytes }

// Flag implements BodyVisitor.
func (s *bodySize) Flag(BodyField, *bool) { s.most += maxFieldBytes }

// Float implements BodyVisitor.
func (s *bodySize) Float(BodyField, *float64) { s.most += maxFieldBytes }

// Text implements BodyVisitor.
func (s *bodySize) Text(_ BodyField, p *string) {
	s.most += maxFieldBytes + len(*p)
	s.payload += len(*p)
}

// Texts implements BodyVisitor.
func (s *bodySize) Texts(_ BodyField, p *[]string) {
	s.Longest = max(s.Longest, len(*p))
	for _, text := range *p {
		s.most += maxFieldBytes + len(text)
	}
}

// Bytes implements BodyVisitor.
func (s *bodySize) Bytes(_ BodyField, p *[]byte) {
	s.most += maxFieldBytes + len(*p)
	s.payload += len(*p)
}

// Record implements BodyVisitor.
func (s *bodySize) Record(_ BodyField, p *Record) {
	s.most += maxFieldBytes + maxRecordBytes + len(p.Value.Data)
	s.payload += len(p.Value.Data)
}

// Records implements BodyVisitor.
func (s *bodySize) Records(_ BodyField, p *[]Moved) {
	s.Longest = max(s.Longest, len(*p))
	for i := range *p {
		s.most += maxFieldBytes + maxMovedBytes + len((*p)[i].Key) + len((*p)[i].Record.Value.Data)
	}
}

// Version implements BodyVisitor.
func (s *bodySize) Version(BodyField, *Version) { s.most += maxFieldBytes + maxVersionBytes }

// Versions implements BodyVisitor.
func (s *bodySize) Versions(_ BodyField, p *[]Version) {
	s.Longest = max(s.Longest, len(*p))
	s.most += len(*p) * (3 + maxVersionBytes)
}

// Dep implements BodyVisitor.
func (s *bodySize) Dep(_ BodyField, p *Dep) {
	s.Slot = max(s.Slot, p.Slot)
	s.most += maxFieldBytes + maxDepBytes
}

// Deps implements BodyVisitor.
func (s *bodySize) Deps(_ BodyField, p *[]Dep) {
	s.addDeps(*p)
	s.most += len(*p) * (1 + maxDepBytes)
}

// Vectors implements BodyVisitor.
func (s *bodySize) Vectors(_ BodyField, p *[]VectorEntry) {
	s.addVectors(*p)
	for i := range *p {
		s.most += maxFieldBytes + maxVectorBytes + 8*len((*p)[i].RV)
	}
}

// Parts implements BodyVisitor.
func (s *bodySize) Parts(_ BodyField, l BodyParts) {
	s.Longest = max(s.Longest, l.Len())
	for i := range l.Len() {
		s.most += maxFieldBytes
		l.At(i).Visit(s)
	}
}
