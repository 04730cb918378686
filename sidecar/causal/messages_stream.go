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
	return Message{Kind: KindStreamOpen, From: from, To: to, fields: Fields{Epoch: o.Epoch, Session: o.Incarnation}}
}

// StreamOpen returns the content of a message of KindStreamOpen.
func (m *Message) StreamOpen() StreamOpen {
	return StreamOpen{Epoch: m.fields.Epoch, Incarnation: m.fields.Session}
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
	return Message{Kind: KindStreamReset, From: from, To: to, fields: Fields{Epoch: r.MaxEpoch, Session: r.Incarnation}}
}

// StreamReset returns the content of a message of KindStreamReset.
func (m *Message) StreamReset() StreamReset {
	return StreamReset{MaxEpoch: m.fields.Epoch, Incarnation: m.fields.Session}
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
func (p Pull) Message(from, to topology.Node) Message {
	return Message{Kind: KindPull, From: from, To: to,
		fields: Fields{Map: p.Map, Hash: uint64(p.OldMap), ID: p.TakerLife, Epoch: p.GiverLife, Session: p.List,
			Seq: p.First, Clean: p.Copied}}
}

// Pull returns the content of a message of KindPull.
func (m *Message) Pull() Pull {
	return Pull{Map: m.fields.Map, OldMap: topology.MapID(m.fields.Hash), TakerLife: m.fields.ID,
		GiverLife: m.fields.Epoch, List: m.fields.Session, First: m.fields.Seq, Copied: m.fields.Clean}
}

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
func (p Pulled) Message(from, to topology.Node) Message {
	return Message{Kind: KindPulled, From: from, To: to,
		fields: Fields{Map: p.Map, ID: p.TakerLife, Epoch: p.GiverLife, Session: p.List, Seq: p.First, Moved: p.Moved,
			Hit: p.ListEnd, Clean: p.LastList, HLC: p.Horizon}}
}

// Pulled returns the content of a message of KindPulled.
func (m *Message) Pulled() Pulled {
	return Pulled{Map: m.fields.Map, TakerLife: m.fields.ID, GiverLife: m.fields.Epoch, List: m.fields.Session,
		First: m.fields.Seq, Moved: m.fields.Moved, ListEnd: m.fields.Hit,
		LastList: m.fields.Clean, Horizon: m.fields.HLC}
}
