package resp

import (
	"sync"
	"time"
)

// A web page can make a browser send an HTTP request to the Redis port of its own machine or network. Its lines would
// be executed as inline commands. As in Redis, the words that every such request has among its first lines close the
// connection before a line of the body is read.

// isHTTP reports whether the first word of a command is one that an HTTP request has, and no Redis client sends.
func isHTTP(word []byte) bool {
	return len(word) == 4 && equalFold(word, "post") || len(word) == 5 && equalFold(word, "host:")
}

// rejectHTTP closes the connection without a reply.
func (c *connection) rejectHTTP() {
	c.awaitWrites()
	c.quitting = true
	c.counters.failures++
	c.server.stats.protocolErrors.Add(1)
	if m := c.server.options.Metrics; m != nil {
		m.ProtocolError()
	}
	if n, ok := c.server.httpLog.next(time.Now()); ok {
		c.server.options.Logger.Warn(
			"closed a connection that sent an HTTP request to the Redis port: either its client has the wrong "+
				"address, or a web page tries to reach this port", "client", c.socket.RemoteAddr(), "unloggedBefore", n)
	}
}

// logInterval is how often a message that clients can provoke is logged.
const logInterval = time.Minute

// logLimit bounds how often a message is logged.
type logLimit struct {
	mu       sync.Mutex
	loggedAt time.Time
	unlogged int
}

// next reports whether an event is to be logged, and how many were not since the last one that was.
func (l *logLimit) next(now time.Time) (unlogged int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.loggedAt.IsZero() && now.Sub(l.loggedAt) < logInterval {
		l.unlogged++
		return 0, false
	}
	unlogged, l.unlogged, l.loggedAt = l.unlogged, 0, now
	return unlogged, true
}
