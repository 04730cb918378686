package resp

import "github.com/causalstore/causalstore/sidecar/causal"

const (
	// maxPuts is how many puts of a connection are under way at once.
	maxPuts = 1024
	// maxAnnounced is how many keys are announced at once.
	maxAnnounced = 64
)

// puts are the plain writes of a pipeline that were issued and not yet answered. They are answered before anything else
// of the connection executes, so no command sees the store without them.
type puts struct {
	waits []func() error
	bytes int
}

// putBlind stores v under key and answers OK, at once or, if more commands wait in the buffer, when settle is called.
func (c *connection) putBlind(key string, v causal.Value) error {
	if c.pipeliner == nil || c.skipping || len(c.puts.waits) == 0 && c.in.buffered() == 0 {
		c.settle()
		if err := c.session.Put(c.server.context, key, v); err != nil {
			return err
		}
		c.out.ok()
		return nil
	}
	c.puts.waits = append(c.puts.waits, c.pipeliner.PutAsync(key, v))
	c.puts.bytes += len(key) + len(v.Data)
	if len(c.puts.waits) >= maxPuts || c.puts.bytes >= c.server.options.Limits.MaxPipelineBytes {
		c.settle()
	}
	return nil
}

// settle waits for the puts under way and answers them in their order.
func (c *connection) settle() {
	for i, wait := range c.puts.waits {
		err := wait()
		c.puts.waits[i] = nil
		switch {
		case c.out.mute:
		case err != nil:
			c.out.fail(asReply(err))
			c.failures++
		default:
			c.out.ok()
		}
	}
	c.puts.waits, c.puts.bytes = c.puts.waits[:0], 0
}

// announced are the keys that the session was told of, from next on. They are the keys of the GETs that execute next, so
// each is made a string once.
type announced struct {
	keys []string
	next int
}

// announce returns the key of a GET, and tells the session of those behind it when it was not told of this one.
func (c *connection) announce(key []byte) string {
	if c.prefetcher == nil {
		return string(key)
	}
	a := &c.announced
	if a.next < len(a.keys) && a.keys[a.next] == string(key) {
		a.next++
		return a.keys[a.next-1]
	}
	clear(a.keys)
	a.keys, a.next = a.keys[:0], 0
	if c.in.buffered() > 0 {
		c.in.following(maxAnnounced, func(key []byte) { a.keys = append(a.keys, string(key)) })
		if len(a.keys) > 0 {
			c.prefetcher.Prefetch(a.keys)
		}
	}
	return string(key)
}
