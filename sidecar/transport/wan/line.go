package wan

import (
	"math"
	"sync"
	"time"

	"github.com/causalstore/causalstore/topology"
)

// SendResult is the result of sending an item.
type SendResult uint8

// The results.
const (
	Queued   SendResult = iota // the item is on its way
	Cut                        // lost: the path is cut
	Overflow                   // refused: the path is full
	NoPath                     // refused: from and to are not two data centers of the topology
	Closed                     // refused: the line is closed
)

const (
	// minInterval is the minimum time between two deliveries to one data center. Items due within it are delivered
	// together.
	minInterval = 500 * time.Microsecond
	// maxBatch bounds the items of one delivery.
	maxBatch = 1024
)

// Line sends items over an Emulator. Each receiving data center has one goroutine that delivers, so a slow one does not
// delay the others. Items need no goroutine or timer of their own.
type Line[T any] struct {
	e         *Emulator
	deliver   func([]T)
	onLost    func([]T)
	receivers []receiver[T] // by data center
	done      chan struct{}
	wg        sync.WaitGroup
	once      sync.Once
}

// receiver holds the items on their way to one data center.
type receiver[T any] struct {
	mu     sync.Mutex
	pipes  []pipe[T] // by sending data center
	lost   []T       // items lost in cuts, not reported yet
	wakeAt int64     // when the goroutine checks for due items again
	closed bool
	wake   chan struct{}
}

// NewLine returns a line over e. It calls deliver with items that have arrived in a data center, in order for each pair
// of data centers, and with one call at a time for each receiving data center. It calls onLost with items that were
// lost in a cut after Send had accepted them. Neither may retain the slice or call Close.
func NewLine[T any](e *Emulator, deliver, onLost func(items []T)) *Line[T] {
	l := &Line[T]{e: e, deliver: deliver, onLost: onLost, receivers: make([]receiver[T], e.dcs),
		done: make(chan struct{})}
	for to := range l.receivers {
		r := &l.receivers[to]
		r.wake, r.wakeAt = make(chan struct{}, 1), math.MaxInt64
		for from := range e.dcs {
			r.pipes = append(r.pipes, newPipe[T](e, topology.DC(from), topology.DC(to)))
		}
		l.wg.Go(func() { l.run(r) })
	}
	return l
}

// Send sends an item of about size bytes. It never blocks.
func (l *Line[T]) Send(from, to topology.DC, size int, item T) SendResult {
	p := l.e.path(from, to)
	if p == nil {
		return NoPath
	}
	r := &l.receivers[to]
	r.mu.Lock()
	defer r.mu.Unlock()
	state := p.state.Load()
	switch {
	case r.closed:
		return Closed
	case state%2 == 1:
		p.cut.Add(1)
		return Cut
	}
	pipe := &r.pipes[from]
	if pipe.isStale() {
		r.discardStale(pipe)
	}
	due, ok := pipe.push(l.e.now(), state, size, item, l.e.options.Jitter)
	if !ok {
		p.overflow.Add(1)
		return Overflow
	}
	p.messages.Add(1)
	p.bytes.Add(uint64(size))
	if due < r.wakeAt {
		r.wakeUpAt(due)
	}
	return Queued
}

// wakeUpAt makes the goroutine check for due items at the given time. The caller holds mu.
func (r *receiver[T]) wakeUpAt(at int64) {
	r.wakeAt = at
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// discardStale moves the items of a stale pipe to lost. The caller holds mu.
func (r *receiver[T]) discardStale(p *pipe[T]) {
	n := len(r.lost)
	r.lost = p.pop(math.MaxInt64, r.lost, math.MaxInt)
	p.path.cut.Add(uint64(len(r.lost) - n))
	r.wakeUpAt(0)
}

// take appends the items that are due at the time now to dst. It returns them, the lost items, and when to check again.
func (r *receiver[T]) take(now int64, dst []T) (due, lost []T, next int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next = math.MaxInt64
	for i := range r.pipes {
		p := &r.pipes[i]
		if p.path == nil {
			continue
		}
		if p.isStale() {
			r.discardStale(p)
		}
		dst = p.pop(now, dst, maxBatch)
		if at, ok := p.nextDue(); ok {
			next = min(next, at)
		}
	}
	lost, r.lost = r.lost, nil
	r.wakeAt = next
	return dst, lost, next
}

func (l *Line[T]) run(r *receiver[T]) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var batch []T
	for {
		now := l.e.now()
		due, lost, next := r.take(now, batch[:0])
		if len(lost) > 0 {
			l.onLost(lost)
		}
		if len(due) > 0 {
			l.deliver(due)
			clear(due)
		}
		batch = due
		if next <= now {
			continue // more items are due than fit into a batch
		}
		if next < math.MaxInt64 {
			timer.Reset(max(minInterval, time.Duration(next-l.e.now())))
		} else {
			timer.Stop()
		}
		select {
		case <-timer.C:
		case <-r.wake:
		case <-l.done:
			return
		}
	}
}

// Close stops the line. Items on their way are lost. When it returns, no call of deliver or onLost is running.
func (l *Line[T]) Close() {
	l.once.Do(func() { close(l.done) })
	for i := range l.receivers {
		r := &l.receivers[i]
		r.mu.Lock()
		r.closed = true
		r.mu.Unlock()
	}
	l.wg.Wait()
}
