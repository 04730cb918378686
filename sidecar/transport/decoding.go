package transport

import (
	"sync"

	"github.com/causalstore/causalstore/sidecar/transport/wire"
)

// A frame of many short messages takes many times its size once it is decoded, and a process may have thousands of
// links. So what is decoded and not handled yet shares a part of the memory. What does not fit waits, with its link;
// one frame always fits.

// decoding is what decoded frames take at the same time.
type decoding struct {
	total int64

	mu       sync.Mutex
	used     int64
	released sync.Cond
}

func newDecoding(total int64) *decoding {
	d := &decoding{total: total}
	d.released.L = &d.mu
	return d
}

// begin waits until there is room for a frame of n bytes and returns what it takes, which is given to end when its
// messages are handled. Handlers do not wait for other frames, so room comes.
func (d *decoding) begin(n int) (taken int64) {
	if d == nil {
		return 0
	}
	taken = wire.DecodedBytes(n)
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.used > 0 && d.used+taken > d.total {
		d.released.Wait()
	}
	d.used += taken
	return taken
}

func (d *decoding) end(taken int64) {
	if taken == 0 {
		return
	}
	d.mu.Lock()
	d.used -= taken
	d.mu.Unlock()
	d.released.Broadcast()
}
