package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/causalstore/causalstore/sidecar/transport/wire"
)

// dialer keeps a link to the process at one address, from the first message for it until none goes over it any more.
type dialer struct {
	g    *GRPC
	addr string
	link uint64 // says on each new stream that it takes the place of the last
	out  *outbox

	called chan struct{} // has room for one token: the process has called

	mu   sync.Mutex
	peer *wire.Hello // of the stream that is up, or was last
	up   bool
	cut  context.CancelCauseFunc // ends the stream that is up
	last string                  // why no stream is up
}

var errIdle = errors.New("not used for long")

// dial returns the outbox of the link to an address, which it opens if there is none.
func (g *GRPC) dial(addr string) (*outbox, Reason) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, DropClosed
	}
	if d := g.dialed[addr]; d != nil {
		return d.out, dropNone
	}
	d := &dialer{g: g, addr: addr, link: rand.Uint64(), out: newOutbox(&g.counters, g.config.QueueBytes), called: make(chan struct{}, 1)}
	g.dialed[addr] = d
	g.wg.Go(d.run)
	return d.out, dropNone
}

// run opens one stream after another. An attempt ends for good before the next one begins.
func (d *dialer) run() {
	for attempt := 0; ; attempt++ {
		start := time.Now()
		err := d.stream()
		d.out.fail()
		d.down(err)
		if d.retire() {
			return
		}
		if time.Since(start) > d.g.timing.maxBackoff {
			attempt = 0
		}
		select {
		case <-time.After(d.g.backoff(attempt)):
		case <-d.called:
			attempt = 0
		case <-d.g.ending:
			return
		}
		d.out.reopen()
	}
}

// backoff doubles with each attempt; half of it is random, so that the peers of a process do not all return at once.
func (g *GRPC) backoff(attempt int) time.Duration {
	d := min(g.timing.maxBackoff, g.timing.backoff<<min(attempt, 16))
	return d/2 + time.Duration(rand.Int64N(int64(d/2)+1))
}

// retire takes the dialer off the list if it is not needed any more, and reports whether it did.
func (d *dialer) retire() bool {
	d.g.mu.Lock()
	defer d.g.mu.Unlock()
	if !d.g.closed && !d.out.idle(d.g.timing.idle) {
		return false
	}
	d.out.shut()
	delete(d.g.dialed, d.addr)
	return true
}

func (d *dialer) down(err error) {
	d.mu.Lock()
	was, reached := d.last, d.peer != nil
	d.up, d.last = false, err.Error()
	d.mu.Unlock()
	if errors.Is(err, errIdle) || errors.Is(err, errClosed) {
		return
	}
	d.g.failed.Add(1)
	tell := d.g.config.Unreached
	if reached {
		tell = d.g.config.Down
	}
	if tell != nil {
		tell(d.addr)
	}
	if was != err.Error() { // a peer that stays away is reported once
		level := slog.LevelWarn
		if errors.Is(err, wire.ErrProtocol) || status.Code(err) == codes.FailedPrecondition { // a person must do something
			level = slog.LevelError
		}
		d.g.config.Log.Log(d.g.ctx, level, "link is down", "address", d.addr, "error", err)
	}
}

var errClosed = errors.New("the network is closed")

// stream opens a stream and carries messages until it breaks, or all is sent after Close.
func (d *dialer) stream() error {
	ctx, cut := context.WithCancelCause(d.g.ctx)
	cancel := func() { cut(nil) }
	defer cancel()
	conn, err := grpc.NewClient("passthrough:///"+d.addr, append(d.g.dialOptions(), grpc.WithContextDialer(d.connect))...)
	if err != nil {
		return fmt.Errorf("dial %s: %w", d.addr, err)
	}
	defer conn.Close()

	// The context must outlive the attempt, so a watchdog bounds that instead of a deadline.
	var late atomic.Bool
	watchdog := time.AfterFunc(d.g.timing.hello, func() { late.Store(true); cancel() })
	stream, in, err := d.greet(ctx, conn)
	if !watchdog.Stop() && late.Load() {
		err = fmt.Errorf("%s: no hello within %v", d.addr, d.g.timing.hello)
	}
	if err != nil {
		return err
	}
	d.opened(in.hello, cut)
	return d.carry(ctx, cancel, stream, in)
}

// greet opens a stream and exchanges hellos.
func (d *dialer) greet(ctx context.Context, conn *grpc.ClientConn) (grpc.ClientStream, *inbox, error) {
	stream, err := conn.NewStream(ctx, &serviceDesc.Streams[0], wire.Method)
	if err != nil {
		return nil, nil, fmt.Errorf("open a link to %s: %w", d.addr, err)
	}
	if err := stream.SendMsg(d.g.hello(d.link)); err != nil && !errors.Is(err, io.EOF) { // on EOF, RecvMsg has the reason
		return nil, nil, fmt.Errorf("greet %s: %w", d.addr, err)
	}
	in := &inbox{}
	if err := stream.RecvMsg(in); err != nil {
		return nil, nil, fmt.Errorf("hello from %s: %w", d.addr, err)
	}
	if err := in.hello.Compatible(); err != nil {
		return nil, nil, fmt.Errorf("link to %s refused: %w", d.addr, err)
	}
	if err := d.recognize(in.hello); err != nil {
		return nil, nil, err
	}
	return stream, in, nil
}

func (d *dialer) opened(h *wire.Hello, cut context.CancelCauseFunc) {
	d.g.opened.Add(1)
	d.mu.Lock()
	d.peer, d.up, d.cut, d.last = h, true, cut, ""
	d.mu.Unlock()
	d.g.config.Log.Info("link is up", "address", d.addr, "process", h.Process, "epoch", h.TopologyEpoch)
	if d.g.config.Up != nil {
		d.g.config.Up(d.addr)
	}
}

// carry sends and receives. When it returns, everything that was received has been handled.
func (d *dialer) carry(ctx context.Context, cancel func(), stream grpc.ClientStream, in *inbox) error {
	broken := make(chan struct{})
	var why error
	go func() {
		defer close(broken)
		for {
			if why = stream.RecvMsg(in); why != nil {
				return
			}
			d.out.touch()
			d.g.deliver(in)
		}
	}()
	err := d.g.pump(d.out, stream, broken, d.g.timing.idle)
	if err == nil { // all is sent: wait for the peer's answers, and its goodbye
		_ = stream.CloseSend() // it always returns nil
		select {
		case <-broken:
		case <-ctx.Done():
		}
		err = errClosed
	}
	if !errors.Is(err, errIdle) && !errors.Is(err, errClosed) {
		// The receiving side knows the reason, and the sending side only that there is one.
		cancel()
		<-broken
		switch {
		case errors.Is(context.Cause(ctx), errAnotherLife):
			why = errAnotherLife
		case errors.Is(why, io.EOF):
			why = errors.New("the peer closed it")
		}
		err = fmt.Errorf("link to %s: %w", d.addr, why)
	}
	cancel()
	<-broken
	return err
}

// sender is the sending side of a stream, at either end.
type sender interface{ SendMsg(m any) error }

var errBroken = errors.New("broken")

// pump sends what comes into an outbox until broken is closed or sending fails; it returns nil when the outbox is shut
// and empty, and errIdle when it was not used for idle (0: for ever).
func (g *GRPC) pump(out *outbox, stream sender, broken <-chan struct{}, idle time.Duration) error {
	var look <-chan time.Time
	if idle > 0 {
		ticker := time.NewTicker(idle/2 + 1)
		defer ticker.Stop()
		look = ticker.C
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
			case <-look:
				if out.idle(idle) {
					return errIdle
				}
			}
			continue
		}
		size := len(f.batch.Buf)
		if err := stream.SendMsg(f); err != nil {
			out.lose(f)
			return errBroken
		}
		g.framesSent.Add(1)
		g.bytesSent.Add(uint64(size))
		for _, k := range f.kinds {
			g.send(k)
		}
	}
}

func (d *dialer) stats() LinkStats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := LinkStats{Address: d.addr, Dialed: true, Up: d.up, QueuedBytes: d.out.queued(), LastError: d.last}
	if d.peer != nil {
		s.Process, s.TopologyEpoch, s.Nodes = d.peer.Process, d.peer.TopologyEpoch, d.peer.Nodes
	}
	return s
}

// The windows let one stream fill a path of 200 ms at 40 MB/s.
const (
	streamWindow = 8 << 20
	connWindow   = 16 << 20
	ioBuffer     = 64 << 10
)

func (g *GRPC) dialOptions() []grpc.DialOption {
	creds := insecure.NewCredentials()
	if g.keys != nil {
		creds = g.keys.client()
	}
	return []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{}), grpc.MaxCallRecvMsgSize(maxFrame), grpc.MaxCallSendMsgSize(maxFrame)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: g.timing.keepalive, Timeout: g.timing.keepaliveTimeout, PermitWithoutStream: true}),
		grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(connWindow),
		grpc.WithReadBufferSize(ioBuffer), grpc.WithWriteBufferSize(ioBuffer),
		grpc.WithNoProxy(),      // a proxy for the web has no business between our processes
		grpc.WithDisableRetry(), // the protocol retries; gRPC would keep every frame for it
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
	}
}
