package redis

import (
	"context"
	"fmt"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/sidecar/storage"
)

// link is the connections to one incarnation of the server, told by its run_id. A server that restarts or fails over is
// another incarnation: no connection of the link reaches it, and the store makes a new link.
type link struct {
	opts  Options
	owner string
	runID string
	reads *goredis.Client

	mu     sync.Mutex
	writer *writer // nil after it broke
	closed bool
}

// connect makes a link to whatever server answers, after checking that it keeps what it acknowledges.
func connect(ctx context.Context, opts Options, owner string, c claim) (*link, error) {
	w, err := dialWriter(ctx, opts)
	if err != nil {
		return nil, err
	}
	if err := checkSafety(opts, w.server); err != nil {
		w.close()
		return nil, err
	}
	if err := w.take(ctx, owner, c); err != nil {
		w.close()
		return nil, fmt.Errorf("%s: take the right to write: %w", opts.server(), err)
	}
	l := &link{opts: opts, owner: owner, runID: w.server.runID, writer: w}
	readOpts := opts.client()
	readOpts.PoolSize = opts.Connections
	readOpts.MaxRetries = 1 // a connection that broke while idle
	readOpts.OnConnect = l.checkConn
	l.reads = goredis.NewClient(readOpts)
	return l, nil
}

func checkSafety(opts Options, s server) error {
	dangers := s.dangers()
	if len(dangers) == 0 {
		return nil
	}
	if opts.AllowUnsafe {
		opts.Logger.Warn("storage: the server may lose acknowledged writes, and AllowUnsafe lets it", "server", opts.server(), "because", dangers)
		return nil
	}
	return fmt.Errorf("%s may lose acknowledged writes:\n  %s\nChange this, or set AllowUnsafe to use it nevertheless",
		opts.server(), strings.Join(dangers, "\n  "))
}

// checkConn refuses a connection for reads that reaches another incarnation.
func (l *link) checkConn(ctx context.Context, conn *goredis.Conn) error {
	text, err := conn.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	info := make(map[string]string)
	parseInfo(text, info)
	if info["run_id"] != l.runID {
		return errOtherServer
	}
	return nil
}

// acquire returns the writer, after making a new one if the last broke.
func (l *link) acquire(ctx context.Context) (*writer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errOtherServer
	}
	if l.writer != nil {
		return l.writer, nil
	}
	w, err := dialWriter(ctx, l.opts)
	if err != nil {
		return nil, err
	}
	if w.server.runID != l.runID {
		err = errOtherServer
	} else if err = checkSafety(l.opts, w.server); err == nil {
		err = w.take(ctx, l.owner, claimOwn)
	}
	if err != nil {
		w.close()
		return nil, err
	}
	l.writer = w
	return w, nil
}

// drop gives up a writer that broke.
func (l *link) drop(w *writer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writer == w {
		l.writer = nil
		w.close()
	}
}

// close ends all connections; requests under way fail.
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

// renew replaces a link whose server is gone, or has lost its data, by one to the server that answers now.
// It returns storage.ErrRestarted when there is a new link, whoever made it.
func (s *Store) renew(ctx context.Context, old *link) error {
	s.renewing.Lock()
	defer s.renewing.Unlock()
	if s.link.Load() != old {
		return storage.ErrRestarted
	}
	fresh, err := connect(ctx, s.opts, s.owner, claimMissing)
	if err != nil {
		return s.noteFenced(fmt.Errorf("the server restarted or failed over, and cannot be used now: %w", err))
	}
	s.opts.Logger.Warn("storage: the server restarted, failed over or lost data", "server", s.opts.server(), "run_id", fresh.runID, "before", old.runID)
	s.opts.OnRestart()
	s.link.Store(fresh)
	_ = old.close() // its server is gone
	return storage.ErrRestarted
}
