package resp

import (
	"math"
	"strconv"
	"strings"
)

const (
	// spillBytes is how much a reply buffer holds before it is sent although more commands wait.
	spillBytes = 64 << 10
	// directBytes is the value size from which a value is sent from where it lies instead of being copied.
	directBytes = 32 << 10
)

// writer makes replies. They collect in one reused buffer; send takes them to the client.
type writer struct {
	send  func([]byte) error
	buf   []byte
	proto int // 2 or 3
	// mute drops what is written from mark on: CLIENT REPLY OFF and SKIP.
	mute bool
	mark int
	err  error // of send; everything after it is dropped
}

// begin starts the reply of a command.
func (w *writer) begin() { w.mark = len(w.buf) }

// abandon takes back what is still here of the reply that was begun.
func (w *writer) abandon() { w.buf = w.buf[:w.mark] }

// end finishes it.
func (w *writer) end() {
	if w.mute {
		w.abandon()
	}
	if len(w.buf) >= spillBytes {
		w.flush()
	}
}

// spill bounds the buffer inside a long reply.
func (w *writer) spill() {
	switch {
	case len(w.buf) < spillBytes:
	case w.mute:
		w.abandon()
	default:
		w.flush()
	}
}

// flush sends everything.
func (w *writer) flush() {
	if len(w.buf) > 0 {
		w.transmit(w.buf)
	}
	w.buf, w.mark = w.buf[:0], 0
	if cap(w.buf) > retainBytes {
		w.buf = nil
	}
}

func (w *writer) transmit(b []byte) {
	if w.err == nil {
		w.err = w.send(b)
	}
}

func (w *writer) header(kind byte, n int64) {
	w.buf = append(w.buf, kind)
	w.buf = strconv.AppendInt(w.buf, n, 10)
	w.buf = append(w.buf, '\r', '\n')
}

func (w *writer) simple(s string) {
	w.buf = append(w.buf, '+')
	w.buf = append(w.buf, s...)
	w.buf = append(w.buf, '\r', '\n')
}

func (w *writer) ok() { w.buf = append(w.buf, "+OK\r\n"...) }

// fail writes an error reply, which is one line whatever the message holds. Redis drops line breaks at its end, too.
func (w *writer) fail(e *Error) {
	message := strings.TrimRight(e.Message, "\r\n")
	w.buf = append(w.buf, '-')
	w.buf = append(w.buf, e.Code...)
	w.buf = append(w.buf, ' ')
	for i := range len(message) {
		c := message[i]
		if c == '\r' || c == '\n' {
			c = ' '
		}
		w.buf = append(w.buf, c)
	}
	w.buf = append(w.buf, '\r', '\n')
}

func (w *writer) integer(n int64) { w.header(':', n) }

func (w *writer) bulk(b []byte) {
	w.header('$', int64(len(b)))
	if len(b) >= directBytes {
		w.direct(b)
	} else {
		w.buf = append(w.buf, b...)
	}
	w.buf = append(w.buf, '\r', '\n')
	w.spill()
}

// direct sends a large value without copying it.
func (w *writer) direct(b []byte) {
	if w.mute {
		return
	}
	w.flush()
	w.transmit(b)
}

func (w *writer) bulkString(s string) {
	w.header('$', int64(len(s)))
	w.buf = append(w.buf, s...)
	w.buf = append(w.buf, '\r', '\n')
	w.spill()
}

func (w *writer) null() {
	if w.proto == 3 {
		w.buf = append(w.buf, "_\r\n"...)
	} else {
		w.buf = append(w.buf, "$-1\r\n"...)
	}
}

func (w *writer) array(n int) { w.header('*', int64(n)) }

// mapping starts n pairs. RESP2 has no maps: an array of keys and values stands for one.
func (w *writer) mapping(n int) {
	if w.proto == 3 {
		w.header('%', int64(n))
	} else {
		w.array(2 * n)
	}
}

func (w *writer) set(n int) {
	if w.proto == 3 {
		w.header('~', int64(n))
	} else {
		w.array(n)
	}
}

func (w *writer) boolean(b bool) {
	switch {
	case w.proto == 3 && b:
		w.buf = append(w.buf, "#t\r\n"...)
	case w.proto == 3:
		w.buf = append(w.buf, "#f\r\n"...)
	case b:
		w.integer(1)
	default:
		w.integer(0)
	}
}

func (w *writer) double(f float64) {
	if w.proto != 3 {
		w.bulkString(doubleText(f))
		return
	}
	w.buf = append(w.buf, ',')
	w.buf = append(w.buf, doubleText(f)...)
	w.buf = append(w.buf, '\r', '\n')
}

func doubleText(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// verbatim is a text for people.
func (w *writer) verbatim(s string) {
	if w.proto != 3 {
		w.bulkString(s)
		return
	}
	w.header('=', int64(len(s)+4))
	w.buf = append(w.buf, "txt:"...)
	w.buf = append(w.buf, s...)
	w.buf = append(w.buf, '\r', '\n')
	w.spill()
}
