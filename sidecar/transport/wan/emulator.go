// Package wan emulates the network between data centres on one machine: the declared latencies with jitter, congestion,
// and cuts, all of which can be changed while it runs.
//
// Between two nodes it behaves like one TCP connection: what was sent first arrives first, nothing is lost while the path
// is open, and a cut breaks the connection: what was under way is lost, as is what is sent until the cut heals.
// Inside one data centre it does nothing.
package wan

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// EveryDC stands for all the other data centres in Cut and Heal.
const EveryDC topology.DC = math.MaxUint16

// Options of an Emulator.
type Options struct {
	// Jitter is how much longer than the one-way delay a message may take, as a fraction of that delay.
	Jitter float64
	// Seed makes the jitter repeatable.
	Seed uint64
}

// Emulator is the state of the network between data centres. It may be shared by any number of lines, and all its
// methods may be called at any time by anyone.
type Emulator struct {
	dcs     int
	options Options
	start   time.Time
	pairs   []path // [from*dcs+to]

	mu     sync.Mutex // guards changes of what the delays and states of the paths follow from
	oneWay []time.Duration
	extra  []time.Duration // by DC
}

// path is one direction between two data centres.
type path struct {
	// state is even while the path is open and odd while it is cut; every cut and heal adds one, so that what was sent
	// before a cut can be told from what was sent after it healed.
	state atomic.Uint64
	delay atomic.Int64 // nanoseconds, with congestion and without jitter

	messages, bytes, cut, overflow atomic.Uint64
}

// PathStats counts what was sent from one data centre to another since the start.
type PathStats struct {
	From, To topology.DC
	Messages uint64 // taken, whether or not they arrived
	Bytes    uint64 // of them, about
	Cut      uint64 // messages lost in cuts
	Overflow uint64 // messages refused because too much was under way
	Delay    time.Duration
	Open     bool
}

// New returns the network that t declares: each way takes half of the round-trip time.
func New(t *topology.Topology, o Options) (*Emulator, error) {
	if !(o.Jitter >= 0 && o.Jitter <= 10) {
		return nil, fmt.Errorf("jitter %g: it is a fraction of the delay, between 0 and 10", o.Jitter)
	}
	n := len(t.DCs)
	e := &Emulator{
		dcs: n, options: o, start: time.Now(),
		pairs: make([]path, n*n), oneWay: make([]time.Duration, n*n), extra: make([]time.Duration, n),
	}
	if len(t.RTT) != n {
		return nil, fmt.Errorf("round-trip times: %d rows for %d data centres", len(t.RTT), n)
	}
	for a, row := range t.RTT {
		if len(row) != n {
			return nil, fmt.Errorf("round-trip times of %q: %d entries for %d data centres", t.DCs[a].Name, len(row), n)
		}
		for b, ms := range row {
			if !(ms >= 0 && ms <= 60_000) {
				return nil, fmt.Errorf("round-trip time from %q to %q is %g ms; it must be between 0 and 60000", t.DCs[a].Name, t.DCs[b].Name, ms)
			}
			e.oneWay[a*n+b] = time.Duration(ms / 2 * float64(time.Millisecond))
		}
	}
	e.recompute()
	return e, nil
}

// recompute derives the delay of every path. The caller holds mu, or is the only one who knows e.
func (e *Emulator) recompute() {
	for i := range e.pairs {
		if from, to := i/e.dcs, i%e.dcs; from != to {
			e.pairs[i].delay.Store(int64(e.oneWay[i] + e.extra[from] + e.extra[to]))
		}
	}
}

// path returns the path between two different data centres, nil if there is none.
func (e *Emulator) path(from, to topology.DC) *path {
	if int(from) >= e.dcs || int(to) >= e.dcs || from == to {
		return nil
	}
	return &e.pairs[int(from)*e.dcs+int(to)]
}

// Delay returns how long a message takes now at least, without jitter; 0 inside a data centre.
func (e *Emulator) Delay(from, to topology.DC) time.Duration {
	if p := e.path(from, to); p != nil {
		return time.Duration(p.delay.Load())
	}
	return 0
}

// Open reports whether messages get from one data centre to the other.
func (e *Emulator) Open(from, to topology.DC) bool {
	p := e.path(from, to)
	return p == nil || p.state.Load()%2 == 0
}

// Cut breaks the way from one data centre to another; the way back stays. What is under way is lost.
func (e *Emulator) Cut(from, to topology.DC) error { return e.set(from, to, true) }

// Heal mends the way from one data centre to another, whatever broke it. It starts empty.
func (e *Emulator) Heal(from, to topology.DC) error { return e.set(from, to, false) }

// CutBoth breaks both ways between two data centres.
func (e *Emulator) CutBoth(a, b topology.DC) error {
	if err := e.Cut(a, b); err != nil {
		return err
	}
	return e.Cut(b, a)
}

// HealBoth mends both ways between two data centres.
func (e *Emulator) HealBoth(a, b topology.DC) error {
	if err := e.Heal(a, b); err != nil {
		return err
	}
	return e.Heal(b, a)
}

// HealAll mends every cut and ends every congestion.
func (e *Emulator) HealAll() {
	_ = e.Heal(EveryDC, EveryDC) // it has no data centre to be wrong about
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.extra)
	e.recompute()
}

// Congest adds extra to every way out of and into a data centre; 0 ends the congestion.
func (e *Emulator) Congest(dc topology.DC, extra time.Duration) error {
	if err := e.known(dc); err != nil {
		return err
	}
	if extra < 0 {
		return fmt.Errorf("congestion of %v: a delay cannot be negative", extra)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.extra[dc] = extra
	e.recompute()
	return nil
}

func (e *Emulator) known(dc topology.DC) error {
	if int(dc) >= e.dcs {
		return fmt.Errorf("data centre %d is not in the topology, which has %d", dc, e.dcs)
	}
	return nil
}

func (e *Emulator) set(from, to topology.DC, cut bool) error {
	for _, dc := range []topology.DC{from, to} {
		if dc != EveryDC {
			if err := e.known(dc); err != nil {
				return err
			}
		}
	}
	if from == to && from != EveryDC {
		return fmt.Errorf("data centre %d to itself: only ways between data centres are emulated", from)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.pairs {
		a, b := topology.DC(i/e.dcs), topology.DC(i%e.dcs)
		if a == b || from != EveryDC && from != a || to != EveryDC && to != b {
			continue
		}
		if p := &e.pairs[i]; p.state.Load()%2 == 1 != cut {
			p.state.Add(1)
		}
	}
	return nil
}

// Stats returns the counts of every path, by from and to.
func (e *Emulator) Stats() []PathStats {
	stats := make([]PathStats, 0, e.dcs*e.dcs)
	for i := range e.pairs {
		if i/e.dcs == i%e.dcs {
			continue
		}
		p := &e.pairs[i]
		stats = append(stats, PathStats{
			From: topology.DC(i / e.dcs), To: topology.DC(i % e.dcs),
			Messages: p.messages.Load(), Bytes: p.bytes.Load(), Cut: p.cut.Load(), Overflow: p.overflow.Load(),
			Delay: time.Duration(p.delay.Load()), Open: p.state.Load()%2 == 0,
		})
	}
	return stats
}

// now is nanoseconds on the monotonic clock since e was made.
func (e *Emulator) now() int64 { return int64(time.Since(e.start)) }
