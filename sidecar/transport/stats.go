package transport

import (
	"sync/atomic"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/topology"
	"github.com/causalstore/causalstore/sidecar/transport/wan"
)

// Reason says why a message was dropped.
type Reason uint8

// The reasons.
const (
	dropNone      Reason = iota
	DropNoRoute          // no node of that name is known here
	DropOverflow         // too much was queued for the peer
	DropBroken           // the link to the peer is down, or went down
	DropInvalid          // it could not be encoded within the bounds of the format
	DropMisrouted        // it arrived at a process that does not run the node it is for
	DropCut              // the emulated WAN is cut
	DropClosed           // the network, or the node it is for, was closed
	reasonEnd
)

var reasonNames = [...]string{"none", "no-route", "overflow", "broken-link", "invalid", "misrouted", "cut", "closed"}

func (r Reason) String() string {
	if r < reasonEnd {
		return reasonNames[r]
	}
	return "unknown"
}

// Stats is a snapshot of what a network has done since its start. The lists hold only what has happened at least once.
type Stats struct {
	Messages []MessageStats
	Drops    []DropStats
	// WAN is what was put on the emulated WAN of Local.
	WAN []WANStats
	// The rest is of GRPC only: frames and bytes on the wire, links that were opened and that were refused or broke.
	FramesSent, FramesReceived uint64
	BytesSent, BytesReceived   uint64
	Opened, Failed             uint64
	Links                      []LinkStats
}

// MessageStats counts the messages of one kind: sent is handed to a link or a handler, received is handed to a handler.
type MessageStats struct {
	Kind           causal.Kind
	Sent, Received uint64
}

// WANStats counts the messages of one kind that were put on the emulated WAN. Bytes are what they take when encoded, about;
// Payload is the part of it that is keys and values, so the rest is metadata.
type WANStats struct {
	Kind                     causal.Kind
	Messages, Bytes, Payload uint64
}

// DropStats counts the messages of one kind that were dropped for one reason. What was on a link when it broke is not
// among them: nobody knows whether it arrived.
type DropStats struct {
	Kind   causal.Kind
	Reason Reason
	Count  uint64
}

// LinkStats describes one stream to another process.
type LinkStats struct {
	Process       string // what the peer calls itself; empty before its hello
	Address       string // the address that was dialed, or the one that an accepted stream came from
	Dialed        bool
	Up            bool
	TopologyEpoch uint64
	Nodes         []topology.Node
	QueuedBytes   int
	LastError     string // why a dialed link is not up, or went down last
}

// maxKinds bounds the kinds that are told apart; those of a later version are counted together, as the last one.
const maxKinds = 64

type counters struct {
	sent, received [maxKinds]atomic.Uint64
	dropped        [reasonEnd][maxKinds]atomic.Uint64

	wanMessages, wanBytes, wanPayload [maxKinds]atomic.Uint64

	framesSent, framesReceived, bytesSent, bytesReceived, opened, failed atomic.Uint64
}

func slot(k causal.Kind) int { return min(int(k), maxKinds-1) }

func (c *counters) send(k causal.Kind)           { c.sent[slot(k)].Add(1) }
func (c *counters) receive(k causal.Kind)        { c.received[slot(k)].Add(1) }
func (c *counters) drop(k causal.Kind, r Reason) { c.dropped[r][slot(k)].Add(1) }

// cross counts a message of about size bytes that the emulated WAN has taken.
func (c *counters) cross(m *causal.Message, size int) {
	k := slot(m.Kind)
	c.wanMessages[k].Add(1)
	c.wanBytes[k].Add(uint64(size))
	c.wanPayload[k].Add(uint64(len(m.Key) + len(m.Record.Value.Data)))
}

// verdict counts what the emulated WAN refused.
func (c *counters) verdict(k causal.Kind, v wan.Verdict) {
	switch v {
	case wan.Queued:
	case wan.Cut:
		c.drop(k, DropCut)
	case wan.Overflow:
		c.drop(k, DropOverflow)
	case wan.NoPath:
		c.drop(k, DropNoRoute)
	default:
		c.drop(k, DropClosed)
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
		for r := range reasonEnd {
			if n := c.dropped[r][k].Load(); n > 0 {
				s.Drops = append(s.Drops, DropStats{causal.Kind(k), r, n})
			}
		}
	}
	return s
}

// Dropped returns the number of messages of all kinds that were dropped for a reason.
func (s *Stats) Dropped(r Reason) (n uint64) {
	for _, d := range s.Drops {
		if d.Reason == r {
			n += d.Count
		}
	}
	return n
}
