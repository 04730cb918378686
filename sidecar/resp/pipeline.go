package resp

import "github.com/causalstore/causalstore/sidecar/causal"

const (
	// maxPendingPuts bounds the puts of a connection that are issued and not answered.
	maxPendingPuts = 1024
	// maxPrefetchedKeys bounds the keys of one call of Prefetch.
	maxPrefetchedKeys = 64
)

// pendingPuts are the plain writes of a pipeline that were issued and not yet answered. They are awaited before any other
// command of the connection executes, so no command can miss their effect.
type pendingPuts struct {
	waits []func() error
	bytes int
}

// putBlind stores v under key and replies OK: at once, or in awaitPuts if the put is part of a pipeline.
func (c *connection) putBlind(key string, v causal.Value) error {
	if c.pipeliner == nil || c.skipThisReply || len(c.pending.waits) == 0 && c.in.buffered() == 0 && !c.executing {
		c.awaitPuts()
		if err := c.session.Put(c.server.context, key, v); err != nil {
			return err
		}
		c.out.writeOK()
		return nil
	}
	c.pending.waits = append(c.pending.waits, c.pipeliner.PutAsync(storageKey(c.database, key), v))
	c.pending.bytes += len(key) + len(v.Data)
	if len(c.pending.waits) >= maxPendingPuts || c.pending.bytes >= c.server.options.Limits.MaxPipelineBytes {
		c.awaitPuts()
	}
	return nil
}

// awaitPuts waits for the pending puts and replies to them in order.
func (c *connection) awaitPuts() {
	for i, wait := range c.pending.waits {
		err := wait()
		c.pending.waits[i] = nil
		switch {
		case c.out.mute:
		case err != nil:
			c.out.writeError(toError(err))
			c.failures++
		default:
			c.out.writeOK()
		}
	}
	c.pending.waits, c.pending.bytes = c.pending.waits[:0], 0
}

// prefetchedKeys are the keys that were passed to Prefetch; those from next on have not been read yet. The GETs that
// execute next reuse these strings.
type prefetchedKeys struct {
	keys []string
	next int
}

// prefetch returns the key of a GET as a string. If the key was not prefetched, it passes the keys of the GETs that follow
// in the read buffer to the session.
func (c *connection) prefetch(key []byte) string {
	if c.prefetcher == nil {
		return string(key)
	}
	a := &c.prefetched
	if a.next < len(a.keys) && a.keys[a.next] == string(key) {
		a.next++
		return a.keys[a.next-1]
	}
	clear(a.keys)
	a.keys, a.next = a.keys[:0], 0
	if c.in.buffered() > 0 {
		c.in.peekGetKeys(maxPrefetchedKeys, func(key []byte) { a.keys = append(a.keys, string(key)) })
		if len(a.keys) > 0 {
			c.prefetcher.Prefetch(storageKeys(c.database, a.keys))
		}
	}
	return string(key)
}
