//go:build unix

package resp

import (
	"net"
	"syscall"
)

// directWriter writes to a socket what it takes at once, without a deadline: to set one for each write costs as much as
// to look a value up.
type directWriter struct {
	raw     syscall.RawConn
	attempt func(fd uintptr) (done bool)
	bytes   []byte
	written int
}

// newDirectWriter returns nil if a connection is not a socket.
func newDirectWriter(c net.Conn) *directWriter {
	socket, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil
	}
	w := &directWriter{raw: raw}
	w.attempt = func(fd uintptr) bool {
		n, err := syscall.Write(int(fd), w.bytes)
		for err == syscall.EINTR {
			n, err = syscall.Write(int(fd), w.bytes)
		}
		if err == nil {
			w.written = n
		}
		return true
	}
	return w
}

// write returns how many bytes were written. If these are not all, an ordinary write tells why.
func (w *directWriter) write(b []byte) int {
	w.bytes, w.written = b, 0
	err := w.raw.Write(w.attempt)
	w.bytes = nil
	if err != nil {
		return 0 // it is closed, or a deadline has passed
	}
	return w.written
}
