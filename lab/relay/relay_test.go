//go:build unix

package relay_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/causalstore/causalstore/lab/relay"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// echo answers each connection with the bytes that it gets.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c) // until the client ends
			}()
		}
	}()
	return l.Addr().String()
}

func open(t *testing.T, delay time.Duration) (p *relay.Path, addr string) {
	t.Helper()
	p = relay.NewPath(delay, 1<<20, 0)
	t.Cleanup(func() { must(t, p.Close()) })
	addr, err := p.Listen(relay.Forth, echo(t))
	must(t, err)
	return p, addr
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, time.Minute)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	must(t, c.SetDeadline(time.Now().Add(time.Minute)))
	return c
}

// exchange sends bytes and reads them back.
func exchange(t *testing.T, c net.Conn, sent []byte) {
	t.Helper()
	go func() { _, _ = c.Write(sent) }() // what is not sent is not read back
	got := make([]byte, len(sent))
	_, err := io.ReadFull(c, got)
	must(t, err)
	if !bytes.Equal(got, sent) {
		t.Fatal("other bytes came back")
	}
}

func TestBytesArriveUnchangedAfterTheDelay(t *testing.T) {
	const delay = 20 * time.Millisecond
	p, addr := open(t, delay)
	c := dial(t, addr)
	start := time.Now()
	exchange(t, c, []byte("x"))
	if took := time.Since(start); took < 2*delay {
		t.Errorf("a round trip took %s, less than twice the delay", took)
	}
	exchange(t, c, bytes.Repeat([]byte("0123456789"), 500_000)) // more than the window
	if forth, back := p.Bytes(relay.Forth), p.Bytes(relay.Back); forth != 5_000_001 || back != forth {
		t.Errorf("%d bytes forth and %d back", forth, back)
	}
	must(t, c.(*net.TCPConn).CloseWrite())
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("after the end of the other direction: %d bytes, %v", n, err)
	}
}

func TestNothingArrivesInACutAndEverythingAfterIt(t *testing.T) {
	p, addr := open(t, time.Millisecond)
	c := dial(t, addr)
	exchange(t, c, []byte("before"))
	must(t, p.Cut())
	_, err := c.Write([]byte("meanwhile"))
	must(t, err)
	must(t, c.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("in the cut: %d bytes, %v", n, err)
	}
	if other, err := net.DialTimeout("tcp", addr, 100*time.Millisecond); err == nil {
		other.Close()
		t.Error("a connection was accepted in the cut")
	}
	must(t, p.Heal())
	must(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	got := make([]byte, len("meanwhile"))
	_, err = io.ReadFull(c, got)
	must(t, err)
	if string(got) != "meanwhile" {
		t.Errorf("%q arrived after the cut", got)
	}
	exchange(t, c, []byte("after"))
	exchange(t, dial(t, addr), []byte("on another connection"))
}

func TestAResetIsPassedOn(t *testing.T) {
	_, addr := open(t, time.Millisecond)
	c := dial(t, addr)
	exchange(t, c, []byte("x"))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	gone := l.Addr().String()
	must(t, l.Close())
	p := relay.NewPath(time.Millisecond, 1<<20, 0)
	t.Cleanup(func() { must(t, p.Close()) })
	dead, err := p.Listen(relay.Forth, gone)
	must(t, err)
	if n, err := dial(t, dead).Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("a connection to nobody: %d bytes, %v", n, err)
	}
}

func TestASenderGivesUpInALongCut(t *testing.T) {
	p := relay.NewPath(time.Millisecond, 1<<20, 250*time.Millisecond)
	t.Cleanup(func() { must(t, p.Close()) })
	addr, err := p.Listen(relay.Forth, echo(t))
	must(t, err)
	silent, sender := dial(t, addr), dial(t, addr)
	exchange(t, silent, []byte("x"))
	exchange(t, sender, []byte("x"))
	must(t, p.Cut())
	// more than the window, which nobody opens any more; it may fail
	_, _ = sender.Write(bytes.Repeat([]byte("lost"), 1<<20))
	if n, err := sender.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the sender reads %d bytes and %v", n, err)
	}
	must(t, p.Heal())
	exchange(t, silent, []byte("had nothing to lose"))
	exchange(t, dial(t, addr), []byte("again"))
}
