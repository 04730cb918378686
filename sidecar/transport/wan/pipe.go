package wan

import (
	"math/rand/v2"
	"time"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// The bounds of what may be under way on one path of a line; what is sent beyond them is refused.
const (
	maxItems = 1 << 17
	maxBytes = 64 << 20
)

// jitterPeriod is how long one draw of the jitter holds. Queues in routers change over milliseconds, not from packet to
// packet; and since nothing overtakes, drawing anew for each message would only give the greatest draw to them all.
const jitterPeriod = 10 * time.Millisecond

// pipe holds what is under way on one path of one line, in the order of sending. It knows no clock and no lock.
type pipe[T any] struct {
	path *path
	// state is that of the path when what is in the pipe was sent: as soon as the path has another, that is all lost.
	state uint64
	ring  []entry[T] // a ring buffer; its length is 0 or a power of two
	head  int
	count int
	bytes int
	last  int64 // when the last one sent is due; no later one is due earlier

	rng        *rand.Rand
	jitter     float64
	jitterEnds int64
}

type entry[T any] struct {
	due  int64
	size int
	item T
}

func newPipe[T any](e *Emulator, from, to topology.DC) pipe[T] {
	return pipe[T]{path: e.path(from, to), rng: rand.New(rand.NewPCG(e.options.Seed, uint64(from)<<16|uint64(to)))}
}

// stale reports whether a cut has come upon what is in the pipe.
func (p *pipe[T]) stale() bool { return p.count > 0 && p.path.state.Load() != p.state }

// push sends an item at the time now, unless the pipe is full, and returns when it is due. A stale pipe must be drained before.
func (p *pipe[T]) push(now int64, state uint64, size int, item T, jitter float64) (due int64, ok bool) {
	if p.count >= maxItems || p.bytes+size > maxBytes && p.count > 0 {
		return 0, false
	}
	if p.state != state {
		p.state, p.last = state, 0
	}
	if jitter > 0 && now >= p.jitterEnds {
		p.jitter, p.jitterEnds = jitter*p.rng.Float64(), now+int64(jitterPeriod)
	}
	delay := float64(p.path.delay.Load())
	p.last = max(p.last, now+int64(delay+delay*p.jitter))
	if p.count == len(p.ring) {
		p.grow()
	}
	p.ring[(p.head+p.count)&(len(p.ring)-1)] = entry[T]{due: p.last, size: size, item: item}
	p.count++
	p.bytes += size
	return p.last, true
}

func (p *pipe[T]) grow() {
	ring := make([]entry[T], max(16, 2*len(p.ring)))
	for i := range p.count {
		ring[i] = p.ring[(p.head+i)&(len(p.ring)-1)]
	}
	p.ring, p.head = ring, 0
}

// pop appends to dst what is due at the time now, at most limit items in dst, and forgets it.
func (p *pipe[T]) pop(now int64, dst []T, limit int) []T {
	for p.count > 0 && len(dst) < limit {
		e := &p.ring[p.head]
		if e.due > now {
			break
		}
		dst = append(dst, e.item)
		p.bytes -= e.size
		*e = entry[T]{}
		p.head = (p.head + 1) & (len(p.ring) - 1)
		p.count--
	}
	if p.count == 0 && len(p.ring) > 1<<14 {
		p.ring, p.head = nil, 0 // what a burst needed is given back after it
	}
	return dst
}

// due returns when the first item is due, and false if there is none.
func (p *pipe[T]) due() (int64, bool) {
	if p.count == 0 {
		return 0, false
	}
	return p.ring[p.head].due, true
}
