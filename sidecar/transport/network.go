// Package transport moves messages between the nodes of the data plane.
//
// Network has two implementations: Local connects the nodes of one process by calls, and GRPC connects processes by
// streams. Both can send messages between data centers over an emulated WAN (package wan).
//
// The failure model is that of package causal: a message may be lost. A network never blocks on a full queue or a
// broken peer. It drops the message, counts it by kind and reason, and leaves retransmission to the protocol. While
// nothing fails, no message is lost, and messages from one node to another arrive in the order of the calls of Send. A
// link that breaks loses the messages on it, and its successor starts only after everything that arrived on it has been
// handled.
package transport

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Handler processes messages that have arrived, in order. It must not retain or modify the slice. The receiver owns
// what the messages point to, except with Local, where sender and receivers share it and nobody may modify it.
//
// Handlers are called concurrently for different peers. A slow call delays only the messages of its peer.
type Handler func(batch []causal.Message)

// Network sends messages to nodes.
type Network interface {
	// Send queues m for m.To and returns at once. It may be called concurrently, and from a Handler. The network
	// retains what m points to, so nobody may modify it afterwards.
	Send(m causal.Message)
	// Close closes the network. When it returns, no Handler is running and none will be called. It must not be called
	// from a Handler.
	Close() error
}

// BatchSender is a Network that sends messages at less cost if it gets them together.
type BatchSender interface {
	// SendAll is Send for each of the messages, in their order. It does not retain the slice.
	SendAll(ms []causal.Message)
}

// Queues is a Network that queues what it sends, and can tell how much. Who would send much asks it before.
type Queues interface {
	// QueuedBytes returns the size of all messages that were passed to Send and have not left this process.
	QueuedBytes() int64
	// Room returns how many bytes may be sent to a node now without being dropped for that. If nothing is queued for
	// it, that is as much as the largest message has, unless others that share a bound with it have used that up.
	Room(n topology.Node) int64
}
