package causal

import (
	"math"

	"github.com/causalstore/causalstore/topology"
)

// Body is the content of a message of a kind that has a message of its own in wire.proto, or a part of one. The
// frequent kinds have none: they share Fields, which takes no allocation of its own. Those are what each read, write,
// fetch of a copy and invalidation takes, and what parts tell each other many times a second: get, get-reply, fill,
// fill-reply, put, put-reply, complete, put-after, put-ack, stable, dep-check, dep-status, frontier, vectors,
// invalidate, invalidate-ack, lease, lease-grant. A body in a Message is never changed.
//
// A new field is added to the type, to its Visit, and to wire.proto. A new kind with a body is also added to bodies.
type Body interface {
	// Visit passes every field to v, in the order of their numbers.
	Visit(v BodyVisitor)
}

// BodyVisitor does something with each field of a body: it encodes, decodes or validates it. Only a decoder changes
// what it is passed, so that a body can be visited by several goroutines. See also VisitorFunc.
type BodyVisitor interface {
	// Number visits a number. set says that the field becomes n.
	Number(f BodyField, is uint64) (n uint64, set bool)
	Time(f BodyField, p *HLC)
	Flag(f BodyField, p *bool)
	Float(f BodyField, p *float64)
	Text(f BodyField, p *string)
	Texts(f BodyField, p *[]string)
	Bytes(f BodyField, p *[]byte)
	Record(f BodyField, p *Record)
	Records(f BodyField, p *[]Moved)
	Version(f BodyField, p *Version)
	Versions(f BodyField, p *[]Version)
	Dep(f BodyField, p *Dep)
	Deps(f BodyField, p *[]Dep)
	Vectors(f BodyField, p *[]VectorEntry)
	Parts(f BodyField, l BodyParts)
}

// BodyField describes a field of a body.
type BodyField struct {
	Number int32  // in wire.proto
	Name   string // in wire.proto
	// Max is the greatest number that fits into the field. It is 0 if the field is no number.
	Max uint64

	rule rule
	// before is the field that it had in Shared before its kind had a body. It is 0 in a part, and of what was added
	// later.
	before sharedField
}

// IsShared reports whether readers that do not know that the kind has a body get the field.
func (f BodyField) IsShared() bool { return f.before != 0 }

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

// bodies has for each kind with a body the first link protocol in which it has one, and an empty body.
var bodies = [NumKinds]struct {
	since uint32
	empty func() Body
}{
	KindLaneHello:   {2, func() Body { return &LaneHello{} }},
	KindStreamOpen:  {2, func() Body { return &StreamOpen{} }},
	KindStreamReset: {2, func() Body { return &StreamReset{} }},
	KindTermReply:   {2, func() Body { return &TermReply{} }},
	KindTermQuery:   {2, func() Body { return &TermQuery{} }},
	KindTermAnswer:  {2, func() Body { return &TermAnswer{} }},
	KindPastQuery:   {2, func() Body { return &PastQuery{} }},
	KindCount:       {2, func() Body { return &Count{} }},
	KindCountReply:  {2, func() Body { return &CountReply{} }},
	KindPull:        {2, func() Body { return &Pull{} }},
	KindPulled:      {2, func() Body { return &Pulled{} }},
	KindGroup:       {2, func() Body { return &GroupMessage{} }},
	KindCopy:        {2, func() Body { return &CopyMessage{} }},
	KindSalvage:     {2, func() Body { return &Salvage{} }},
	KindSalvaged:    {2, func() Body { return &Salvaged{} }},
	KindAdoptQuery:  {2, func() Body { return &AdoptQuery{} }},
	KindAdoptHeld:   {2, func() Body { return &AdoptHeld{} }},
	KindAdoptPut:    {2, func() Body { return &AdoptPut{} }},
	KindAdoptStep:   {2, func() Body { return &AdoptStep{} }},
	KindAdoptState:  {2, func() Body { return &AdoptStatus{} }},

	KindLaneSync:      {3, func() Body { return &LaneSync{} }},
	KindLogGet:        {3, func() Body { return &LogGet{} }},
	KindLogReply:      {3, func() Body { return &LogReply{} }},
	KindDepProbe:      {3, func() Body { return &DepProbe{} }},
	KindDepMissing:    {3, func() Body { return &DepMissing{} }},
	KindSignedVectors: {3, func() Body { return &SignedVectors{} }},
	KindSubscribe:     {3, func() Body { return &Subscribe{} }},
	KindPing:          {3, func() Body { return &Ping{} }},
	KindPong:          {3, func() Body { return &Pong{} }},
	KindLatencies:     {3, func() Body { return &Latencies{} }},
	KindTerm:          {3, func() Body { return &Term{} }},
	KindPastReply:     {3, func() Body { return &PastReply{} }},
	KindCut:           {3, func() Body { return &CutNotice{} }},
	KindScan:          {3, func() Body { return &Scan{} }},
	KindScanReply:     {3, func() Body { return &ScanReply{} }},

	// Processes of before link protocol 3 do not know these kinds, and ignore them.
	KindHomeRead:  {1, func() Body { return &HomeRead{} }},
	KindHomeReply: {1, func() Body { return &HomeReply{} }},

	KindHomeCommit: {1, func() Body { return &HomeCommit{} }},

	KindHomeChange: {1, func() Body { return &HomeChange{} }},
	KindHomeVote:   {1, func() Body { return &HomeVote{} }},
	KindHomes:      {1, func() Body { return &Homes{} }},

	KindHomeVerdict: {1, func() Body { return &HomeVerdict{} }},

	KindFormatQuery: {1, func() Body { return &FormatQuery{} }},
	KindFormatReply: {1, func() Body { return &FormatReply{} }},

	KindHomeWait: {1, func() Body { return &HomeWait{} }},
	KindHomeWake: {1, func() Body { return &HomeWake{} }},
}

// NewBody returns an empty body for a message of a kind, or nil if the kind has none.
func NewBody(k Kind) Body {
	if !hasBody(k) {
		return nil
	}
	return bodies[k].empty()
}

func hasBody(k Kind) bool { return k < NumKinds && bodies[k].empty != nil }

// BodySince returns the first link protocol in which messages of a kind have a body.
func BodySince(k Kind) uint32 { return bodies[k].since }

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
