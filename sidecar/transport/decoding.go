package transport

import (
	"sync"

	"github.com/causalstore/causalstore/sidecar/transport/wire"
)

// A frame of many short messages takes many times its size once it is decoded, and a process may have thousands of
// links. So what is decoded and not handled yet shares a part of the memory. What does not fit waits, with its link;
// one frame always fits.
//
// Handlers may let puts of sidecars wait for the disk, and with several members the disks of others, whose answers are
// frames too. So what sidecars send and what other parts send have rooms of their own, and one identity gets a quarter
// of a room, or one frame.

// decoding is a room: what decoded frames take at the same time.
type decoding struct {
	total int64

	mu       sync.Mutex
	used     int64
	usedBy   map[string]int64
	released sync.Cond
}

func newDecoding(total int64) *decoding {
	d := &decoding{total: total, usedBy: map[string]int64{}}
	d.released.L = &d.mu
	return d
}

// decodingRoom is what the frames of one link take from a room.
type decodingRoom struct {
	d   *decoding // nil: they do not count
	who string    // the identity of the peer
}

// begin waits until there is room for a frame of n bytes and returns what it takes at most. When it is decoded, that is
// given to keep, and when its messages are handled, what is kept is given to end.
func (r decodingRoom) begin(n int) (taken int64) {
	d := r.d
	if d == nil {
		return 0
	}
	taken = wire.DecodedBytes(n)
	d.mu.Lock()
	defer d.mu.Unlock()
	for !d.fits(r.who, taken) {
		d.released.Wait()
	}
	d.add(r.who, taken)
	return taken
}

// fits needs d.mu.
func (d *decoding) fits(who string, n int64) bool {
	by := d.usedBy[who]
	return d.used == 0 || d.used+n <= d.total && (by == 0 || by+n <= d.total/4)
}

// add needs d.mu.
func (d *decoding) add(who string, n int64) {
	d.used += n
	if d.usedBy[who] += n; d.usedBy[who] == 0 {
		delete(d.usedBy, who)
	}
}

// keep gives back what a decoded frame does not take after all.
func (r decodingRoom) keep(taken, kept int64) int64 {
	kept = min(kept, taken)
	r.end(taken - kept)
	return kept
}

func (r decodingRoom) end(taken int64) {
	if r.d == nil || taken == 0 {
		return
	}
	r.d.mu.Lock()
	r.d.add(r.who, -taken)
	r.d.mu.Unlock()
	r.d.released.Broadcast()
}
