package transport

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/credentials"
)

// crypto/tls writes each record, of at most 16 KiB, with a system call of its own, and each wakes the receiver. gRPC
// writes up to ioBuffer at a time, so the records of one write are gathered and written at once.

// gatheringCredentials make connections that do so.
type gatheringCredentials struct {
	credentials.TransportCredentials
}

// ClientHandshake implements credentials.TransportCredentials.
func (c gatheringCredentials) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn,
	credentials.AuthInfo, error) {
	records := &recordConn{Conn: raw}
	conn, info, err := c.TransportCredentials.ClientHandshake(ctx, authority, records)
	if err != nil {
		return nil, nil, err
	}
	return &gatheringConn{Conn: conn, records: records}, info, nil
}

// ServerHandshake implements credentials.TransportCredentials.
func (c gatheringCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	records := &recordConn{Conn: raw}
	conn, info, err := c.TransportCredentials.ServerHandshake(records)
	if err != nil {
		return nil, nil, err
	}
	return &gatheringConn{Conn: conn, records: records}, info, nil
}

// Clone implements credentials.TransportCredentials.
func (c gatheringCredentials) Clone() credentials.TransportCredentials {
	return gatheringCredentials{c.TransportCredentials.Clone()}
}

// gatheringConn is a TLS connection over a recordConn. One goroutine writes.
type gatheringConn struct {
	net.Conn
	records *recordConn
	writing atomic.Int32 // calls of Write that gather
	closed  atomic.Bool
}

func (c *gatheringConn) Write(b []byte) (int, error) {
	if len(b) <= tlsRecord {
		return c.Conn.Write(b)
	}
	c.writing.Add(1)
	defer c.writing.Add(-1)
	if c.closed.Load() {
		return 0, net.ErrClosed
	}
	c.records.gather()
	n, err := c.Conn.Write(b)
	if errFlush := c.records.flush(); err == nil && errFlush != nil {
		return 0, errFlush
	}
	return n, err
}

// Close closes the connection. As in crypto/tls, it does not say goodbye while something is being written, which the
// peer may not read.
func (c *gatheringConn) Close() error {
	c.closed.Store(true)
	if c.writing.Load() > 0 {
		return c.records.Close()
	}
	return c.Conn.Close()
}

// recordConn is the connection below TLS, which writes to it a record at a time, or some alert while it reads.
type recordConn struct {
	net.Conn

	mu        sync.Mutex
	gathering *[]byte // nil: records are written at once
	err       error   // of a write; what comes after it must not be written
}

// gatherPool has room for the records of one write of gRPC.
var gatherPool = sync.Pool{New: func() any { b := make([]byte, 0, ioBuffer+4<<10); return &b }}

// gather makes Write keep what it is given until flush.
func (c *recordConn) gather() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gathering = gatherPool.Get().(*[]byte)
}

// flush writes what was gathered.
func (c *recordConn) flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.gathering
	c.gathering = nil
	if len(*b) > 0 {
		_, _ = c.write(*b) // the error is kept
	}
	*b = (*b)[:0]
	gatherPool.Put(b)
	return c.err
}

func (c *recordConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gathering != nil && c.err == nil {
		*c.gathering = append(*c.gathering, b...)
		return len(b), nil
	}
	return c.write(b)
}

// write writes b, unless a write has failed before. It needs c.mu.
func (c *recordConn) write(b []byte) (n int, err error) {
	if c.err != nil {
		return 0, c.err
	}
	n, c.err = c.Conn.Write(b)
	return n, c.err
}
