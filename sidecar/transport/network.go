// Package transport moves messages between the nodes of the data plane.
//
// There are two networks behind one interface: Local joins nodes of one process by calls, GRPC joins processes by streams.
// Both can carry what goes between data centres over an emulated WAN (package wan).
//
// The failure model is that of package causal: a message may be lost. A network never waits for room or for a broken peer:
// it drops, counts by kind and reason, and leaves it to the protocol to send again. While nothing fails nothing is lost,
// and what one node sends to another arrives in the order of the calls of Send. A link that breaks loses what is on it,
// and the next one between the same ends begins only when everything that came over the old one has been handled.
package transport

import "github.com/causalstore/causalstore/sidecar/causal"

// Handler takes messages that have arrived, in order. It must not keep the slice nor change it; what the messages point
// to is the receiver's, except over Local, where sender and receivers share it and nobody may change it.
//
// Batches from different peers are handed over concurrently. A Handler that takes long holds up its peer, and no one else.
type Handler func(batch []causal.Message)

// Network sends messages to nodes by their names.
type Network interface {
	// Send queues m for m.To and returns at once. It may be called by anyone at any time, also from a Handler.
	// The network keeps what m points to for a while; nobody may change it any more.
	Send(m causal.Message)
	// Close ends the network. When it returns no Handler is running and none will be called. It must not be called from a Handler.
	Close() error
}
