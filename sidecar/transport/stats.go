package transport

import (
	"sync/atomic"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/transport/wan"
	"github.com/causalstore/causalstore/sidecar/transport/wire"
	"github.com/causalstore/causalstore/topology"
)

// DropReason says why a message was dropped.
type DropReason uint8

// The reasons for dropping a message.
const (
	notDropped   DropReason = iota
	DropNoRoute             // the node has no address and no link
	DropOverflow            // the queue of the peer was full
	DropBroken              // the link to the peer was down or broke
	// it exceeds a bound of the encoding, or has a kind or value that this version does not know
	DropInvalid
	DropMisrouted  // it arrived at a process that does not run the node it is for
	DropCut        // the emulated WAN is cut
	DropClosed     // the network or the receiving node was closed
	DropNotServing // no member of the node's group is known to serve, or it arrived at one that does not
	numReasons
)

var reasonNames = [...]string{"none", "no-route", "overflow", "broken-link", "invalid", "misrouted", "cut", "closed",
	"not-serving"}

func (r DropReason) String() string {
	if r < numReasons {
		return reasonNames[r]
	}
	return "unknown"
}

// Stats is a snapshot of the counters of a network since its start. The lists omit counters that are zero.
type Stats struct {
	Messages []MessageStats
	Drops    []DropStats
	// WAN counts what Local sent over the emulated WAN.
	WAN []WANStats
	// The other fields are set by GRPC only: frames and bytes on the wire, links opened, and links that broke, were
	// refused or could not be opened.
	FramesSent, FramesReceived uint64
	BytesSent, BytesReceived   uint64
	Opened, Failed             uint64
	// RefusedDuplicates counts refusals of processes because another one runs as the same part. IsDuplicate says that
	// peers refuse this process for that reason.
	RefusedDuplicates uint64
	IsDuplicate       bool
	// Violations counts what peers did that they may not, by Violation.
	Violations []uint64
	Links      []LinkStats
	// Traffic is what went over links to and from the parts of data centers.
	Traffic []TrafficStats
}

// TrafficStats counts the bytes of frames on links with the parts of one data center.
type TrafficStats struct {
	DC             topology.DC
	Sent, Received uint64
}

// traffic counts for TrafficStats.
type traffic struct{ sent, received atomic.Uint64 }

// trafficOf returns the counters for a peer.
func (g *GRPC) trafficOf(h *wire.Hello) *traffic {
	if len(h.Nodes) == 0 || h.Nodes[0].DC >= topology.MaxDCs {
		return &g.traffic[topology.MaxDCs]
	}
	return &g.traffic[h.Nodes[0].DC]
}

// MessageStats counts the messages of one kind. A sent message was passed to a link or a handler, a received one to a
// handler.
type MessageStats struct {
	Kind           causal.Kind
	Sent, Received uint64
}

// WANStats counts the messages of one kind that were sent over the emulated WAN. Bytes is their approximate encoded
// size; Payload is the share of keys and values, and the rest is metadata.
type WANStats struct {
	Kind                     causal.Kind
	Messages, Bytes, Payload uint64
}

// DropStats counts the messages of one kind that were dropped for one reason. Messages that were already sent on a link
// when it broke are not included: it is unknown whether they arrived.
type DropStats struct {
	Kind   causal.Kind
	Reason DropReason
	Count  uint64
}

// LinkStats describes one stream to another process.
type LinkStats struct {
	Process       string        // the peer's name; empty before its hello
	Address       string        // the dialed address, or the remote address of an accepted stream
	Node          topology.Node // of a dialed link: the node, or the member, that it is for
	Dialed        bool
	Up            bool
	TopologyEpoch uint64
	Nodes         []topology.Node
	Version       string // of the peer's build; empty if it does not say
	QueuedBytes   int
	LastError     string  // why a dialed link is down
	Failure       Failure // what that amounts to
	// TrustDomain is that of the peer. Roots are the authorities of this process' trust domain that the peer trusts, as
	// it has said last; nil if it does not say, or without TLS.
	TrustDomain string
	Roots       wire.Roots
}

// maxKinds bounds the message kinds that are counted separately. Later versions may send others, which are counted as
// the last one.
const maxKinds = 64

type counters struct {
	sent, received [maxKinds]atomic.Uint64
	dropped        [numReasons][maxKinds]atomic.Uint64

	wanMessages, wanBytes, wanPayload [maxKinds]atomic.Uint64

	framesSent, framesReceived, bytesSent, bytesReceived, opened, failed atomic.Uint64

	queued atomic.Int64 // bytes in all outboxes, and of those that are being sent
}

func kindIndex(k causal.Kind) int { return min(int(k), maxKinds-1) }

func (c *counters) countSent(k causal.Kind)                  { c.sent[kindIndex(k)].Add(1) }
func (c *counters) countReceived(k causal.Kind)              { c.received[kindIndex(k)].Add(1) }
func (c *counters) countDropped(k causal.Kind, r DropReason) { c.dropped[r][kindIndex(k)].Add(1) }

// countWAN counts a message of about size bytes that the emulated WAN has accepted.
func (c *counters) countWAN(m *causal.Message, size int) {
	k := kindIndex(m.Kind)
	c.wanMessages[k].Add(1)
	c.wanBytes[k].Add(uint64(size))
	c.wanPayload[k].Add(uint64(m.PayloadBytes()))
}

// countWANResult counts a message that the emulated WAN has refused.
func (c *counters) countWANResult(k causal.Kind, result wan.SendResult) {
	switch result {
	case wan.Queued:
	case wan.Cut:
		c.countDropped(k, DropCut)
	case wan.Overflow:
		c.countDropped(k, DropOverflow)
	case wan.NoPath:
		c.countDropped(k, DropNoRoute)
	default:
		c.countDropped(k, DropClosed)
	}
}

func (c *counters) snapshot() Stats {
	s := Stats{
		FramesSent: c.framesSent.Load(), FramesReceived: c.framesReceived.Load(),
		BytesSent: c.bytesSent.Load(), BytesReceived: c.bytesReceived.Load(),
		Opened: c.opened.Load(), Failed: c.failed.Load(),
	}
	for k := range maxKinds {
		if sent, received := c.sent[k].Load(), c.received[k].Load(); sent+received > 0 {
			s.Messages = append(s.Messages, MessageStats{causal.Kind(k), sent, received})
		}
		if n := c.wanMessages[k].Load(); n > 0 {
			s.WAN = append(s.WAN, WANStats{causal.Kind(k), n, c.wanBytes[k].Load(), c.wanPayload[k].Load()})
		}
		for r := range numReasons {
			if n := c.dropped[r][k].Load(); n > 0 {
				s.Drops = append(s.Drops, DropStats{causal.Kind(k), r, n})
			}
		}
	}
	return s
}
