package node

import (
	"math"
	"slices"
	"sync"
	"time"
)

// Ticker ticks hosts from one goroutine, each when its machine needs it.
type Ticker struct {
	start   time.Time
	done    chan struct{}
	stopped chan struct{}
	timer   *time.Timer

	mu    sync.Mutex
	hosts []*tickedHost
	due   []*tickedHost // used by run only
	// wakeAt is when the timer fires.
	wakeAt time.Duration
}

// tickedHost is a host and the time of its next tick, counted from the ticker's start.
type tickedHost struct {
	host  Host
	dueAt time.Duration
}

// tickInterval is the least time between two ticks of a host. All ticks are at multiples of it, so that hosts of one
// process, and timers of one machine, share them.
const tickInterval = 5 * time.Millisecond

// never is the time of a tick that is not due.
const never time.Duration = math.MaxInt64

// NewTicker starts a ticker.
func NewTicker() *Ticker {
	t := &Ticker{start: time.Now(), done: make(chan struct{}), stopped: make(chan struct{}),
		timer: time.NewTimer(time.Hour), wakeAt: never}
	go t.run()
	return t
}

func (t *Ticker) run() {
	defer close(t.stopped)
	defer t.timer.Stop()
	for {
		select {
		case <-t.done:
			return
		case <-t.timer.C:
		}
		for _, h := range t.takeDue() {
			h.host.Tick() // raises the alarm with the time of the next one
		}
		t.rearm()
	}
}

// takeDue returns the hosts whose ticks are due.
func (t *Ticker) takeDue() []*tickedHost {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wakeAt = 0 // rearm sets the timer once the ticks have told when the next ones are due
	clear(t.due)
	t.due = t.due[:0]
	now := time.Since(t.start)
	for _, h := range t.hosts {
		if h.dueAt <= now {
			h.dueAt = never
			t.due = append(t.due, h)
		}
	}
	return t.due
}

// schedule makes a tick of a host due, at the next multiple of the interval after a time. The caller holds the lock.
func (t *Ticker) schedule(h *tickedHost, in time.Duration) {
	at := (time.Since(t.start) + in + tickInterval - 1).Truncate(tickInterval)
	h.dueAt = min(h.dueAt, at)
	if h.dueAt < t.wakeAt {
		t.setTimer(h.dueAt)
	}
}

// rearm sets the timer to the next tick of any host.
func (t *Ticker) rearm() {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := never
	for _, h := range t.hosts {
		next = min(next, h.dueAt)
	}
	t.setTimer(next)
}

func (t *Ticker) setTimer(at time.Duration) {
	t.wakeAt = at
	t.timer.Reset(at - time.Since(t.start))
}

// Add ticks h from now on.
func (t *Ticker) Add(h Host) {
	e := &tickedHost{host: h, dueAt: never}
	h.SetAlarm(func(in time.Duration) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.schedule(e, in)
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hosts = append(t.hosts, e)
	t.schedule(e, 0)
}

// Remove stops ticking h.
func (t *Ticker) Remove(h Host) {
	h.SetAlarm(func(time.Duration) {})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hosts = slices.DeleteFunc(t.hosts, func(e *tickedHost) bool { return e.host == h })
}

// Stop stops the ticker and waits for its last tick.
func (t *Ticker) Stop() {
	close(t.done)
	<-t.stopped
}
