package coordinator

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// undurablePuts are the accepted puts that are not durable yet. Until then each is in memory more than once: here, as a
// record for the log, and in what is being written. So they have a bound of their own, and one identity gets a part of
// it: a disk that is slower than whoever sends must not fill the memory, and the puts of others still have room.
type undurablePuts struct {
	quota causal.Quota // of their bytes
	queue []undurablePut
	head  int // those before it are durable
}

type undurablePut struct {
	index  uint64 // in the log
	holder causal.Holder
	size   int
}

// maxPutBytes is what the largest put takes.
const maxPutBytes = writeOverhead + causal.MaxKeyBytes + causal.MaxValueBytes + depBytes*causal.MaxPutDeps

func newUndurablePuts(cfg *Config) undurablePuts {
	each := max(cfg.MaxBytes/8, maxPutBytes)
	return undurablePuts{quota: causal.Quota{Total: 2 * each, Each: each, OwnerOf: cfg.OwnerOf}}
}

// add counts a put for which there is room.
func (u *undurablePuts) add(from topology.Node, index uint64, size int) {
	holder, _ := u.quota.TakeSize(from, size)
	if u.head > 0 && len(u.queue) == cap(u.queue) { // make room from what is durable, before the array grows
		n := copy(u.queue, u.queue[u.head:])
		clear(u.queue[n:])
		u.queue, u.head = u.queue[:n], 0
	}
	u.queue = append(u.queue, undurablePut{index, holder, size})
}

// release gives back the room of the puts up to an index.
func (u *undurablePuts) release(index uint64) {
	for u.head < len(u.queue) && u.queue[u.head].index <= index {
		u.quota.Release(u.queue[u.head].holder, u.queue[u.head].size)
		u.head++
	}
	if u.head == len(u.queue) {
		u.queue, u.head = causal.Recycle(u.queue), 0
	}
}

// HasRoom reports whether a put of a sidecar may be accepted now, beside those that are not durable yet. If not, there
// is room when some of them are.
func (c *Coordinator) HasRoom(from topology.Node, p *causal.Put) bool {
	return c.undurable.quota.HasRoom(from, sizeOf(p.Key, p.Value, len(p.Deps)))
}

// UndurableBytes returns about what the puts take that are not durable yet, in bytes.
func (c *Coordinator) UndurableBytes() int { return c.undurable.quota.Held() }
