package causal

import (
	"time"

	"github.com/causalstore/causalstore/topology"
)

// StreamPosition is the place of a FillReply, LeaseGrant or Invalidate on the stream from a middleman to a cache, or of
// a GetReply, LeaseGrant or Invalidate on a near stream from a cache to a sidecar.
type StreamPosition struct {
	Epoch uint64
	// Seq counts the messages of the stream from 1.
	Seq uint64
}

// StreamPosition returns the place of a message on its stream.
func (m *Message) StreamPosition() StreamPosition {
	return StreamPosition{Epoch: m.fields.Epoch, Seq: m.fields.Seq}
}

// SetStreamPosition gives a message its place on its stream.
func (m *Message) SetStreamPosition(p StreamPosition) { m.fields.Epoch, m.fields.Seq = p.Epoch, p.Seq }

// StreamOpen opens a stream: the cache has dropped everything that earlier ones brought.
type StreamOpen struct {
	Epoch uint64
	// Incarnation is that of the middleman, as far as the cache knows it; 0: unknown.
	Incarnation uint64
}

// Message returns o as a message.
func (o StreamOpen) Message(from, to topology.Node) Message {
	return bodyMessage(KindStreamOpen, from, to, &o)
}

// StreamOpen returns the content of a message of KindStreamOpen.
func (m *Message) StreamOpen() StreamOpen { return bodyOf[StreamOpen](m) }

// Visit implements Body.
func (o *StreamOpen) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "epoch", rule: counter, before: sharedEpoch}, &o.Epoch)
	visitNumber(v, BodyField{Number: 2, Name: "incarnation", rule: counter, before: sharedSession}, &o.Incarnation)
}

// StreamReset asks a cache to open a stream with a greater epoch.
type StreamReset struct {
	// MaxEpoch is the greatest epoch that the middleman has seen of the cache.
	MaxEpoch uint64
	// Incarnation is that of the middleman.
	Incarnation uint64
}

// Message returns r as a message.
func (r StreamReset) Message(from, to topology.Node) Message {
	return bodyMessage(KindStreamReset, from, to, &r)
}

// StreamReset returns the content of a message of KindStreamReset.
func (m *Message) StreamReset() StreamReset { return bodyOf[StreamReset](m) }

// Visit implements Body.
func (r *StreamReset) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "max_epoch", rule: counter, before: sharedEpoch}, &r.MaxEpoch)
	visitNumber(v, BodyField{Number: 2, Name: "incarnation", rule: counter, before: sharedSession}, &r.Incarnation)
}

// LeaseRenewal asks a middleman to extend the cache's lease.
type LeaseRenewal struct {
	ID    uint64
	Epoch uint64
	// AckedSeq confirms the stream up to there.
	AckedSeq uint64
}

// Message returns l as a message.
func (l LeaseRenewal) Message(from, to topology.Node) Message {
	return Message{Kind: KindLease, From: from, To: to, fields: Fields{ID: l.ID, Epoch: l.Epoch, Seq: l.AckedSeq}}
}

// LeaseRenewal returns the content of a message of KindLease.
func (m *Message) LeaseRenewal() LeaseRenewal {
	return LeaseRenewal{ID: m.fields.ID, Epoch: m.fields.Epoch, AckedSeq: m.fields.Seq}
}

// LeaseGrant extends a lease, on the stream.
type LeaseGrant struct {
	// ID is that of the LeaseRenewal.
	ID       uint64
	Duration time.Duration
}

// Message returns g as a message; its place on the stream is given later.
func (g LeaseGrant) Message(from, to topology.Node) Message {
	return Message{Kind: KindLeaseGrant, From: from, To: to, fields: Fields{ID: g.ID, Duration: int64(g.Duration)}}
}

// LeaseGrant returns the content of a message of KindLeaseGrant.
func (m *Message) LeaseGrant() LeaseGrant {
	return LeaseGrant{ID: m.fields.ID, Duration: time.Duration(m.fields.Duration)}
}

// Invalidate tells a cache, on the stream, that the keys of a hash have a new version.
type Invalidate struct {
	KeyHash uint64
	// Next is the HLC of the new version: older copies may be used by those who read below it; 0: by nobody.
	Next HLC
}

// Message returns i as a message; its place on the stream is given later.
func (i Invalidate) Message(from, to topology.Node) Message {
	return Message{Kind: KindInvalidate, From: from, To: to, fields: Fields{Hash: i.KeyHash, HLC: i.Next}}
}

// Invalidate returns the content of a message of KindInvalidate.
func (m *Message) Invalidate() Invalidate {
	return Invalidate{KeyHash: m.fields.Hash, Next: m.fields.HLC}
}

// InvalidateAck confirms a stream up to a message.
type InvalidateAck struct {
	Epoch    uint64
	AckedSeq uint64
}

// Message returns a as a message.
func (a InvalidateAck) Message(from, to topology.Node) Message {
	return Message{Kind: KindInvalidateAck, From: from, To: to, fields: Fields{Epoch: a.Epoch, Seq: a.AckedSeq}}
}

// InvalidateAck returns the content of a message of KindInvalidateAck.
func (m *Message) InvalidateAck() InvalidateAck {
	return InvalidateAck{Epoch: m.fields.Epoch, AckedSeq: m.fields.Seq}
}

// Pull asks the middleman that gives slots away for the next chunk of their records. See package shard.
type Pull struct {
	// Map is the new slot map, OldMap the one before.
	Map, OldMap topology.MapID
	// TakerLife and GiverLife number the starts of both movers; GiverLife is 0 while it is not known.
	TakerLife, GiverLife uint64
	// List is the number of the list that is read, from 1; First the position of the first record wanted.
	List, First uint64
	// Copied says that the taker has a copy of everything.
	Copied bool
}

// Message returns p as a message.
func (p Pull) Message(from, to topology.Node) Message { return bodyMessage(KindPull, from, to, &p) }

// Pull returns the content of a message of KindPull.
func (m *Message) Pull() Pull { return bodyOf[Pull](m) }

// Visit implements Body.
func (p *Pull) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "map", rule: anything, before: sharedMap}, &p.Map)
	visitNumber(v, BodyField{Number: 2, Name: "old_map", rule: anything, before: sharedHash}, &p.OldMap)
	visitNumber(v, BodyField{Number: 3, Name: "taker_life", rule: counter, before: sharedID}, &p.TakerLife)
	visitNumber(v, BodyField{Number: 4, Name: "giver_life", rule: counter, before: sharedEpoch}, &p.GiverLife)
	visitNumber(v, BodyField{Number: 5, Name: "list", rule: counter, before: sharedSession}, &p.List)
	visitNumber(v, BodyField{Number: 6, Name: "first", rule: counter, before: sharedSeq}, &p.First)
	v.Flag(BodyField{Number: 7, Name: "copied", rule: anything, before: sharedClean}, &p.Copied)
}

func (p *Pull) slotMap() topology.MapID { return p.Map }

// Pulled answers a Pull with a chunk of records.
type Pulled struct {
	Map                  topology.MapID
	TakerLife, GiverLife uint64
	List, First          uint64
	Moved                []Moved
	// ListEnd says that the list ends with this chunk, LastList that there will be no other list.
	ListEnd, LastList bool
	// Horizon is the tombstone horizon of the giver.
	Horizon HLC
}

// Message returns p as a message.
func (p Pulled) Message(from, to topology.Node) Message { return bodyMessage(KindPulled, from, to, &p) }

// Pulled returns the content of a message of KindPulled.
func (m *Message) Pulled() Pulled { return bodyOf[Pulled](m) }

// Visit implements Body.
func (p *Pulled) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "map", rule: anything, before: sharedMap}, &p.Map)
	visitNumber(v, BodyField{Number: 2, Name: "taker_life", rule: counter, before: sharedID}, &p.TakerLife)
	visitNumber(v, BodyField{Number: 3, Name: "giver_life", rule: counter, before: sharedEpoch}, &p.GiverLife)
	visitNumber(v, BodyField{Number: 4, Name: "list", rule: counter, before: sharedSession}, &p.List)
	visitNumber(v, BodyField{Number: 5, Name: "first", rule: counter, before: sharedSeq}, &p.First)
	v.Records(BodyField{Number: 6, Name: "moved", rule: records, before: sharedMoved}, &p.Moved)
	v.Flag(BodyField{Number: 7, Name: "list_end", rule: anything, before: sharedHit}, &p.ListEnd)
	v.Flag(BodyField{Number: 8, Name: "last_list", rule: anything, before: sharedClean}, &p.LastList)
	v.Time(BodyField{Number: 9, Name: "horizon", rule: anything, before: sharedHLC}, &p.Horizon)
}

func (p *Pulled) slotMap() topology.MapID { return p.Map }
