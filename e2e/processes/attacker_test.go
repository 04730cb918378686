package processes_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/mem"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/transport/wire"
	"github.com/causalstore/causalstore/topology"
)

// rawFrames carries frames as they are, so that an attacker may say anything.
type rawFrames struct{}

func (rawFrames) Name() string { return "proto" }

func (rawFrames) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (rawFrames) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// attacker has the certificate of a part, and says what it likes.
type attacker struct {
	t    *testing.T
	self topology.Node
	cert tls.Certificate
}

// attackerAs returns one with the certificate of a part of a deployment.
func (d *deployment) attackerAs(dc string, self topology.Node, role string) *attacker {
	d.t.Helper()
	files := d.certs.of(dc, role)
	cert, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	must(d.t, err)
	return &attacker{t: d.t, self: self, cert: cert}
}

// attackLink is a link that an attacker has opened.
type attackLink struct {
	conn   *grpc.ClientConn
	stream grpc.ClientStream
	batch  wire.Batch
	// ended is closed once the other end has closed it; what it has sent is thrown away.
	ended chan struct{}
	why   error
}

// dial opens a link as a node, with a topology epoch, and waits until it is accepted.
func (a *attacker) dial(addr string, self topology.Node, epoch uint64) (*attackLink, error) {
	creds := credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{a.cert}, InsecureSkipVerify: true})
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawFrames{})))
	if err != nil {
		return nil, err
	}
	s, err := conn.NewStream(context.Background(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		wire.Method)
	if err == nil {
		err = s.SendMsg(wire.AppendHello(nil, &wire.Hello{Protocol: wire.Protocol, MinProtocol: wire.MinProtocol,
			Process:     "attacker",
			Incarnation: rand.Uint64(), Link: rand.Uint64(), Nodes: []topology.Node{self}, TopologyEpoch: epoch}))
	}
	var hello []byte
	if err == nil {
		err = s.RecvMsg(&hello)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("dial %s as %v: %w", addr, self, err)
	}
	l := &attackLink{conn: conn, stream: s, ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		for l.why == nil {
			var thrown []byte
			l.why = s.RecvMsg(&thrown)
		}
	}()
	return l, nil
}

// send sends messages in one frame.
func (l *attackLink) send(ms ...causal.Message) error {
	l.batch = wire.Batch{Buf: l.batch.Buf[:0]}
	for i := range ms {
		l.batch.Add(&ms[i])
	}
	return l.stream.SendMsg(append([]byte(nil), l.batch.Buf...))
}

func (l *attackLink) close() { l.conn.Close() }

// isOpen reports whether the other end has not closed the link within a time.
func (l *attackLink) isOpen(within time.Duration) bool {
	select {
	case <-l.ended:
		return false
	case <-time.After(within):
		return true
	}
}
