package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// pulse reads a few keys from time to time while a system waits for its turn. A cache gives up the leases of shards
// that nobody has read for half a minute, and with them its entries. This does not happen in service, so it must not
// happen between two rounds.
type pulse struct {
	measured atomic.Bool // while the system is measured, the pulse must not read
	stop     context.CancelFunc
	ended    sync.WaitGroup
}

const (
	pulseEvery = 5 * time.Second
	pulseKeys  = 64 // the most popular ones: enough to reach every shard
)

// start starts reading records at every address, and stops reading the previous ones.
func (p *pulse) start(addrs []string, r records) {
	p.end()
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	for _, addr := range addrs {
		p.ended.Go(func() { p.run(ctx, addr, r) })
	}
}

// end stops the reads and waits for their end.
func (p *pulse) end() {
	if p.stop != nil {
		p.stop()
		p.ended.Wait()
	}
}

func (p *pulse) run(ctx context.Context, addr string, r records) {
	var c *conn
	defer func() {
		if c != nil {
			_ = c.Close()
		}
	}()
	for sleep(ctx, pulseEvery) == nil {
		if p.measured.Load() {
			continue
		}
		var err error
		if c == nil {
			if c, err = dial(addr); err != nil {
				c = nil
				continue
			}
		}
		// Keys that are missing for a moment do no harm, and a failed system shows up when it is measured.
		n := min(pulseKeys, r.count)
		for i := range n {
			c.send(r.get, i)
		}
		if err := c.exchange(n, func(reply) {}); err != nil {
			_ = c.Close()
			c = nil
		}
	}
}
