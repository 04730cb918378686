//go:build unix

package relay

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// segmentBytes is how much is read at once.
const segmentBytes = 64 << 10

var segments = sync.Pool{New: func() any { return new([segmentBytes]byte) }}

// segment is what was sent at a time.
type segment struct {
	buffer *[segmentBytes]byte
	size   int
	sent   time.Time
	lost   bool
	ends   error // io.EOF or why the sender has gone; then there are no bytes
}

// stream is one direction of a connection.
type stream struct {
	path      *Path
	direction Direction
	from, to  *net.TCPConn
	wake      chan struct{} // holds a token if the window may have room
	recovered time.Time     // when TCP has sent again what was lost before

	mu       sync.Mutex
	changed  sync.Cond // for the goroutine that delivers
	queue    []segment
	underWay int   // bytes that are not acknowledged
	acks     []ack // to arrive, in order
	broken   bool
}

// ack acknowledges bytes at a time.
type ack struct {
	at   time.Time
	size int
}

func newStream(p *Path, d Direction, from, to *net.TCPConn) *stream {
	s := &stream{path: p, direction: d, from: from, to: to, wake: make(chan struct{}, 1)}
	s.changed.L = &s.mu
	_ = to.SetWriteBuffer(socketBuffer) // a smaller buffer is only for exactness
	return s
}

// run carries bytes until the sender has ended the stream, or the receiver has gone.
func (s *stream) run() {
	var delivery sync.WaitGroup
	delivery.Go(s.deliver)
	defer delivery.Wait()
	for s.awaitWindow() {
		b := segments.Get().(*[segmentBytes]byte)
		n, err := s.from.Read(b[:])
		now := time.Now()
		if n > 0 {
			s.path.bytes[s.direction].Add(int64(n))
			s.push(segment{buffer: b, size: n, sent: now, lost: s.path.cut.Load()})
		}
		if err != nil {
			s.push(segment{sent: now, lost: s.path.cut.Load(), ends: err})
			return
		}
	}
}

func (s *stream) push(g segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underWay += g.size
	s.queue = append(s.queue, g)
	s.changed.Signal()
}

// awaitWindow waits until something may be sent. It returns false if the receiver has gone.
func (s *stream) awaitWindow() bool {
	for {
		s.mu.Lock()
		now := time.Now()
		for len(s.acks) > 0 && !s.acks[0].at.After(now) {
			s.underWay -= s.acks[0].size
			s.acks = s.acks[1:]
		}
		room, broken := s.underWay < s.path.window, s.broken
		var next <-chan time.Time
		if len(s.acks) > 0 {
			next = time.After(s.acks[0].at.Sub(now))
		}
		s.mu.Unlock()
		if room || broken {
			return !broken
		}
		select {
		case <-next:
		case <-s.wake:
		}
	}
}

// deliver writes segments when they arrive.
func (s *stream) deliver() {
	defer s.wakeReader()
	defer s.markBroken()
	for {
		s.mu.Lock()
		for len(s.queue) == 0 {
			s.changed.Wait()
		}
		g := s.queue[0]
		s.queue = s.queue[1:]
		s.mu.Unlock()
		at, err := s.arrival(g)
		if err != nil {
			s.end(err)
			return
		}
		time.Sleep(time.Until(at))
		if g.ends != nil {
			s.end(g.ends)
			return
		}
		_, err = s.to.Write(g.buffer[:g.size])
		segments.Put(g.buffer)
		s.mu.Lock()
		s.acks = append(s.acks, ack{time.Now().Add(s.path.oneWay()), g.size})
		s.mu.Unlock()
		s.wakeReader()
		if err != nil {
			s.end(err)
			return
		}
	}
}

func (s *stream) markBroken() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = true
}

// wakeReader lets awaitWindow look again.
func (s *stream) wakeReader() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// end passes on how the sender has ended the stream, or to the sender that the receiver has gone.
func (s *stream) end(err error) {
	if errors.Is(err, io.EOF) {
		_ = s.to.CloseWrite() // fails if the receiver has gone
		return
	}
	for _, c := range []*net.TCPConn{s.to, s.from} {
		_ = c.SetLinger(0) // a reset
		_ = c.Close()
	}
}

// minRTO is the least time until TCP sends something again, without the round trip.
const minRTO = 200 * time.Millisecond

// arrival returns when a segment arrives. If it is lost, it waits until it is sent again, or the sender gives up.
func (s *stream) arrival(g segment) (time.Time, error) {
	delay := s.path.oneWay()
	if !g.lost {
		return g.sent.Add(delay), nil
	}
	if g.sent.Before(s.recovered) { // it was sent again with what was lost before it
		return s.recovered.Add(delay), nil
	}
	at, gone := g.sent, g.sent.Add(s.path.giveUp)
	for rto := minRTO + 2*delay; ; rto *= 2 {
		at = at.Add(rto)
		if s.path.giveUp > 0 && at.After(gone) && s.awaitAgain(gone) {
			s.breakSender()
			return time.Now(), errGaveUp
		}
		if !s.awaitAgain(at) {
			return time.Now(), errGaveUp
		}
		if !s.path.cut.Load() {
			s.recovered = at
			return at.Add(delay), nil
		}
	}
}

// errGaveUp ends a stream whose sender has given up.
var errGaveUp = errors.New("what was sent was not acknowledged")

// breakSender lets the sender find its connection broken, and returns when the other end may hear of it.
func (s *stream) breakSender() {
	_ = s.from.SetLinger(0) // a reset
	_ = s.from.Close()
	<-s.path.untilHealed()
}

// awaitAgain waits until a time. It returns false if an end of the connection has gone.
func (s *stream) awaitAgain(at time.Time) bool {
	for {
		left := time.Until(at)
		if left <= 0 {
			return true
		}
		time.Sleep(min(left, 50*time.Millisecond))
		s.path.mu.Lock()
		gone := s.path.closed
		s.path.mu.Unlock()
		if gone {
			return false
		}
	}
}
