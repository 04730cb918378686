package causal

import (
	"math"

	"github.com/causalstore/causalstore/topology"
)

// Body is the content of a message of a kind that has a message of its own in wire.proto. The frequent kinds have none:
// they share Fields. A body in a Message is never changed.
//
// A new field is added to the type, to its Visit, and to wire.proto. A new kind with a body is also added to newBody.
type Body interface {
	// Visit passes every field to v, in the order of their numbers.
	Visit(v BodyVisitor)
}

// BodyVisitor does something with each field of a body: it encodes, decodes or validates it. Only a decoder changes
// what it is passed, so that a body can be visited by several goroutines.
type BodyVisitor interface {
	// Number visits a number. set says that the field becomes n.
	Number(f BodyField, is uint64) (n uint64, set bool)
	Time(f BodyField, p *HLC)
	Flag(f BodyField, p *bool)
	Text(f BodyField, p *string)
	Bytes(f BodyField, p *[]byte)
	Record(f BodyField, p *Record)
	Records(f BodyField, p *[]Moved)
	Versions(f BodyField, p *[]Version)
	Deps(f BodyField, p *[]Dep)
}

// BodyField describes a field of a body.
type BodyField struct {
	Number int32  // in wire.proto
	Name   string // in wire.proto
	// Max is the greatest number that fits into the field. It is 0 if the field is no number.
	Max uint64

	rule rule
	// before is the field that it had in Fields before its kind had a body: link protocol 1.
	before sharedField
}

// visitNumber visits a field of an unsigned type.
func visitNumber[T ~uint8 | ~uint16 | ~uint32 | ~uint64](v BodyVisitor, f BodyField, p *T) {
	f.Max = uint64(^T(0))
	if n, set := v.Number(f, uint64(*p)); set {
		*p = T(n)
	}
}

// visitDepList visits a DepList: its dependencies, and how many of them are lanes.
func visitDepList(v BodyVisitor, deps, lanes BodyField, p *DepList) {
	v.Deps(deps, &p.all)
	lanes.Max = math.MaxInt
	if n, set := v.Number(lanes, uint64(p.lanes)); set {
		p.lanes = int(n)
	}
}

// newBody returns an empty body for each kind that has one.
var newBody = [NumKinds]func() Body{
	KindLaneHello:   func() Body { return &LaneHello{} },
	KindStreamOpen:  func() Body { return &StreamOpen{} },
	KindStreamReset: func() Body { return &StreamReset{} },
	KindTermReply:   func() Body { return &TermReply{} },
	KindTermQuery:   func() Body { return &TermQuery{} },
	KindTermAnswer:  func() Body { return &TermAnswer{} },
	KindPastQuery:   func() Body { return &PastQuery{} },
	KindCount:       func() Body { return &Count{} },
	KindCountReply:  func() Body { return &CountReply{} },
	KindPull:        func() Body { return &Pull{} },
	KindPulled:      func() Body { return &Pulled{} },
	KindGroup:       func() Body { return &GroupMessage{} },
	KindCopy:        func() Body { return &CopyMessage{} },
	KindSalvage:     func() Body { return &Salvage{} },
	KindSalvaged:    func() Body { return &Salvaged{} },
	KindAdoptQuery:  func() Body { return &AdoptQuery{} },
	KindAdoptHeld:   func() Body { return &AdoptHeld{} },
	KindAdoptPut:    func() Body { return &AdoptPut{} },
	KindAdoptStep:   func() Body { return &AdoptStep{} },
	KindAdoptState:  func() Body { return &AdoptStatus{} },
	KindHomeRead:    func() Body { return &HomeRead{} },
	KindHomeReply:   func() Body { return &HomeReply{} },
}

// NewBody returns an empty body for a message of a kind, or nil if the kind has none.
func NewBody(k Kind) Body {
	if k < NumKinds && newBody[k] != nil {
		return newBody[k]()
	}
	return nil
}

// Body returns the body of m, or nil if its kind has none.
func (m *Message) Body() Body { return m.body }

// SetBody gives m the body that was decoded for it.
func (m *Message) SetBody(b Body) { m.body = b }

// bodyMessage returns a message with a body.
func bodyMessage(k Kind, from, to topology.Node, b Body) Message {
	return Message{Kind: k, From: from, To: to, body: b}
}

// bodyOf returns a copy of the body of m, or an empty one if m has none.
func bodyOf[T any](m *Message) (b T) {
	if p, ok := any(m.body).(*T); ok {
		return *p
	}
	return b
}
