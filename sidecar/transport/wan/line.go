package wan

import (
	"math"
	"sync"
	"time"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// Verdict says what became of an item that was sent.
type Verdict uint8

// The verdicts.
const (
	Queued   Verdict = iota // it is under way
	Cut                     // lost: the way is cut
	Overflow                // refused: too much is under way
	NoPath                  // refused: not between two data centres of the topology
	Closed                  // refused: the line is closed
)

const (
	// granule is the least time between two deliveries to one data centre: what is due within it goes together.
	granule = 500 * time.Microsecond
	// maxBatch is the most items in one delivery.
	maxBatch = 1024
)

// Line carries the items of one network over an Emulator. One goroutine for each receiving data centre delivers, so one
// that is busy does not hold up the others; there is no goroutine and no timer for a single item.
type Line[T any] struct {
	e       *Emulator
	deliver func([]T)
	lost    func([]T)
	lanes   []lane[T] // by receiving data centre
	done    chan struct{}
	wg      sync.WaitGroup
	once    sync.Once
}

// lane is everything under way to one data centre.
type lane[T any] struct {
	mu     sync.Mutex
	pipes  []pipe[T] // by sending data centre
	dead   []T       // what cuts have taken, to be reported as lost
	wakeAt int64     // when the goroutine looks again
	closed bool
	wake   chan struct{}
}

// NewLine returns a line over e. It calls deliver with what has arrived in one data centre, in order for each pair of
// data centres, one call at a time for each receiving data centre; and lost with what a cut took while it was under way.
// Neither may keep the slice or call Close.
func NewLine[T any](e *Emulator, deliver, lost func(items []T)) *Line[T] {
	l := &Line[T]{e: e, deliver: deliver, lost: lost, lanes: make([]lane[T], e.dcs), done: make(chan struct{})}
	for to := range l.lanes {
		a := &l.lanes[to]
		a.wake, a.wakeAt = make(chan struct{}, 1), math.MaxInt64
		for from := range e.dcs {
			a.pipes = append(a.pipes, newPipe[T](e, topology.DC(from), topology.DC(to)))
		}
		l.wg.Go(func() { l.run(a) })
	}
	return l
}

// Send puts an item of about size bytes on its way. It never blocks.
func (l *Line[T]) Send(from, to topology.DC, size int, item T) Verdict {
	p := l.e.path(from, to)
	if p == nil {
		return NoPath
	}
	a := &l.lanes[to]
	a.mu.Lock()
	defer a.mu.Unlock()
	state := p.state.Load()
	switch {
	case a.closed:
		return Closed
	case state%2 == 1:
		p.cut.Add(1)
		return Cut
	}
	pipe := &a.pipes[from]
	if pipe.stale() {
		a.bury(pipe)
	}
	due, ok := pipe.push(l.e.now(), state, size, item, l.e.options.Jitter)
	if !ok {
		p.overflow.Add(1)
		return Overflow
	}
	p.messages.Add(1)
	p.bytes.Add(uint64(size))
	if due < a.wakeAt {
		a.signal(due)
	}
	return Queued
}

// signal makes the goroutine look at the time at. The caller holds mu.
func (a *lane[T]) signal(at int64) {
	a.wakeAt = at
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// bury moves what is in a stale pipe to the dead. The caller holds mu.
func (a *lane[T]) bury(p *pipe[T]) {
	n := len(a.dead)
	a.dead = p.pop(math.MaxInt64, a.dead, math.MaxInt)
	p.path.cut.Add(uint64(len(a.dead) - n))
	a.signal(0)
}

// take appends what is due at the time now to dst, and returns it with what was lost and when to look again.
func (a *lane[T]) take(now int64, dst []T) (due, dead []T, next int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	next = math.MaxInt64
	for i := range a.pipes {
		p := &a.pipes[i]
		if p.path == nil {
			continue
		}
		if p.stale() {
			a.bury(p)
		}
		dst = p.pop(now, dst, maxBatch)
		if at, ok := p.due(); ok {
			next = min(next, at)
		}
	}
	dead, a.dead = a.dead, nil
	a.wakeAt = next
	return dst, dead, next
}

func (l *Line[T]) run(a *lane[T]) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var batch []T
	for {
		now := l.e.now()
		due, dead, next := a.take(now, batch[:0])
		if len(dead) > 0 {
			l.lost(dead)
		}
		if len(due) > 0 {
			l.deliver(due)
			clear(due)
		}
		batch = due
		if next <= now {
			continue // more was due than fits into one batch
		}
		if next < math.MaxInt64 {
			timer.Reset(max(granule, time.Duration(next-l.e.now())))
		} else {
			timer.Stop()
		}
		select {
		case <-timer.C:
		case <-a.wake:
		case <-l.done:
			return
		}
	}
}

// Close stops the line; what is under way is lost. No call of deliver or lost is running when it returns.
func (l *Line[T]) Close() {
	l.once.Do(func() { close(l.done) })
	for i := range l.lanes {
		a := &l.lanes[i]
		a.mu.Lock()
		a.closed = true
		a.mu.Unlock()
	}
	l.wg.Wait()
}
