package transport

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/causalstore/causalstore/sidecar/transport/wire"
	"github.com/causalstore/causalstore/topology"
)

// dialer maintains the link to the process at one address, from the first message until the link is idle.
type dialer struct {
	g    *GRPC
	addr string
	node topology.Node // or member that was found at the address last, or that it was dialed for; used by run
	link uint64        // identifies the link: each new stream replaces the previous one with the same number
	out  *outbox

	heard    atomic.Uint64 // frames that have arrived
	incoming chan struct{} // holds a token once the process has connected to this one

	mu           sync.Mutex
	peer         *wire.Hello // of the current or last stream
	up           bool
	cancelStream context.CancelCauseFunc // ends the current stream
	via          string                  // the egress of the current stream, if any
	identity     *peerIdentity           // of the current or last stream; nil without TLS
	roots        *roots                  // of the same; nil before the first one
	lastError    string                  // why there is no stream
	failure      Failure                 // what lastError amounts to
	renew        chan struct{}           // holds a token if the link is to be renewed

	// incomingFailed says that the last attempt was at the address that the process has connected from, and failed.
	incomingFailed atomic.Bool
}

var errIdle = errors.New("the link is idle")

// dial returns the outbox of the link to the address of a node or member, and creates the link if there is none.
func (g *GRPC) dial(n topology.Node, addr string) (*outbox, DropReason) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, DropClosed
	}
	if d := g.dialed[addr]; d != nil {
		return d.out, notDropped
	}
	lastUsed := new(atomic.Int64)
	if isMember(n) {
		lastUsed = &g.group(n.Group()).lastUsed
	}
	d := &dialer{g: g, addr: addr, node: n, link: rand.Uint64(),
		out: newOutbox(&g.counters, g.config.QueueBytes, lastUsed), incoming: make(chan struct{}, 1),
		renew: make(chan struct{}, 1)}
	g.dialed[addr] = d
	g.wg.Go(d.run)
	return d.out, notDropped
}

// run opens streams one after the other. Each has ended completely before the next one starts.
func (d *dialer) run() {
	for attempt := 0; ; attempt++ {
		start := time.Now()
		failure, err := d.runStream()
		for _, m := range d.out.markBroken() {
			d.g.reportUnsent(&m)
		}
		d.markDown(failure, err)
		if d.removeIfIdle() {
			return
		}
		if time.Since(start) > d.g.timing.maxBackoff {
			attempt = 0
		}
		select {
		case <-time.After(d.g.pause(attempt, time.Since(start), d.g.viaOf(d.addr))):
		case <-d.incoming:
			attempt = 0
		case <-d.g.closing:
			return
		}
		d.out.reopen()
	}
}

// viaOf returns the egress through which an address is dialed, or "".
func (g *GRPC) viaOf(addr string) string {
	if g.config.Via == nil {
		return ""
	}
	return g.config.Via(addr)
}

// backoff doubles with each attempt. Half of it is random, so that the peers of a process do not all reconnect at once.
// An egress is near and ends an attempt after about a second, so the pauses may be shorter: after the WAN, the links
// are to be back at once.
func (g *GRPC) backoff(attempt int, via string) time.Duration {
	d := min(g.timing.maxBackoff, g.timing.backoff<<min(attempt, 16))
	if via != "" {
		d = min(d, g.timing.maxBackoffVia)
	}
	return d/2 + time.Duration(rand.Int64N(int64(d/2)+1))
}

// pause returns how long to wait after an attempt. The back-off is the time from the start of one attempt to that of
// the next: one that took as long, because nobody answered, has been pause enough, and the peer may be reachable again
// by now.
func (g *GRPC) pause(attempt int, took time.Duration, via string) time.Duration {
	return max(g.backoff(attempt, via)-took, g.backoff(0, via))
}

// removeIfIdle removes the dialer if its link is idle or the network is closed, and reports whether it did.
func (d *dialer) removeIfIdle() bool {
	d.g.mu.Lock()
	defer d.g.mu.Unlock()
	if !d.g.closed && !d.out.idleFor(d.g.timing.idle) {
		return false
	}
	d.out.close()
	delete(d.g.dialed, d.addr)
	return true
}

// markDown records and reports why there is no stream.
func (d *dialer) markDown(failure Failure, err error) {
	d.mu.Lock()
	previous := d.lastError
	d.up, d.lastError, d.failure = false, err.Error(), failure
	d.mu.Unlock()
	if errors.Is(err, errIdle) || errors.Is(err, errNetworkClosed) {
		d.reportDown(nil)
		return
	}
	d.g.failed.Add(1)
	d.g.duplicates.noteOwnRefusal(err)
	notify := d.g.config.Down
	if errors.Is(err, errEnded) && d.g.config.Ended != nil {
		notify = d.g.config.Ended
	}
	d.reportDown(notify)
	if previous != err.Error() { // log the same error only once
		level := slog.LevelWarn
		if errors.Is(err, wire.ErrProtocol) || status.Code(err) == codes.FailedPrecondition ||
			status.Code(err) == codes.AlreadyExists {
			// retrying does not help
			level = slog.LevelError
		}
		d.g.config.Log.Log(d.g.ctx, level, "link is down", "address", d.addr, "error", err)
	}
}

// markUp records and reports a stream that has been opened.
func (d *dialer) markUp(s *dialedStream, renews bool) {
	h := s.in.hello
	d.out.speak(h.Protocol)
	d.g.opened.Add(1)
	d.mu.Lock()
	d.peer, d.up, d.cancelStream, d.identity, d.roots, d.via, d.lastError, d.failure = h, true, s.cancel, s.identity,
		&s.roots, s.via, "", NoFailure
	d.mu.Unlock()
	d.g.config.Log.Log(d.g.ctx, linkLogLevel(renews), "link is up", "address", d.addr, "process", h.Process, "epoch",
		h.TopologyEpoch, "version", h.Version)
	if !renews {
		d.reportUp(h)
	}
}

func (d *dialer) stats() LinkStats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := LinkStats{Address: d.addr, Node: d.node, Dialed: true, Up: d.up, QueuedBytes: d.out.queuedBytes(),
		LastError: d.lastError, Failure: d.failure}
	if d.peer != nil {
		s.Process, s.TopologyEpoch, s.Version, s.Nodes = d.peer.Process, d.peer.TopologyEpoch, d.peer.Version,
			d.peer.Nodes
		s.describeTrust(d.identity, d.roots)
	}
	return s
}
