package transport

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/causalstore/causalstore/topology"
)

// countedConn counts the writes to a connection.
type countedConn struct {
	net.Conn
	writes atomic.Int32
}

func (c *countedConn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// tlsPair returns the two ends of a TLS connection, with the credentials that links have, and what is below the first.
func tlsPair(t *testing.T) (client, server net.Conn, below *countedConn) {
	t.Helper()
	k := newKeys(t, idOf(topology.Node{Part: topology.Coordinator}), newAuthority(t, "eu"))
	cert, err := tls.LoadX509KeyPair(k.Cert, k.Key)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}, InsecureSkipVerify: true,
		MinVersion: tls.VersionTLS13}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		defer close(accepted)
		raw, err := l.Accept()
		if err != nil {
			return
		}
		if conn, _, err := (gatheringCredentials{credentials.NewTLS(config)}).ServerHandshake(raw); err == nil {
			accepted <- conn
		}
	}()
	raw, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	below = &countedConn{Conn: raw}
	client, _, err = gatheringCredentials{credentials.NewTLS(config)}.ClientHandshake(t.Context(), "h", below)
	if err != nil {
		t.Fatal(err)
	}
	server = <-accepted
	if server == nil {
		t.Fatal("no handshake")
	}
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	return client, server, below
}

func TestTheRecordsOfAWriteAreWrittenAtOnce(t *testing.T) {
	client, server, below := tlsPair(t)
	const rounds = 20
	want := make([]byte, ioBuffer)
	for i := range want {
		want[i] = byte(i * i)
	}
	before := below.writes.Load()
	got := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(io.LimitReader(server, rounds*(ioBuffer+1)))
		got <- b
	}()
	for range rounds {
		for _, b := range [][]byte{want, want[:1]} {
			if n, err := client.Write(b); n != len(b) || err != nil {
				t.Fatal(n, err)
			}
		}
	}
	if all := <-got; !bytes.Equal(all, bytes.Repeat(append(bytes.Clone(want), want[0]), rounds)) {
		t.Errorf("%d bytes have arrived, or others than were sent", len(all))
	}
	if n := below.writes.Load() - before; n != 2*rounds {
		t.Errorf("%d writes, want %d", n, 2*rounds)
	}
}

// A peer that does not read keeps neither Close nor a write waiting once the connection is closed.
func TestAConnectionIsClosedWhileTheRecordsOfAWriteWait(t *testing.T) {
	client, _, _ := tlsPair(t)
	failed := make(chan error, 1)
	go func() {
		for {
			if _, err := client.Write(make([]byte, ioBuffer)); err != nil {
				failed <- err
				return
			}
		}
	}()
	awaitBlocked(t, client.(*gatheringConn))
	closed := make(chan struct{})
	go func() {
		_ = client.Close()
		close(closed)
	}()
	for range 2 {
		select {
		case <-closed:
			closed = nil
		case err := <-failed:
			if !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
			if n, err := client.Write(make([]byte, 10)); err == nil {
				t.Errorf("%d bytes were written after an error", n)
			}
		case <-time.After(time.Minute):
			t.Fatal("Close or Write waits")
		}
	}
}

// awaitBlocked waits until a write holds the lock of the records.
func awaitBlocked(t *testing.T, c *gatheringConn) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		held := 0
		for held < 100 && !c.records.mu.TryLock() {
			held++
			time.Sleep(time.Millisecond)
		}
		if held == 100 {
			return
		}
		c.records.mu.Unlock()
		if time.Now().After(deadline) {
			t.Fatal("nothing waits")
		}
	}
}

// brokenConn fails all writes.
type brokenConn struct{ net.Conn }

func (brokenConn) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestAWriteWhoseRecordsAreLostFails(t *testing.T) {
	records := &recordConn{Conn: brokenConn{}}
	c := &gatheringConn{Conn: records, records: records}
	if n, err := c.Write(make([]byte, 2*tlsRecord)); n != 0 || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%d bytes were written, %v", n, err)
	}
}
