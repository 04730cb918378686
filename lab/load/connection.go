package load

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/sidecar/causal"
)

// target is an endpoint and what the run has learned about it.
type target struct {
	Endpoint
	// lacksCausal is set once the endpoint has replied that it does not know CAUSAL.
	lacksCausal atomic.Bool
}

// connection is one connection to an endpoint. go-redis would silently reconnect after an error, and use other
// connections for pipelines. Here a new connection is a new session, so each has a client of its own.
type connection struct {
	target *target
	config *Config
	client *redis.Client
	conn   *redis.Conn
	// generation counts the connections that got at least one reply, from 1.
	generation int
	hasReplied bool
}

// quiet makes go-redis log at level debug, in the whole process: under faults it would print a line for every failed
// connection attempt, which the result counts anyway.
var quiet = sync.OnceFunc(func() { redis.SetLogger(debugLog{}) })

type debugLog struct{}

func (debugLog) Printf(ctx context.Context, format string, args ...any) {
	if slog.Default().Enabled(ctx, slog.LevelDebug) {
		slog.DebugContext(ctx, fmt.Sprintf(format, args...))
	}
}

func dial(t *target, c *Config) *connection {
	quiet()
	n := &connection{target: t, config: c, generation: 1}
	n.open()
	return n
}

func (c *connection) open() {
	c.client = redis.NewClient(&redis.Options{
		Addr:          c.target.Addr,
		Protocol:      c.config.Protocol,
		PoolSize:      1,
		MaxRetries:    -1, // a retry would be another operation
		DialerRetries: 1,
		DialTimeout:   c.config.Timeout,
		ReadTimeout:   c.config.Timeout,
		WriteTimeout:  c.config.Timeout,
		// Redis Enterprise's maintenance notifications could replace the connection.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	c.conn = c.client.Conn()
}

// renew replaces a connection that is lost, or whose next reply may belong to an earlier command.
func (c *connection) renew() {
	c.close()
	if c.hasReplied {
		c.generation++
		c.hasReplied = false
	}
	c.open()
}

func (c *connection) close() {
	// The operations have already reported everything that an error of Close could tell.
	_ = c.conn.Close()
	_ = c.client.Close()
}

// send executes a pipeline and reports whether the connection is still usable. Errors are in the commands.
func (c *connection) send(ctx context.Context, queue func(redis.Pipeliner)) bool {
	pipe := c.conn.Pipeline()
	queue(pipe)
	// Interrupting the round trip would needlessly make outcomes unknown: it ends within the timeout.
	cmds, err := pipe.Exec(context.WithoutCancel(ctx))
	if err != nil && !slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Err() != nil }) {
		// After READONLY and MOVED go-redis drops the connection and sends nothing, but marks no command as failed.
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
		return false
	}
	good := true
	for _, cmd := range cmds {
		if Answered(cmd.Err()) {
			c.hasReplied = true
		} else {
			good = false
		}
	}
	return good
}

func (c *connection) capturesVersions() bool {
	return c.config.CaptureVersions && !c.target.lacksCausal.Load()
}

// last is the reply to CAUSAL LAST: which version the previous operation on this connection wrote or read, and where
// from.
type last struct {
	version        causal.Version
	source, status string
}

// lastOf parses a reply to CAUSAL LAST.
func (c *connection) lastOf(cmd *redis.Cmd) (last, error) {
	err := cmd.Err()
	if unknownCommand(err) {
		c.target.lacksCausal.Store(true)
		return last{}, nil
	}
	parts, err := cmd.Slice()
	if err != nil {
		return last{}, err
	}
	var text [3]string
	for i := range min(len(parts), len(text)) {
		text[i], _ = parts[i].(string)
	}
	out := last{source: text[1], status: text[2]}
	if text[0] == "" {
		return out, nil
	}
	out.version, err = history.ParseVersion(text[0])
	if err != nil {
		return last{}, fmt.Errorf("parse the reply to CAUSAL LAST: %w", err)
	}
	return out, nil
}

// unknownCommand reports whether a server replied that it does not know the command.
func unknownCommand(err error) bool {
	if err == nil || !Answered(err) {
		return false
	}
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "unknown command") || strings.Contains(text, "unknown subcommand")
}

// knowsCausal reports whether the endpoint knows the command CAUSAL.
func (c *connection) knowsCausal(ctx context.Context) bool {
	return !c.target.lacksCausal.Load() && !unknownCommand(c.conn.Do(ctx, "CAUSAL", "STATUS").Err())
}

// drain waits until the writes of the session are complete, and reports whether they are. It asks in short steps, since
// the client gives up on replies that take longer than its timeout.
func (c *connection) drain(ctx context.Context, bound time.Duration) bool {
	step := min(bound, max(c.config.Timeout/2, time.Millisecond))
	for deadline := time.Now().Add(bound); ctx.Err() == nil && time.Now().Before(deadline); {
		began := time.Now()
		err := c.conn.Do(ctx, "CAUSAL", "WAIT", "all", step.Milliseconds()).Err()
		switch {
		case err == nil:
			return true
		case ErrorKind(err) != "TIMEOUT":
			return false
		}
		if !pause(ctx, step/10-time.Since(began)) {
			return false
		}
	}
	return false
}

// pause waits, and reports false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
