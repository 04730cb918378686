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
	// errServerChanged: the process that answers is not the one that this link belongs to.
	errServerChanged = errors.New("a different server process answers now")
	// errDataLost: the same server has lost the fence, and so everything else (FLUSHALL, FLUSHDB).
	errDataLost = errors.New("the server has lost its data")
	// errAborted: the transaction was aborted because the fence had changed. Nothing was written.
	errAborted = errors.New("the fence has changed")
	// errConnectionLost: the only connection of a writer broke.
	errConnectionLost = errors.New("the connection for writes broke")
	// errOutcomeUnknown: a request failed before its reply arrived, so the server may or may not have run it.
	errOutcomeUnknown = errors.New("outcome unknown")
)

// writer is the one connection on which a store writes.
//
// It guards against late writes. A transaction that the network delayed while its connection was abandoned must not run
// after a newer one: the store does not compare versions, so the older value would win. The same applies to the last
// transaction of a middleman that was replaced by another one. So a writer writes its own token to the fence key and
// watches the key on its connection (WATCH). The server aborts its transactions once the next writer has written
// another token.
type writer struct {
	client *goredis.Client
	conn   *goredis.Conn
	opts   Options
	server server
	token  string
}

// dialWriter connects, and checks that the server is usable. The writer can write after acquireFence.
func dialWriter(ctx context.Context, opts Options) (*writer, error) {
	clientOpts := opts.client()
	clientOpts.WriteBufferSize = writeBuffer
	dial := goredis.NewDialer(clientOpts)
	var dialed atomic.Bool
	clientOpts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dialed.Swap(true) {
			return nil, errConnectionLost // a new connection would not watch the fence
		}
		return dial(ctx, network, addr)
	}
	w := &writer{client: goredis.NewClient(clientOpts), opts: opts}
	w.conn = w.client.Conn()
	var err error
	if w.server, err = inspect(ctx, w.conn); err == nil {
		err = w.server.checkUsable()
	}
	if err != nil {
		w.close()
		return nil, fmt.Errorf("%s: %w", opts.server(), err)
	}
	return w, nil
}

func (w *writer) close() {
	// The connection is abandoned, so an error in closing it does not matter.
	_ = w.conn.Close()
	_ = w.client.Close()
}

// writeBuffer is the buffer of the connection for writes, in bytes. What fits is one system call.
const writeBuffer = 256 << 10

// claim says in which states of the fence a writer may acquire it.
type claim uint8

const (
	claimOwn claim = iota // it has a token of the same store
	claimAny              // whatever it has: a new middleman takes over
)

// acquireFence writes a new token of owner to the fence and starts to watch it.
func (w *writer) acquireFence(ctx context.Context, owner string, c claim) error {
	pipe := w.conn.Pipeline()
	watched := pipe.Do(ctx, "WATCH", fenceKey)
	current := pipe.Get(ctx, fenceKey)
	if err := pipelineError(pipe.Exec(ctx)); err != nil {
		return err
	}
	missing := errors.Is(current.Err(), goredis.Nil)
	switch {
	case watched.Err() != nil:
		return watched.Err()
	case current.Err() != nil && !missing && c != claimAny: // claimAny overwrites a fence of a wrong type, too
		return current.Err()
	case missing && c == claimOwn:
		return errDataLost
	case !missing && c != claimAny && !strings.HasPrefix(current.Val(), owner):
		return storage.ErrFenced
	}
	w.token = owner + "." + rand.Text()
	_, err := w.exec(ctx, []command{{"SET", fenceKey, w.token}})
	return err
}

// command is one command of a transaction.
type command []any

// exec runs the commands as one transaction and waits until they are durable. In the same round trip it watches the
// fence for the next transaction; usable says whether that succeeded.
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
	// GET detects a token that changed between EXEC and WATCH. One that changes later aborts the next EXEC.
	fence := pipe.Do(ctx, "GET", fenceKey)
	sent, err := pipe.Exec(ctx)
	if err := pipelineError(sent, err); err != nil {
		return false, fmt.Errorf("%w: %w", errOutcomeUnknown, err)
	}
	token, _ := fence.Text()
	usable = watched.Err() == nil && token == w.token
	if err := transactionError(sent[1:1+len(commands)], done); err != nil {
		// A primary that became a replica keeps its connections; a new connection may reach the new primary.
		return usable && !strings.HasPrefix(err.Error(), "READONLY "), err
	}
	if replicas == nil {
		return usable, nil
	}
	if n, err := replicas.Int(); err != nil || n < w.opts.WaitReplicas {
		return usable,
			errors.Join(
				fmt.Errorf(
					"only %d of the %d replicas that WaitReplicas requires have the writes after %v; "+
						"check the replicas",
					n, w.opts.WaitReplicas, w.opts.WaitTimeout), err)
	}
	return usable, nil
}

// transactionError returns the error in the replies of a transaction.
func transactionError(queued []goredis.Cmder, done *goredis.Cmd) error {
	results, err := done.Slice()
	var fromServer goredis.Error
	switch {
	case errors.Is(err, goredis.Nil):
		return errAborted
	case errors.As(err, &fromServer):
		// The server refused the whole transaction. The reason is in the reply of the command that it did not queue.
		for _, cmd := range queued {
			if cmd.Err() != nil {
				return cmd.Err()
			}
		}
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", errOutcomeUnknown, err)
	}
	for _, result := range results {
		if err, failed := result.(error); failed {
			return err
		}
	}
	return nil
}
