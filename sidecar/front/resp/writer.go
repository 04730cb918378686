package resp

import (
	"strconv"
	"strings"
)

const (
	// flushBytes is the size from which buffered replies are sent even if more commands wait.
	flushBytes = 64 << 10
	// noCopyBytes is the size from which a value is sent directly instead of being copied to the buffer.
	noCopyBytes = 32 << 10
)

// writer encodes replies into one reused buffer, and sends them with send.
type writer struct {
	send  func([]byte) error
	buf   []byte
	proto int // 2 or 3
	// mute discards replies, for CLIENT REPLY OFF and SKIP. mark is where the current reply starts.
	mute bool
	mark int
	// held keeps all replies in buf until it is false again, for EXEC.
	held bool
	err  error // of send; everything after it is discarded
}

// beginReply starts the reply of a command.
func (w *writer) beginReply() { w.mark = len(w.buf) }

// discardReply removes what is still buffered of the current reply.
func (w *writer) discardReply() { w.buf = w.buf[:w.mark] }

// endReply ends the reply of a command.
func (w *writer) endReply() {
	if w.mute {
		w.discardReply()
	}
	if len(w.buf) >= flushBytes {
		w.flush()
	}
}

// flushIfFull bounds the buffer during a long reply.
func (w *writer) flushIfFull() {
	switch {
	case len(w.buf) < flushBytes:
	case w.mute:
		w.discardReply()
	case w.held:
	default:
		w.flush()
	}
}

// owns reports whether b is what is buffered.
func (w *writer) owns(b []byte) bool { return len(b) > 0 && cap(w.buf) > 0 && &b[0] == &w.buf[:1][0] }

// grow makes room for n more bytes. Replies that do not fit into a small buffer get a large one, which other
// connections use afterwards.
func (w *writer) grow(n int) {
	if need := len(w.buf) + n; need > cap(w.buf) && cap(w.buf) < largeBytes && need > readBytes && need <= largeBytes {
		large := append(largeBuffers.Get().(*[largeBytes]byte)[:0], w.buf...)
		recycle(w.buf)
		w.buf = large
	}
}

// flush sends all buffered replies.
func (w *writer) flush() {
	if len(w.buf) > 0 {
		w.sendNow(w.buf)
	}
	w.buf, w.mark = w.buf[:0], 0
	if cap(w.buf) > retainBytes {
		w.buf = nil
	}
}

func (w *writer) sendNow(b []byte) {
	if w.err == nil {
		w.err = w.send(b)
	}
}

func (w *writer) writeHeader(kind byte, n int64) {
	w.buf = append(w.buf, kind)
	w.buf = strconv.AppendInt(w.buf, n, 10)
	w.buf = append(w.buf, '\r', '\n')
}

func (w *writer) writeSimple(s string) {
	w.buf = append(w.buf, '+')
	w.buf = append(w.buf, s...)
	w.buf = append(w.buf, '\r', '\n')
}

func (w *writer) writeOK() { w.buf = append(w.buf, "+OK\r\n"...) }

// writeError writes an error reply on one line, whatever the message contains. Like Redis, it drops trailing line
// breaks.
func (w *writer) writeError(e *Error) {
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

func (w *writer) writeInteger(n int64) { w.writeHeader(':', n) }

// writeDouble writes a number: in RESP2 as a bulk string.
func (w *writer) writeDouble(f float64) {
	text := formatScore(f)
	if w.proto == 2 {
		w.writeBulkString(text)
		return
	}
	w.buf = append(w.buf, ',')
	w.buf = append(w.buf, text...)
	w.buf = append(w.buf, '\r', '\n')
}

// writeDecimal writes a number without an exponent: in RESP2 as a bulk string.
func (w *writer) writeDecimal(f float64) {
	text := strconv.FormatFloat(f, 'f', 17, 64)
	if text = strings.TrimSuffix(strings.TrimRight(text, "0"), "."); text == "-0" {
		text = "0"
	}
	if w.proto == 2 {
		w.writeBulkString(text)
		return
	}
	w.buf = append(append(append(w.buf, ','), text...), "\r\n"...)
}

func (w *writer) writeBulk(b []byte) {
	w.writeHeader('$', int64(len(b)))
	if len(b) >= noCopyBytes && !w.held {
		w.writeThrough(b)
	} else {
		w.grow(len(b))
		w.buf = append(w.buf, b...)
	}
	w.buf = append(w.buf, '\r', '\n')
	w.flushIfFull()
}

// writeThrough sends a large value without copying it.
func (w *writer) writeThrough(b []byte) {
	if w.mute {
		return
	}
	w.flush()
	w.sendNow(b)
}

func (w *writer) writeBulkString(s string) {
	w.writeHeader('$', int64(len(s)))
	w.buf = append(w.buf, s...)
	w.buf = append(w.buf, '\r', '\n')
	w.flushIfFull()
}

func (w *writer) writeNull() {
	if w.proto == 3 {
		w.buf = append(w.buf, "_\r\n"...)
	} else {
		w.buf = append(w.buf, "$-1\r\n"...)
	}
}

// writeNullArray is the reply of an EXEC that did not execute.
func (w *writer) writeNullArray() {
	if w.proto == 3 {
		w.writeNull()
	} else {
		w.buf = append(w.buf, "*-1\r\n"...)
	}
}

func (w *writer) writeArrayHeader(n int) { w.writeHeader('*', int64(n)) }

// writeMapHeader starts n pairs. RESP2 has no maps; it uses an array of alternating keys and values.
func (w *writer) writeMapHeader(n int) {
	if w.proto == 3 {
		w.writeHeader('%', int64(n))
	} else {
		w.writeArrayHeader(2 * n)
	}
}

// writeStreamsHeader begins the reply of XREAD: a map from streams to entries; in RESP2, an array of pairs.
func (w *writer) writeStreamsHeader(n int) {
	if w.proto == 3 {
		w.writeMapHeader(n)
	} else {
		w.writeArrayHeader(n)
	}
}

// writePairHeader begins a pair of such a reply.
func (w *writer) writePairHeader() {
	if w.proto != 3 {
		w.writeArrayHeader(2)
	}
}

func (w *writer) writeSetHeader(n int) {
	if w.proto == 3 {
		w.writeHeader('~', int64(n))
	} else {
		w.writeArrayHeader(n)
	}
}

// writeVerbatim writes text for people.
func (w *writer) writeVerbatim(s string) {
	if w.proto != 3 {
		w.writeBulkString(s)
		return
	}
	w.writeHeader('=', int64(len(s)+4))
	w.buf = append(w.buf, "txt:"...)
	w.buf = append(w.buf, s...)
	w.buf = append(w.buf, '\r', '\n')
	w.flushIfFull()
}
