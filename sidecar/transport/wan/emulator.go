// Package wan emulates the network between data centers on one machine: latencies with jitter, congestion and cuts,
// which can change at run time.
//
// Between two nodes it behaves like a TCP connection: messages arrive in order, and none is lost while the path is
// open. A cut breaks the connection: messages on their way are lost, and so are messages sent before the cut heals.
// There is no emulation inside a data center.
package wan

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/causalstore/causalstore/topology"
)

// AllDCs stands for all other data centers in Cut and CutBoth.
const AllDCs topology.DC = math.MaxUint16

// Options of an Emulator.
type Options struct {
	// Jitter is the maximum additional delay of a message, as a fraction of the one-way delay.
	Jitter float64
	// Seed makes the jitter reproducible.
	Seed uint64
}

// Emulator is the state of the network between data centers. Any number of Lines may share it. Its methods may be
// called concurrently.
type Emulator struct {
	dcs     int
	options Options
	start   time.Time
	paths   []path // [from*dcs+to]

	mu         sync.Mutex      // serializes updates of paths
	oneWay     []time.Duration // declared delay of each path
	congestion []time.Duration // additional delay by DC
}

// path is one direction between two data centers.
type path struct {
	// state is even while the path is open and odd while it is cut. Every cut and heal increments it, which
	// distinguishes messages sent before a cut from those sent after it healed.
	state atomic.Uint64
	delay atomic.Int64 // nanoseconds, including congestion, excluding jitter

	messages, bytes, cut, overflow atomic.Uint64
}

// PathStats counts what was sent from one data center to another since the start.
type PathStats struct {
	From, To topology.DC
	Messages uint64 // accepted, whether or not they arrived
	Bytes    uint64 // approximate size of the accepted messages
	Cut      uint64 // messages lost in cuts
	Overflow uint64 // messages refused because the path was full
	Delay    time.Duration
	Open     bool
}

// New returns the network of t. Each direction takes half of the declared round-trip time.
func New(t *topology.Topology, o Options) (*Emulator, error) {
	if !(o.Jitter >= 0 && o.Jitter <= 10) {
		return nil, fmt.Errorf("jitter %g: set a fraction of the delay between 0 and 10", o.Jitter)
	}
	n := len(t.DCs)
	e := &Emulator{
		dcs: n, options: o, start: time.Now(),
		paths: make([]path, n*n), oneWay: make([]time.Duration, n*n), congestion: make([]time.Duration, n),
	}
	if len(t.RTT) != n {
		return nil, fmt.Errorf("round-trip times: %d rows for %d data centers", len(t.RTT), n)
	}
	for a, row := range t.RTT {
		if len(row) != n {
			return nil, fmt.Errorf("round-trip times of %q: %d columns for %d data centers", t.DCs[a].Name, len(row), n)
		}
		for b, ms := range row {
			if !(ms >= 0 && ms <= 60_000) {
				return nil, fmt.Errorf("round-trip time from %q to %q is %g ms; set it between 0 and 60000",
					t.DCs[a].Name, t.DCs[b].Name, ms)
			}
			e.oneWay[a*n+b] = time.Duration(ms / 2 * float64(time.Millisecond))
		}
	}
	e.updateDelays()
	return e, nil
}

// updateDelays computes the delay of every path. The caller holds mu, unless e is not shared yet.
func (e *Emulator) updateDelays() {
	for i := range e.paths {
		if from, to := i/e.dcs, i%e.dcs; from != to {
			e.paths[i].delay.Store(int64(e.oneWay[i] + e.congestion[from] + e.congestion[to]))
		}
	}
}

// path returns the path between two different data centers, or nil if there is none.
func (e *Emulator) path(from, to topology.DC) *path {
	if int(from) >= e.dcs || int(to) >= e.dcs || from == to {
		return nil
	}
	return &e.paths[int(from)*e.dcs+int(to)]
}

// Cut cuts the path from one data center to another, and not the path back. Messages on their way are lost.
func (e *Emulator) Cut(from, to topology.DC) error { return e.setCut(from, to, true) }

// CutBoth cuts both paths between two data centers.
func (e *Emulator) CutBoth(a, b topology.DC) error {
	if err := e.Cut(a, b); err != nil {
		return err
	}
	return e.Cut(b, a)
}

// Reconnect ends the cuts of both paths between two data centers.
func (e *Emulator) Reconnect(a, b topology.DC) error {
	if err := e.setCut(a, b, false); err != nil {
		return err
	}
	return e.setCut(b, a, false)
}

// HealAll ends all cuts and congestion.
func (e *Emulator) HealAll() {
	_ = e.setCut(AllDCs, AllDCs, false) // fails only for an unknown data center
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.congestion)
	e.updateDelays()
}

// Congest adds a delay to every path from and to a data center. 0 ends the congestion.
func (e *Emulator) Congest(dc topology.DC, delay time.Duration) error {
	if err := e.checkDC(dc); err != nil {
		return err
	}
	if delay < 0 {
		return fmt.Errorf("congestion of %v: set a delay of at least 0", delay)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.congestion[dc] = delay
	e.updateDelays()
	return nil
}

// Congestion returns the delay that Congest has added to each path of a data center.
func (e *Emulator) Congestion(dc topology.DC) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.congestion[dc]
}

func (e *Emulator) checkDC(dc topology.DC) error {
	if int(dc) >= e.dcs {
		return fmt.Errorf("data center %d is not in the topology, which has %d", dc, e.dcs)
	}
	return nil
}

// setCut cuts or heals the paths from one data center to another. A healed path starts empty.
func (e *Emulator) setCut(from, to topology.DC, cut bool) error {
	for _, dc := range []topology.DC{from, to} {
		if dc != AllDCs {
			if err := e.checkDC(dc); err != nil {
				return err
			}
		}
	}
	if from == to && from != AllDCs {
		return fmt.Errorf("data center %d to itself: only paths between data centers are emulated", from)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.paths {
		a, b := topology.DC(i/e.dcs), topology.DC(i%e.dcs)
		if a == b || from != AllDCs && from != a || to != AllDCs && to != b {
			continue
		}
		if p := &e.paths[i]; p.state.Load()%2 == 1 != cut {
			p.state.Add(1)
		}
	}
	return nil
}

// Stats returns the counters of every path, ordered by from and to.
func (e *Emulator) Stats() []PathStats {
	stats := make([]PathStats, 0, e.dcs*e.dcs)
	for i := range e.paths {
		if i/e.dcs == i%e.dcs {
			continue
		}
		p := &e.paths[i]
		stats = append(stats, PathStats{
			From: topology.DC(i / e.dcs), To: topology.DC(i % e.dcs),
			Messages: p.messages.Load(), Bytes: p.bytes.Load(), Cut: p.cut.Load(), Overflow: p.overflow.Load(),
			Delay: time.Duration(p.delay.Load()), Open: p.state.Load()%2 == 0,
		})
	}
	return stats
}

// now returns the nanoseconds since e was created, on the monotonic clock.
func (e *Emulator) now() int64 { return int64(time.Since(e.start)) }
