package resp

import "time"

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
	if n, ok := c.server.httpLog.Next(time.Now()); ok {
		c.server.options.Logger.Warn(
			"closed a connection that sent an HTTP request to the Redis port: either its client has the wrong "+
				"address, or a web page tries to reach this port", "client", c.socket.RemoteAddr(), "unloggedBefore", n)
	}
}
