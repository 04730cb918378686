package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/causalstore/causalstore/sidecar/transport/wire"
)

// errEnded ends a stream that the peer has ended in order.
var errEnded = errors.New("closed by the peer")

var errNetworkClosed = errors.New("the network is closed")

// runStream opens a stream and exchanges messages until the stream breaks, the link is idle or, after Close, everything is
// sent.
func (d *dialer) runStream() error {
	ctx, cancelCause := context.WithCancelCause(d.g.ctx)
	cancel := func() { cancelCause(nil) }
	defer cancel()
	conn, err := grpc.NewClient("passthrough:///"+d.addr, append(d.g.dialOptions(), grpc.WithContextDialer(d.connect))...)
	if err != nil {
		return fmt.Errorf("dial %s: %w", d.addr, err)
	}
	defer conn.Close()

	// The context lives as long as the stream, so a watchdog bounds the handshake instead of a deadline.
	var late atomic.Bool
	watchdog := time.AfterFunc(d.g.timing.hello, func() { late.Store(true); cancel() })
	stream, in, err := d.exchangeHellos(ctx, conn)
	if !watchdog.Stop() && late.Load() {
		err = fmt.Errorf("%s: no hello within %v", d.addr, d.g.timing.hello)
	}
	if err != nil {
		return err
	}
	d.markUp(in.hello, cancelCause)
	return d.exchangeMessages(ctx, cancel, stream, in)
}

// exchangeHellos opens a stream and exchanges hellos.
func (d *dialer) exchangeHellos(ctx context.Context, conn *grpc.ClientConn) (grpc.ClientStream, *receivedFrame, error) {
	stream, err := conn.NewStream(ctx, &serviceDesc.Streams[0], wire.Method)
	if err != nil {
		return nil, nil, fmt.Errorf("open a link to %s: %w", d.addr, err)
	}
	if err := stream.SendMsg(d.g.hello(d.link)); err != nil && !errors.Is(err, io.EOF) { // after EOF, RecvMsg returns the reason
		return nil, nil, fmt.Errorf("send hello to %s: %w", d.addr, err)
	}
	in := &receivedFrame{}
	if err := stream.RecvMsg(in); err != nil {
		return nil, nil, fmt.Errorf("receive hello from %s: %w", d.addr, err)
	}
	if err := in.hello.Compatible(); err != nil {
		return nil, nil, fmt.Errorf("refuse the link to %s: %w", d.addr, err)
	}
	if err := d.verifyPeer(in.hello); err != nil {
		return nil, nil, err
	}
	if err := d.g.checkDuplicate(ctx, in.hello, d.addr); err != nil {
		return nil, nil, fmt.Errorf("refuse the link to %s: %s", d.addr, status.Convert(err).Message()) // not a refusal of this process
	}
	return stream, in, nil
}

// exchangeMessages sends and receives messages. When it returns, all received messages have been handled.
func (d *dialer) exchangeMessages(ctx context.Context, cancel func(), stream grpc.ClientStream, in *receivedFrame) error {
	broken := make(chan struct{})
	var why error
	go func() {
		defer close(broken)
		for {
			if why = stream.RecvMsg(in); why != nil {
				return
			}
			d.out.touch()
			d.heard.Add(1)
			d.out.answerProbe(in.probe)
			d.g.deliver(in)
		}
	}()
	err := d.g.pump(d.out, stream, broken, d.g.timing.idle)
	if err == nil { // everything is sent: wait for the answers of the peer, until it ends the stream
		_ = stream.CloseSend() // it always returns nil
		select {
		case <-broken:
		case <-ctx.Done():
		}
		err = errNetworkClosed
	}
	if !errors.Is(err, errIdle) && !errors.Is(err, errNetworkClosed) {
		// RecvMsg returns the reason; SendMsg only reports that the stream is broken.
		cancel()
		<-broken
		switch {
		case errors.Is(context.Cause(ctx), errPeerRestarted), errors.Is(context.Cause(ctx), errDuplicate):
			why = context.Cause(ctx)
		case errors.Is(why, io.EOF):
			why = errEnded
		}
		err = fmt.Errorf("link to %s: %w", d.addr, why)
	}
	cancel()
	<-broken
	return err
}

// sender is the sending half of a client or server stream.
type sender interface{ SendMsg(m any) error }

var errBroken = errors.New("the stream is broken")

// pump sends the frames of an outbox. It returns errBroken when broken is closed or sending fails, nil when the outbox is
// closed and empty, and errIdle when the link was not used for idle; 0 is no limit.
func (g *GRPC) pump(out *outbox, stream sender, broken <-chan struct{}, idle time.Duration) error {
	var checkIdle <-chan time.Time
	if idle > 0 {
		ticker := time.NewTicker(idle/2 + 1)
		defer ticker.Stop()
		checkIdle = ticker.C
	}
	for {
		f, more := out.take()
		if f == nil {
			if !more {
				return nil
			}
			select {
			case <-out.wake:
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
		for _, k := range f.kinds {
			g.countSent(k)
		}
	}
}
