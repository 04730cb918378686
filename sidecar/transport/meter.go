package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// gRPC allocates a message while it arrives, before anybody sees it: whoever claims 20 MiB and sends half of that, on
// many connections, takes all memory. A meter therefore reads the lengths in what a peer sends, HTTP/2 frames with gRPC
// messages in them, and reads on only when the budget has room for the message that begins.
//
// It waits between two frames, and has passed on everything before: the end of an earlier message may have arrived
// together with the beginning of this one, and gives its room back only once gRPC has it. A frame that has parts of
// several messages, which no part sends, passes whole: it has 16 KiB at most.

const (
	http2Preface      = 24
	http2FrameHeader  = 9
	http2Data         = 0x0
	http2Headers      = 0x1
	http2Continuation = 0x9
	http2Padded       = 0x8
	grpcHeader        = 5
	// largeMessageTime bounds how long a message that takes from the budget may be on its way.
	// largePartMessageTime is that of a part that is no sidecar, over a WAN that may be slow.
	largeMessageTime     = 30 * time.Second
	largePartMessageTime = 5 * time.Minute
)

// meter is a connection, after TLS, that has one stream.
type meter struct {
	net.Conn
	account *account
	// patience is how long a large message may take.
	patience time.Duration
	note     func(error)
	ctx      context.Context // ends with the connection
	cancel   context.CancelFunc

	// of Read, which one goroutine calls
	skip    int // bytes of the preface, of a frame that is not data, or of a message
	header  []byte
	headers int // bytes of the headers of requests, compressed, that have begun
	payload int // bytes of data that follow in this frame
	stream  uint32
	prefix  []byte // of a message
	message int    // bytes of the message that follow
	started bool
	due     int64  // bytes of messages that have begun and have no room yet: nothing behind their frame is passed on
	held    []byte // what is behind it
	heldErr error  // what follows held

	wake    chan struct{} // holds a token if a message was delivered
	mu      sync.Mutex
	claimed int64       // by messages that were not delivered
	late    *time.Timer // ends the connection if nothing is delivered
}

// Read implements net.Conn.
func (m *meter) Read(p []byte) (int, error) {
	n, err := m.readMeasured(p)
	if err != nil && m.ctx.Err() == nil {
		if violation, ok := errors.AsType[measured](err); ok {
			m.note(violation.error)
		}
	}
	return n, err
}

// measured is why a connection ends that does what no part does.
type measured struct{ error }

func (m *meter) readMeasured(p []byte) (int, error) {
	if len(m.held) == 0 {
		if m.heldErr != nil {
			return 0, m.heldErr
		}
		n, err := m.Conn.Read(p)
		passed, errMeter := m.measure(p[:n])
		if errMeter != nil {
			return 0, measured{errMeter}
		}
		if passed == n {
			return n, err
		}
		m.held, m.heldErr = append(m.held, p[passed:n]...), err
		if passed > 0 {
			return passed, nil
		}
	}
	if err := m.claim(); err != nil {
		return 0, err
	}
	passed, err := m.measure(m.held[:min(len(p), len(m.held))])
	if err != nil {
		return 0, measured{err}
	}
	copy(p, m.held[:passed])
	if m.held = m.held[passed:]; len(m.held) == 0 {
		m.held = nil
	}
	return passed, nil
}

// Close ends the connection and returns what it holds.
func (m *meter) Close() error {
	m.cancel()
	m.mu.Lock()
	m.watch()
	m.mu.Unlock()
	return m.Conn.Close()
}

// measure follows what has arrived, and returns how much of it may be passed on: all, or what is before the frame
// behind a message for which there is no room.
func (m *meter) measure(b []byte) (passed int, err error) {
	all := len(b)
	if !m.started && all > 0 {
		m.started, m.skip = true, http2Preface
	}
	for len(b) > 0 {
		switch {
		case m.skip > 0:
			b = b[consume(&m.skip, len(b)):]
		case m.payload == 0:
			if m.due > 0 && !m.tryClaim() {
				return all - len(b), nil
			}
			if b, err = m.readFrameHeader(b); err != nil {
				return 0, err
			}
		case m.message > 0:
			n := min(m.message, m.payload, len(b))
			m.message, m.payload, b = m.message-n, m.payload-n, b[n:]
		default:
			n := min(grpcHeader-len(m.prefix), m.payload, len(b))
			m.prefix, m.payload, b = append(m.prefix, b[:n]...), m.payload-n, b[n:]
			if len(m.prefix) < grpcHeader {
				continue
			}
			size := binary.BigEndian.Uint32(m.prefix[1:])
			m.prefix = m.prefix[:0]
			most := m.account.b.most
			switch {
			case size > maxFrame:
				return 0, fmt.Errorf("it announces a message of %d bytes; the limit is %d", size, maxFrame)
			case int64(size)-connectionAllowance > most:
				return 0, fmt.Errorf("it sends a message of %d bytes; it may send %d to this process", size, most)
			}
			m.message = int(size)
			m.due += int64(size)
		}
	}
	return all, nil
}

// consume takes at most n from what is left, and returns how much.
func consume(left *int, n int) int {
	n = min(*left, n)
	*left -= n
	return n
}

// readFrameHeader reads the header of a frame, or a part of it, and returns what follows.
func (m *meter) readFrameHeader(b []byte) ([]byte, error) {
	n := min(http2FrameHeader-len(m.header), len(b))
	m.header, b = append(m.header, b[:n]...), b[n:]
	if len(m.header) < http2FrameHeader {
		return b, nil
	}
	h := m.header
	m.header = m.header[:0]
	length := int(h[0])<<16 | int(h[1])<<8 | int(h[2])
	kind := h[3]
	if kind != http2Data && kind != http2Headers && kind != http2Continuation {
		m.skip = length
		return b, nil
	}
	stream := binary.BigEndian.Uint32(h[5:]) &^ (1 << 31)
	switch {
	case m.stream != 0 && stream != m.stream:
		return nil, errors.New("it uses a second stream of a connection, which no part does")
	case kind == http2Data && h[4]&http2Padded != 0:
		return nil, errors.New("it pads frames, which no part does")
	}
	m.stream = stream
	if kind == http2Data {
		m.payload = length
		return b, nil
	}
	if m.headers += length; m.headers > maxHeaderBytes {
		return nil, fmt.Errorf("it sends headers of more than %d bytes", maxHeaderBytes)
	}
	m.skip = length
	return b, nil
}

// tryClaim takes what is due from the budget, and reports whether there is room for it. A connection that holds nothing
// else may exceed its share by what one frame can have beside the largest message.
func (m *meter) tryClaim() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	size := m.due
	if m.claimed == 0 {
		size = min(size, m.account.b.most+connectionAllowance)
	}
	if !m.account.try(m.claimed + size) {
		return false
	}
	m.claimed += size
	m.due = 0
	m.watch()
	return true
}

// claim waits until there is room for what is due, and takes it.
func (m *meter) claim() error {
	for changed := m.account.b.changes(); !m.tryClaim(); changed = m.account.b.changes() {
		select {
		case <-changed:
		case <-m.wake:
		case <-m.ctx.Done():
			return m.ctx.Err()
		}
	}
	return m.ctx.Err()
}

// delivered is called when a message has been handled.
func (m *meter) delivered(size int) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.claimed = max(0, m.claimed-int64(size))
	m.account.try(m.claimed) // less never fails
	m.watch()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// watch bounds the time of what is claimed now. It needs m.mu.
func (m *meter) watch() {
	if m.late != nil {
		m.late.Stop()
		m.late = nil
	}
	if m.ctx.Err() != nil {
		m.claimed = 0
		m.account.try(0)
	}
	if m.claimed > connectionAllowance {
		m.late = time.AfterFunc(m.patience, func() {
			m.note(fmt.Errorf("a message was not complete after %v", m.patience))
			_ = m.Close() // it is of no use any more
		})
	}
}
