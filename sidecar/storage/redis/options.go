package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Options say which server to use, and how.
type Options struct {
	// Addr is host:port; Socket is the path of a unix socket instead.
	Addr, Socket string
	// Username and Password are of an ACL user; both may be empty. The user needs all keys, and
	// +@read +@write +@transaction +@connection +info +config|get +wait.
	Username, Password string
	TLS                *tls.Config
	DB                 int

	// AllowUnsafe takes a server whose settings may lose or evict what it acknowledged, with a warning. Causal
	// consistency then ends with the first crash of the server.
	AllowUnsafe bool

	// WaitReplicas is how many replicas must have each write before it counts as applied. Default 0.
	WaitReplicas int
	// WaitTimeout bounds the wait for them. Default 1 s.
	WaitTimeout time.Duration

	// Timeout bounds one request to the server. Default 5 s; Apply makes at most two.
	Timeout time.Duration
	// Connections bounds the connections for reads; there is one more, for writes. Default 8.
	Connections int

	// OnRestart, if not nil, is called when the server is found to have restarted, failed over or lost data, before
	// anything that it holds since then is returned. It must not call the store.
	OnRestart func()
	// Logger gets warnings. Default slog.Default().
	Logger *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	switch {
	case (o.Addr == "") == (o.Socket == ""):
		return o, errors.New("give either Addr or Socket")
	case o.WaitReplicas < 0 || o.Connections < 0 || o.DB < 0 || o.Timeout < 0 || o.WaitTimeout < 0:
		return o, errors.New("DB, WaitReplicas, WaitTimeout, Timeout and Connections must not be negative")
	}
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	if o.WaitTimeout == 0 {
		o.WaitTimeout = time.Second
	}
	if o.WaitReplicas == 0 {
		o.WaitTimeout = 0
	}
	if o.Connections == 0 {
		o.Connections = 8
	}
	if o.OnRestart == nil {
		o.OnRestart = func() {}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o, nil
}

// server names the server in errors.
func (o Options) server() string {
	if o.Socket != "" {
		return "redis at " + o.Socket
	}
	return "redis at " + o.Addr
}

// client returns what the clients for reads and for writes have in common. Retries are left to the store.
func (o Options) client() *goredis.Options {
	c := &goredis.Options{
		Network:                  "tcp",
		Addr:                     o.Addr,
		Username:                 o.Username,
		Password:                 o.Password,
		DB:                       o.DB,
		TLSConfig:                o.TLS,
		Protocol:                 2, // no push messages are used, so none need to be looked for
		MaxRetries:               -1,
		DialTimeout:              o.Timeout,
		DialerRetries:            1,
		ReadTimeout:              o.Timeout + o.WaitTimeout,
		WriteTimeout:             o.Timeout,
		ContextTimeoutEnabled:    true,
		PoolSize:                 1,
		PipelinePoolSize:         -1, // pipelines share the pool
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if o.Socket != "" {
		c.Network, c.Addr = "unix", o.Socket
	}
	return c
}

// driverLog passes on what the driver logs, which is a repetition of the errors that it returns.
type driverLog struct{}

func (driverLog) Printf(ctx context.Context, format string, v ...any) {
	slog.DebugContext(ctx, fmt.Sprintf(format, v...))
}

// The driver has one logger for the whole process; its own writes to standard error.
func init() { goredis.SetLogger(driverLog{}) }
