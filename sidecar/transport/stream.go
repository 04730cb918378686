package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/causalstore/causalstore/sidecar/transport/wire"
)

// errEnded ends a stream that the peer has ended in order.
var errEnded = errors.New("closed by the peer")

var errNetworkClosed = errors.New("the network is closed")

// dialedStream is one stream of a dialed link.
type dialedStream struct {
	conn     *grpc.ClientConn
	ctx      context.Context
	cancel   context.CancelCauseFunc
	stream   grpc.ClientStream
	in       *receivedFrame // with the hello of the peer
	identity *peerIdentity  // nil without TLS
	via      string         // the egress, if any
	attempt  attempt
	roots    roots
}

func (s *dialedStream) close() {
	s.cancel(nil)
	_ = s.conn.Close() // it has been used up
}

// runStream opens a stream and exchanges messages until the stream breaks, the link is idle or, after Close, everything
// is sent. It renews the stream when that is due.
func (d *dialer) runStream() (Failure, error) {
	s, _, err := d.open(d.g.ctx, false)
	if err != nil {
		return s.attempt.failure(err), err
	}
	d.markUp(s, false)
	for {
		next, err := d.exchangeMessages(s)
		s.close()
		if next == nil {
			return s.attempt.failure(err), err
		}
		s = next
	}
}

// open opens a connection and a stream, unless ctx ends before that is done. If it fails, asked says whether the peer
// may have the hello.
func (d *dialer) open(ctx context.Context, renews bool) (s *dialedStream, asked bool, err error) {
	s = &dialedStream{in: &receivedFrame{decoding: decodingRoom{d.g.decodingOfParts, d.addr}}, via: d.g.viaOf(d.addr)}
	s.ctx, s.cancel = context.WithCancelCause(d.g.ctx)
	defer context.AfterFunc(ctx, func() { s.cancel(nil) })()
	// The context lives as long as the stream, so a watchdog bounds the handshake instead of a deadline. An egress
	// accepts whether or not it reaches the peer; the hellos have their time from when that has answered.
	var late atomic.Bool
	watchdog := time.AfterFunc(d.g.timing.hello, func() { late.Store(true); s.cancel(nil) })
	var peer atomic.Pointer[peerIdentity]
	accept := func(p *peerIdentity) error {
		peer.Store(p)
		if s.via != "" {
			watchdog.Reset(d.g.timing.hello)
		}
		return d.checkIdentity(p)
	}
	// A renewal that the peer refuses must not disturb the link, so it waits for the peer before it says hello.
	options := append(d.g.dialOptions(d.addr, &s.attempt, !renews, accept), grpc.WithContextDialer(d.connector(s)))
	s.conn, err = grpc.NewClient("passthrough:///"+d.addr, options...)
	if err != nil {
		watchdog.Stop()
		s.cancel(nil)
		return s, false, fmt.Errorf("dial %s: %w", d.describe(s.via), err)
	}
	asked, err = d.exchangeHellos(s, &peer, renews)
	watchdog.Stop()
	switch {
	case !late.Load():
	case s.via != "" && peer.Load() == nil:
		err = fmt.Errorf("%s: no answer within %v", d.describe(s.via), d.g.timing.hello)
	default:
		err = fmt.Errorf("%s: no hello within %v", d.describe(s.via), d.g.timing.hello)
	}
	if err != nil {
		s.close()
		return s, asked, err
	}
	d.incomingFailed.Store(false)
	return s, true, nil
}

// describe names the process in errors, and the egress that it is dialed through.
func (d *dialer) describe(via string) string {
	if via == "" {
		return d.addr
	}
	return d.addr + " via " + via
}

// exchangeHellos opens the stream and exchanges hellos. If it fails, asked says whether the peer may have that of this
// process.
func (d *dialer) exchangeHellos(s *dialedStream, peer *atomic.Pointer[peerIdentity], renews bool) (asked bool,
	err error) {
	if s.stream, err = s.conn.NewStream(s.ctx, &serviceDesc.Streams[0], wire.Method); err != nil {
		return false, fmt.Errorf("open a link to %s: %w", d.describe(s.via), err)
	}
	hello := d.g.hello(d.link, peer.Load())
	hello.Renews = renews
	if err := s.stream.SendMsg(hello); err != nil && !errors.Is(err, io.EOF) { // after EOF, RecvMsg returns the reason
		return true, fmt.Errorf("send hello to %s: %w", d.addr, err)
	}
	if err := s.stream.RecvMsg(s.in); err != nil {
		return true, fmt.Errorf("receive hello from %s: %w", d.addr, err)
	}
	s.identity = peer.Load()
	s.roots.start(s.in.hello.Roots, hello.Roots)
	if err := s.in.hello.Compatible(); err != nil {
		return true, fmt.Errorf("refuse the link to %s: %w", d.addr, err)
	}
	if err := d.g.checkManifest(s.in.hello); err != nil {
		d.g.violations.note(ViolationManifest, d.addr, err, d.g.config.Log)
		return true, fmt.Errorf("refuse the link to %s: %w", d.addr, err)
	}
	if err := d.verifyPeer(s.in.hello); err != nil {
		return true, err
	}
	if err := d.g.checkHello(s.in.hello, s.identity); err != nil {
		d.g.violations.note(ViolationIdentity, d.addr, err, d.g.config.Log)
		return true, fmt.Errorf("refuse the link to %s: %w", d.addr, err)
	}
	if err := d.g.checkDuplicate(s.ctx, s.in.hello, d.addr); err != nil {
		// not a refusal of this process
		return true, fmt.Errorf("refuse the link to %s: %s", d.addr, status.Convert(err).Message())
	}
	return true, nil
}

// exchangeMessages sends and receives messages. When it returns, all received messages have been handled. It returns
// the stream to go on with if the link was renewed.
func (d *dialer) exchangeMessages(s *dialedStream) (next *dialedStream, err error) {
	broken := make(chan struct{})
	renewing, stopRenewing := context.WithCancel(d.g.ctx)
	defer stopRenewing()
	var why error
	go func() {
		defer close(broken)
		defer stopRenewing()
		why = d.receive(s)
	}()
	halt, renewed := make(chan struct{}), make(chan *dialedStream, 1)
	go func() {
		defer close(halt)
		renewed <- d.renewWhenDue(renewing, s)
	}()
	err = d.g.pump(d.out, s.stream, s.in.hello, halt, d.g.timing.idle)
	stopRenewing()
	if next = <-renewed; next != nil && errors.Is(err, errBroken) {
		if err = d.finish(s, broken, &why); err == nil {
			return next, nil
		}
	}
	if next != nil {
		next.close()
	}
	if err == nil { // everything is sent: wait for the answers of the peer, until it ends the stream
		_ = s.stream.CloseSend() // it always returns nil
		select {
		case <-broken:
		case <-s.ctx.Done():
		}
		err = errNetworkClosed
	}
	if !errors.Is(err, errIdle) && !errors.Is(err, errNetworkClosed) {
		// RecvMsg returns the reason; SendMsg only reports that the stream is broken.
		s.cancel(nil)
		<-broken
		switch cause := context.Cause(s.ctx); {
		case cause != nil && !errors.Is(cause, context.Canceled):
			why = cause
		case errors.Is(why, io.EOF) && next == nil:
			// a stream that is renewed may end before the replies to what came on it are sent
			why = errEnded
		}
		err = fmt.Errorf("link to %s: %w", d.addr, why)
	}
	s.cancel(nil)
	<-broken
	return nil, err
}

// receive handles what arrives on a stream until it ends, and returns why it has.
func (d *dialer) receive(s *dialedStream) error {
	for {
		if err := s.stream.RecvMsg(s.in); err != nil {
			if s.in.malformed != nil {
				return d.g.refuseFrame(s.in.malformed, d.addr)
			}
			return err
		}
		d.out.touch()
		d.heard.Add(1)
		d.out.answerProbe(s.in.control.Probe)
		s.roots.hear(s.in.control.Roots)
		d.g.hearAnnouncement(s.in.hello, s.in.control.Announcement)
		if err := d.g.deliver(s.in, s.in.hello, d.addr); err != nil {
			return err
		}
	}
}

// sender is the sending half of a client or server stream.
type sender interface{ SendMsg(m any) error }

var errBroken = errors.New("the stream is broken")

// pump sends the frames of an outbox to a peer. It returns errBroken when broken is closed or sending fails, nil when
// the outbox is closed and empty, and errIdle when the link was not used for idle; 0 is no limit.
func (g *GRPC) pump(out *outbox, stream sender, to *wire.Hello, broken <-chan struct{}, idle time.Duration) error {
	sent := &g.trafficOf(to).sent
	var checkIdle <-chan time.Time
	if idle > 0 {
		ticker := time.NewTicker(idle/2 + 1)
		defer ticker.Stop()
		checkIdle = ticker.C
	}
	for {
		select {
		case <-broken: // also while there is always something to send
			return errBroken
		default:
		}
		f, more := out.take()
		if f == nil {
			if !more {
				return nil
			}
			select {
			case <-out.wake:
				runtime.Gosched() // what can run now may have more to send, and then it leaves in the same frame
			case <-broken:
				return errBroken
			case <-checkIdle:
				if out.idleFor(idle) {
					return errIdle
				}
			}
			continue
		}
		size := len(f.batch.Buf)
		if err := stream.SendMsg(f); err != nil {
			out.countLost(f)
			return errBroken
		}
		g.framesSent.Add(1)
		g.bytesSent.Add(uint64(size))
		sent.Add(uint64(size))
		for _, k := range f.kinds {
			g.countSent(k)
		}
		f.release()
	}
}
