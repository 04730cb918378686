// Package wan makes the packets that a router forwards take as long as over a wide area network: it delays them, drops
// them while the link is cut, and sends them at a limited rate through a bounded queue.
package wan

import (
	"errors"
	"fmt"
	"time"
)

// Link says how the packets of one direction are treated.
type Link struct {
	Delay time.Duration
	Cut   bool
	// Rate is in bytes per second; 0 is unlimited. Packets wait for those before them in a queue of Queue bytes; what
	// does not fit is dropped.
	Rate, Queue int64
}

// Limits of a link. Packets in flight stay in the kernel's memory.
const (
	maxDelay = 10 * time.Second
	minRate  = 1000
	minQueue = 64 << 10 // the largest packet that the kernel forwards
)

// Validate returns what is wrong with a link.
func (l Link) Validate() error {
	switch {
	case l.Delay < 0 || l.Delay > maxDelay:
		return fmt.Errorf("a delay of %s; give 0 to %s", l.Delay, maxDelay)
	case l.Rate != 0 && l.Rate < minRate:
		return fmt.Errorf("a rate of %d bytes per second; give at least %d", l.Rate, minRate)
	case l.Rate != 0 && l.Queue < minQueue:
		return fmt.Errorf("a queue of %d bytes; give at least %d", l.Queue, minQueue)
	case l.Rate == 0 && l.Queue != 0:
		return errors.New("a queue without a rate")
	}
	return nil
}

// pacer decides when the packets of a link arrive. They arrive in their order, also when the delay gets smaller.
type pacer struct {
	link Link
	// idle is when the last packet has left the queue, and last when it arrives.
	idle, last time.Time
}

// admit returns when a packet arrives that is sent now, or false if it is lost.
func (p *pacer) admit(now time.Time, size int64) (arrival time.Time, ok bool) {
	if p.link.Cut {
		return time.Time{}, false
	}
	left := now
	if p.link.Rate > 0 {
		if p.idle.After(now) {
			left = p.idle
		}
		if waiting := left.Sub(now).Seconds() * float64(p.link.Rate); int64(waiting)+size > p.link.Queue {
			return time.Time{}, false
		}
		left = left.Add(time.Duration(float64(size) / float64(p.link.Rate) * float64(time.Second)))
		p.idle = left
	}
	arrival = left.Add(p.link.Delay)
	if arrival.Before(p.last) {
		arrival = p.last
	}
	p.last = arrival
	return arrival, true
}
