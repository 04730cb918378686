package front

import (
	"sync"
	"time"
)

// logInterval is how often a message that clients can provoke is logged.
const logInterval = time.Minute

// LogLimit bounds how often a message that clients can provoke is logged.
type LogLimit struct {
	mu       sync.Mutex
	loggedAt time.Time
	unlogged int
}

// Next reports whether an event is to be logged, and how many were not since the last one that was.
func (l *LogLimit) Next(now time.Time) (unlogged int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.loggedAt.IsZero() && now.Sub(l.loggedAt) < logInterval {
		l.unlogged++
		return 0, false
	}
	unlogged, l.unlogged, l.loggedAt = l.unlogged, 0, now
	return unlogged, true
}
