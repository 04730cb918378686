package transport

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/causalstore/causalstore/sidecar/transport/wire"
	"github.com/causalstore/causalstore/topology"
)

// Two processes may run as the same part, by a mistake in a configuration or because a node that was given up still
// runs. If peers talked to both, each would end the links of the other. So a peer keeps the one that was started first
// and is alive, and refuses the other, which reports it.
//
// A process that has restarted must not be refused because of what is left of its earlier life: a link that looks alive
// is probed, and if there is no answer it ends.

// errDuplicate ends a link to a process because another one runs as the same part.
var errDuplicate = errors.New("another process that was started earlier runs as the same part")

// rival is a link to another process that runs as the same part as a process that wants a link.
type rival struct {
	node  topology.Node
	peer  *wire.Hello
	at    string // its address
	out   *outbox
	heard func() uint64 // counts the frames that have arrived on the link
	end   func(cause error)
}

// rivals returns the links to other processes that run as the parts that a hello names. A sidecar has a random index,
// so nothing else is the same part.
func (g *GRPC) rivals(h *wire.Hello) (all []rival) {
	for _, n := range h.Nodes {
		if n.Part == topology.Sidecar {
			continue
		}
		addr, _ := g.config.Resolve(n)
		g.mu.RLock()
		a, d := g.acceptedFrom[n], g.dialed[addr]
		g.mu.RUnlock()
		if a != nil && a.peer.Incarnation != h.Incarnation {
			all = append(all, rival{n, a.peer, a.remoteAddr, a.out, a.heard.Load, func(error) { a.terminate() }})
		}
		if d != nil {
			d.mu.Lock()
			if d.up && d.peer.Incarnation != h.Incarnation {
				all = append(all, rival{n, d.peer, d.addr, d.out, d.heard.Load, d.cancelStream})
			}
			d.mu.Unlock()
		}
	}
	return all
}

// checkDuplicate returns an error if the process of a hello, which is at an address, must not get a link because
// another one runs as the same part. It may take timings.probe for each link to another one.
func (g *GRPC) checkDuplicate(ctx context.Context, h *wire.Hello, at string) error {
	for _, r := range g.rivals(h) {
		switch {
		case !g.isAlive(ctx, r.out, r.heard, g.timing.probe):
			r.end(errPeerRestarted)
		case h.StartedBefore(r.peer) && !g.duplicates.isRefused(h.Incarnation):
			g.duplicates.refuse(r.peer.Incarnation)
			r.end(errDuplicate)
		default:
			g.duplicates.refuse(h.Incarnation)
			return status.Errorf(codes.AlreadyExists,
				"two processes run as %s: this is %s, and %s is alive and was here first. "+
					"Stop the one that should not run, or correct its dataCenter, index and member", nodeName(r.node),
				describe(h, at), describe(r.peer, r.at))
		}
	}
	if g.duplicates.isRefused(h.Incarnation) {
		return status.Errorf(codes.AlreadyExists, "another process ran as the same part as %s until less than %v ago",
			describe(h, at), g.timing.refusal)
	}
	return nil
}

func nodeName(n topology.Node) string {
	if n.Member != 0 {
		return fmt.Sprintf("%s %d, member %d, of data center %d", n.Part, n.Index, n.Member, n.DC)
	}
	return fmt.Sprintf("%s %d of data center %d", n.Part, n.Index, n.DC)
}

// describe names a process in errors.
func describe(h *wire.Hello, at string) string {
	started := "at an unknown time"
	if h.StartedMs != 0 {
		started = time.UnixMilli(int64(h.StartedMs)).UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("%q at %s (instance %016x, started %s)", h.Process, at, h.Incarnation, started)
}

// isAlive reports whether anything arrives on a link within a limit after the peer was asked to answer.
func (g *GRPC) isAlive(ctx context.Context, out *outbox, heard func() uint64, limit time.Duration) bool {
	before := heard()
	out.pushProbe(wire.ProbeRequest)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(max(limit/200, time.Millisecond))
	defer tick.Stop()
	for heard() == before {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// duplicates is what a process knows about processes that run as the same part: as a peer of both, and as one of them.
type duplicates struct {
	// memory is timings.refusal: for how long after the first process was last alive the second one is still refused,
	// because the first may be restarting; and for how long this process counts as refused after a peer has refused it.
	// It is longer than the pauses between attempts to connect.
	memory time.Duration

	mu      sync.Mutex
	refused map[uint64]time.Time // by incarnation: when the process was refused because another one was alive
	count   uint64               // refusals
	own     error                // why a peer has refused this process
	ownAt   time.Time
}

// refuse remembers that a process is refused, because another one is alive.
func (d *duplicates) refuse(incarnation uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, at := range d.refused {
		if time.Since(at) > d.memory {
			delete(d.refused, i)
		}
	}
	if d.refused == nil {
		d.refused = map[uint64]time.Time{}
	}
	d.refused[incarnation] = time.Now()
	d.count++
}

func (d *duplicates) isRefused(incarnation uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, ok := d.refused[incarnation]
	return ok && time.Since(at) <= d.memory
}

// noteOwnRefusal takes the error of a failed attempt to connect.
func (d *duplicates) noteOwnRefusal(err error) {
	if status.Code(err) != codes.AlreadyExists {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.own, d.ownAt = err, time.Now()
}

// Duplicate returns why peers refuse this process, if that is because another process runs as the same part.
func (g *GRPC) Duplicate() error {
	d := &g.duplicates
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.own == nil || time.Since(d.ownAt) > d.memory {
		return nil
	}
	return d.own
}
