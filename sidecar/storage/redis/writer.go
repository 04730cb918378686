package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"

	goredis "github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/sidecar/storage"
)

var (
	// errOtherServer: the process that answers is not the one that this link is for.
	errOtherServer = errors.New("another server process answers than before")
	// errDataGone: the server is the same and has lost the fence, so everything else too (FLUSHALL, a dropped database).
	errDataGone = errors.New("the server has lost its data")
	// errAborted: the fence was touched, nothing was written.
	errAborted = errors.New("the fence was touched")
	// errSpent: the one connection of a writer is gone.
	errSpent = errors.New("the connection for writes broke")
	// errBroken: a request failed half-way, so whether it was carried out is unknown.
	errBroken = errors.New("outcome unknown")
)

// writer is the one connection on which a store writes.
//
// The danger is a late write: a transaction that the network held back while its connection was given up must not run after a
// newer one, since the store arbitrates nothing and the older value would win. The same goes for the last transaction of a
// middle man that another one has replaced. So a writer first writes a token of its own to the fence key, and then watches
// the key on its connection (WATCH): the server refuses its transactions as soon as the next writer has put in another token.
type writer struct {
	client *goredis.Client
	conn   *goredis.Conn
	opts   Options
	server server
	token  string
}

// dialWriter connects, and checks that the server can be used. The writer cannot write until take.
func dialWriter(ctx context.Context, opts Options) (*writer, error) {
	clientOpts := opts.client()
	dial := goredis.NewDialer(clientOpts)
	var dialed atomic.Bool
	clientOpts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dialed.Swap(true) {
			return nil, errSpent // a new connection would not watch the fence
		}
		return dial(ctx, network, addr)
	}
	w := &writer{client: goredis.NewClient(clientOpts), opts: opts}
	w.conn = w.client.Conn()
	var err error
	if w.server, err = gather(ctx, w.conn); err == nil {
		err = w.server.unusable()
	}
	if err != nil {
		w.close()
		return nil, fmt.Errorf("%s: %w", opts.server(), err)
	}
	return w, nil
}

func (w *writer) close() {
	// The connection is being given up: an error in closing it changes nothing.
	_ = w.conn.Close()
	_ = w.client.Close()
}

// claim says in which state of the fence a writer may take it.
type claim uint8

const (
	claimOwn     claim = iota // it has a token of the same owner
	claimMissing              // or there is none: the server restarted, and may have lost it
	claimAny                  // whatever there is: a new middle man takes over
)

// take puts a new token of owner into the fence and begins to watch it.
func (w *writer) take(ctx context.Context, owner string, c claim) error {
	pipe := w.conn.Pipeline()
	watched := pipe.Do(ctx, "WATCH", fenceKey)
	current := pipe.Get(ctx, fenceKey)
	if err := notSent(pipe.Exec(ctx)); err != nil {
		return err
	}
	missing := errors.Is(current.Err(), goredis.Nil)
	switch {
	case watched.Err() != nil:
		return watched.Err()
	case current.Err() != nil && !missing && c != claimAny: // claimAny overwrites a fence of a wrong type too
		return current.Err()
	case missing && c == claimOwn:
		return errDataGone
	case !missing && c != claimAny && !strings.HasPrefix(current.Val(), owner):
		return storage.ErrFenced
	}
	w.token = owner + "." + rand.Text()
	_, err := w.exec(ctx, []command{{"SET", fenceKey, w.token}})
	return err
}

// command is one command of a transaction.
type command []any

// exec runs the commands as one transaction and waits until they are durable. In the same round trip it watches the fence for
// the next one; usable is whether that has succeeded.
func (w *writer) exec(ctx context.Context, commands []command) (usable bool, err error) {
	pipe := w.conn.Pipeline()
	pipe.Do(ctx, "MULTI")
	for _, c := range commands {
		pipe.Do(ctx, c...)
	}
	done := pipe.Do(ctx, "EXEC")
	var replicas *goredis.Cmd
	if w.opts.WaitReplicas > 0 {
		replicas = pipe.Do(ctx, "WAIT", w.opts.WaitReplicas, w.opts.WaitTimeout.Milliseconds())
	}
	watched := pipe.Do(ctx, "WATCH", fenceKey)
	// A token that changed between EXEC and WATCH is seen here, one that changes later stops the next EXEC.
	fence := pipe.Do(ctx, "GET", fenceKey)
	sent, err := pipe.Exec(ctx)
	if err := notSent(sent, err); err != nil {
		return false, fmt.Errorf("%w: %w", errBroken, err)
	}
	token, _ := fence.Text()
	usable = watched.Err() == nil && token == w.token
	if err := outcome(sent[1:1+len(commands)], done); err != nil {
		// A primary that became a replica keeps its connections; a new one may lead to the new primary.
		return usable && !strings.HasPrefix(err.Error(), "READONLY "), err
	}
	if replicas == nil {
		return usable, nil
	}
	if n, err := replicas.Int(); err != nil || n < w.opts.WaitReplicas {
		return usable, errors.Join(fmt.Errorf("only %d of the %d replicas that WaitReplicas asks for have the writes after %v; check the replicas",
			n, w.opts.WaitReplicas, w.opts.WaitTimeout), err)
	}
	return usable, nil
}

// outcome reads the reply of a transaction.
func outcome(queued []goredis.Cmder, done *goredis.Cmd) error {
	results, err := done.Slice()
	var fromServer goredis.Error
	switch {
	case errors.Is(err, goredis.Nil):
		return errAborted
	case errors.As(err, &fromServer):
		// The server refused the transaction as a whole: the reason is with the command that it did not queue.
		for _, cmd := range queued {
			if cmd.Err() != nil {
				return cmd.Err()
			}
		}
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	for _, result := range results {
		if err, failed := result.(error); failed {
			return err
		}
	}
	return nil
}
