package wan

import (
	"math/rand/v2"
	"time"

	"github.com/causalstore/causalstore/topology"
)

// The capacity of one path of a line. Items beyond it are refused.
const (
	maxItems = 1 << 17
	maxBytes = 64 << 20
)

// jitterPeriod is how long a random jitter is used before the next is drawn. Queues in routers change over
// milliseconds, not from packet to packet. And since items keep their order, a jitter per item would delay all of them
// by the largest one.
const jitterPeriod = 10 * time.Millisecond

// pipe is the queue of one path of a line, in the order of sending. It uses no clock and no lock.
type pipe[T any] struct {
	path *path
	// state is the state of the path when the items were sent. Once the path has another state, all of them are lost.
	state uint64
	ring  []entry[T] // a ring buffer; its length is 0 or a power of two
	head  int
	count int
	bytes int
	last  int64 // when the last item is due; later ones are not due earlier

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

// isStale reports whether a cut has lost the items of the pipe.
func (p *pipe[T]) isStale() bool { return p.count > 0 && p.path.state.Load() != p.state }

// push adds an item at the time now and returns when it is due, and false if the pipe is full. The pipe must not be
// stale.
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

// pop moves the items that are due at the time now to dst, until dst has limit items.
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
		p.ring, p.head = nil, 0 // release the memory of a burst
	}
	return dst
}

// nextDue returns when the first item is due, and false if the pipe is empty.
func (p *pipe[T]) nextDue() (int64, bool) {
	if p.count == 0 {
		return 0, false
	}
	return p.ring[p.head].due, true
}
