package bench

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// pulse reads a few keys now and then while a system waits for its turn. A cache gives up the leases of shards that nobody
// has read from for half a minute, and with them all that it holds: in service that does not happen, so it must not
// happen between two rounds either.
type pulse struct {
	measured atomic.Bool // the system is being measured: nothing else may be read
	stop     context.CancelFunc
	ended    sync.WaitGroup
}

const (
	pulseEvery = 5 * time.Second
	pulseKeys  = 64 // the most popular ones: enough to meet every shard
)

// start begins to read records at every address, instead of those before.
func (p *pulse) start(addrs []string, r records) {
	p.end()
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	for _, addr := range addrs {
		p.ended.Go(func() { p.run(ctx, addr, r) })
	}
}

// end returns when nothing is read any more.
func (p *pulse) end() {
	if p.stop != nil {
		p.stop()
		p.ended.Wait()
	}
}

func (p *pulse) run(ctx context.Context, addr string, r records) {
	var conn net.Conn
	defer func() {
		if conn != nil {
			_ = conn.Close()
		}
	}()
	tick := time.NewTicker(pulseEvery)
	defer tick.Stop()
	n := min(pulseKeys, r.count)
	var batch []byte
	for i := range n {
		batch = r.get(batch, i)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if p.measured.Load() {
			continue
		}
		var err error
		if conn == nil {
			if conn, err = net.DialTimeout("tcp", addr, time.Second); err != nil {
				conn = nil
				continue
			}
		}
		// Keys that are missing for a moment do no harm, and a system that fails shows when it is measured.
		if _, _, err = exchange(conn, batch, n, '$'); err != nil {
			_ = conn.Close()
			conn = nil
		}
	}
}
