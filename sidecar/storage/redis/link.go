package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/sidecar/storage"
)

// link is the set of connections to one incarnation of the server, which its run_id identifies. A server that restarts
// or fails over is another incarnation: no connection of the old link is used with it, and the store makes a new link.
type link struct {
	opts  Options
	owner string
	runID string
	reads *goredis.Client
	// evicted is how many keys the server had evicted when the link was made.
	evicted uint64

	mu     sync.Mutex
	writer *writer // nil after its connection broke
	closed bool
}

// connect makes a link to the server that answers, after checking that it does not lose what it acknowledges.
func connect(ctx context.Context, opts Options, owner string, c claim) (*link, error) {
	w, err := dialWriter(ctx, opts)
	if err != nil {
		return nil, err
	}
	if err := checkSafety(opts, w.server); err != nil {
		w.close()
		return nil, err
	}
	if err := w.acquireFence(ctx, owner, c); err != nil {
		w.close()
		return nil, fmt.Errorf("%s: acquire the fence: %w", opts.server(), err)
	}
	l := &link{opts: opts, owner: owner, runID: w.server.runID, writer: w}
	readOpts := opts.client()
	readOpts.PoolSize = opts.Connections
	readOpts.MaxRetries = 1 // for connections that broke while idle
	readOpts.OnConnect = l.checkConn
	l.reads = goredis.NewClient(readOpts)
	if _, l.evicted, err = readCanary(ctx, l.reads); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", opts.server(), err), l.close())
	}
	return l, nil
}

func checkSafety(opts Options, s server) error {
	unsafe := s.unsafeSettings()
	if len(unsafe) == 0 {
		return nil
	}
	if opts.AllowUnsafe {
		opts.Logger.Warn("storage: the server may lose acknowledged writes; continuing because AllowUnsafe is set",
			"server", opts.server(), "settings", unsafe)
		return nil
	}
	return fmt.Errorf(
		"%s may lose acknowledged writes:\n  %s\nChange these settings, or set AllowUnsafe to accept the loss",
		opts.server(), strings.Join(unsafe, "\n  "))
}

// checkConn rejects a connection for reads that reaches another incarnation of the server.
func (l *link) checkConn(ctx context.Context, conn *goredis.Conn) error {
	text, err := conn.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	info := make(map[string]string)
	parseInfo(text, info)
	if info["run_id"] != l.runID {
		return errServerChanged
	}
	return nil
}

// acquireWriter returns the writer, or a new one if its connection broke.
func (l *link) acquireWriter(ctx context.Context) (*writer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errServerChanged
	}
	if l.writer != nil {
		return l.writer, nil
	}
	w, err := dialWriter(ctx, l.opts)
	if err != nil {
		return nil, err
	}
	if w.server.runID != l.runID {
		err = errServerChanged
	} else if err = checkSafety(l.opts, w.server); err == nil {
		err = w.acquireFence(ctx, l.owner, claimOwn)
	}
	if err != nil {
		w.close()
		return nil, err
	}
	l.writer = w
	return w, nil
}

// discardWriter closes a writer whose connection broke.
func (l *link) discardWriter(w *writer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writer == w {
		l.writer = nil
		w.close()
	}
}

// close closes all connections. Running requests fail.
func (l *link) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.writer != nil {
		l.writer.close()
		l.writer = nil
	}
	return l.reads.Close()
}

// reconnect replaces the link old, whose server is gone or has lost its data, by one to the server that answers now. It
// returns storage.ErrRestarted once there is a new link, whoever made it.
func (s *Store) reconnect(ctx context.Context, old *link) error {
	s.reconnecting.Lock()
	defer s.reconnecting.Unlock()
	if s.link.Load() != old {
		return storage.ErrRestarted
	}
	next, err := connect(ctx, s.opts, s.owner, claimOwn)
	if err == nil {
		if err = s.checkCanary(ctx, next); err != nil {
			err = errors.Join(err, next.close())
		}
	}
	if errors.Is(err, errDataLost) {
		return s.noteLost(err)
	}
	if err != nil {
		return s.noteFenced(fmt.Errorf("the server restarted or failed over, and is not usable: %w", wrapFull(err)))
	}
	s.opts.Logger.Warn("storage: the server restarted or failed over; it has what it acknowledged before", "server",
		s.opts.server(), "run_id", next.runID, "previous_run_id", old.runID)
	s.link.Store(next)
	_ = old.close() // its server is gone
	return storage.ErrRestarted
}
