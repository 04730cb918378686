//go:build unix

package redis

import (
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// slowNetwork is a proxy between a store and a server. It can delay what clients send, even after they disconnected.
type slowNetwork struct {
	listener net.Listener
	server   string

	mu   sync.Mutex
	held chan struct{} // closed when delayed data may continue; nil if no data is delayed

	carried sync.WaitGroup
}

func newSlowNetwork(t *testing.T, server string) *slowNetwork {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "net.sock"))
	if err != nil {
		t.Fatal(err)
	}
	n := &slowNetwork{listener: l, server: server}
	go n.accept()
	t.Cleanup(func() {
		_ = l.Close()
		n.carried.Wait()
	})
	return n
}

func (n *slowNetwork) accept() {
	for {
		client, err := n.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: n.server, Net: "unix"})
		if err != nil {
			_ = client.Close()
			continue
		}
		n.carried.Add(2)
		go n.carry(server, client)
		go func() {
			defer n.carried.Done()
			defer server.Close()
			defer client.Close()
			_, _ = io.Copy(client, server)
			_, _ = io.Copy(io.Discard, server) // until the server has run everything and disconnects
		}()
	}
}

// carry forwards what the client sends, and closes the connection to the server only after all of it.
func (n *slowNetwork) carry(server *net.UnixConn, client net.Conn) {
	defer n.carried.Done()
	defer func() { _ = server.CloseWrite() }()
	buf := make([]byte, 64<<10)
	for {
		size, err := client.Read(buf)
		n.mu.Lock()
		held := n.held
		n.mu.Unlock()
		if held != nil {
			<-held
		}
		if _, werr := server.Write(buf[:size]); err != nil || werr != nil {
			return
		}
	}
}

// hold delays what clients send from now until pass is called. What was delayed by then continues only after release.
func (n *slowNetwork) hold() (release func()) {
	held := make(chan struct{})
	n.mu.Lock()
	n.held = held
	n.mu.Unlock()
	return func() { close(held) }
}

func (n *slowNetwork) pass() {
	n.mu.Lock()
	n.held = nil
	n.mu.Unlock()
}

func TestDelayedWriteNeverOverwritesANewerOne(t *testing.T) {
	p := mustStart(t, t.TempDir())
	network := newSlowNetwork(t, p.Socket)
	opts := Options{Socket: network.listener.Addr().String(), Timeout: 300 * time.Millisecond}
	s := mustOpen(t, opts)
	mustApply(t, s, set("k", "before"))

	release := network.hold()
	if err := s.Apply(testContext(t), set("k", "older")); err == nil {
		t.Fatal("an Apply that did not reach the server was acknowledged")
	}
	network.pass()
	mustApply(t, s, set("k", "newer"))
	release()

	// All calls have returned. Once the connections are closed as well, all delayed data has reached the server.
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	network.carried.Wait()
	wantData(t, mustOpen(t, optionsOf(p)), "k", "newer")
}
