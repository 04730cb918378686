package resp

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/front"
)

// maxPendingPuts bounds the puts of a connection that are issued and not answered.
const maxPendingPuts = 1024

// pendingPuts are the plain writes of a pipeline that were issued and not yet answered. They are awaited before any
// other command of the connection executes, so no command can miss their effect.
type pendingPuts struct {
	waits []func() error
	bytes int
}

// putBlind stores v under key and replies OK: at once, or in awaitPuts if the put is part of a pipeline.
func (c *connection) putBlind(key string, v causal.Value) error {
	c.awaitUpdates()
	if c.skipThisReply || len(c.pending.waits) == 0 && c.in.buffered() == 0 && !c.executing {
		c.awaitPuts()
		if len(v.Data) >= noCopyBytes && c.held.values == 0 {
			c.hold(len(v.Data))
			defer c.hold(0)
		}
		if err := c.session.Put(c.server.context, key, v); err != nil {
			return err
		}
		c.out.writeOK()
		return nil
	}
	c.pending.waits = append(c.pending.waits, c.session.PutAsync(storageKey(c.database, key), v))
	c.pending.bytes += len(key) + len(v.Data)
	if len(v.Data) >= front.AccountStep {
		c.account()
	}
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
			c.counters.failures++
		default:
			c.out.writeOK()
		}
	}
	c.pending.waits, c.pending.bytes = c.pending.waits[:0], 0
}
