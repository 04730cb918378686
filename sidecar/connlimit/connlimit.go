// Package connlimit bounds what those who connect to a port can take before anybody knows who they are: connections,
// TLS handshakes, and what is read and computed for these. Every listener of a part with TLS, and its HTTP port,
// accepts through it.
//
// An address that takes most makes place first: at the bound, the oldest connection from the address with most of them
// is closed. So whoever opens many is in its own way, and others are not shut out, as they would be by a listener that
// stops to accept.
package connlimit

import (
	"container/list"
	"net"
	"runtime"
	"sync"
)

// Counter counts the connections of a listener, or only those whose TLS handshake is not complete.
type Counter struct {
	most int
	// displaced is called with the address of a connection that had to make place, unless it is nil.
	displaced func(address net.Addr)
	// computing has a token for each handshake that is computed now: between two reads, its certificates are parsed and
	// verified.
	computing chan struct{}

	mu     sync.Mutex
	number int
	from   map[string]*list.List // of *Conn, the oldest first, by IP address
}

// NewCounter returns a counter that holds at most so many. displaced, if not nil, is called for each that has to
// make place.
func NewCounter(most int, displaced func(address net.Addr)) *Counter {
	return &Counter{most: most, displaced: displaced, from: map[string]*list.List{},
		computing: make(chan struct{}, max(4, 2*runtime.GOMAXPROCS(0)))}
}

// Count returns a listener whose connections, *Conn, count until they are closed.
func (k *Counter) Count(l net.Listener) net.Listener { return listener{l, k, 0} }

// CountHandshakes returns a listener whose connections, *Conn, count until their handshake is complete. They must be
// told of that.
func (k *Counter) CountHandshakes(l net.Listener) net.Listener { return listener{l, k, AcceptedBytes} }

// Number returns how many there are now.
func (k *Counter) Number() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.number
}

type listener struct {
	net.Listener
	counter   *Counter
	handshake int // bytes of it; 0: none is expected
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	accepted := &Conn{Conn: c, counter: l.counter, left: l.handshake}
	accepted.complete.Store(l.handshake == 0)
	if displaced := l.counter.enter(accepted); displaced != nil {
		displaced.displaced.Store(true)
		_ = displaced.Conn.Close() // what it is used for fails
		if l.counter.displaced != nil {
			l.counter.displaced(displaced.RemoteAddr())
		}
	}
	return accepted, nil
}

// enter counts a connection, and returns the one that has to make place, if any.
func (k *Counter) enter(c *Conn) (displaced *Conn) {
	host, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		host = c.RemoteAddr().String()
	}
	c.host = host
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.number >= k.most {
		displaced = k.busiest().Front().Value.(*Conn)
		k.remove(displaced)
	}
	if k.from[host] == nil {
		k.from[host] = list.New()
	}
	k.number++
	c.place = k.from[host].PushBack(c)
	return displaced
}

// busiest returns the connections of the address with most of them. It needs k.mu.
func (k *Counter) busiest() (most *list.List) {
	for _, l := range k.from {
		if most == nil || l.Len() > most.Len() {
			most = l
		}
	}
	return most
}

// leave ends the counting of a connection, and reports whether it counted until now.
func (k *Counter) leave(c *Conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.remove(c)
}

// remove needs k.mu.
func (k *Counter) remove(c *Conn) bool {
	if c.place == nil {
		return false
	}
	all := k.from[c.host]
	all.Remove(c.place)
	if all.Len() == 0 {
		delete(k.from, c.host)
	}
	c.place = nil
	k.number--
	return true
}
