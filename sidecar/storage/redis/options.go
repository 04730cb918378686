package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/causalstore/causalstore/sidecar/connlimit"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// Options configure a store. Addr or Socket is required.
type Options struct {
	// Addr is host:port. Socket is the path of a unix socket, to be used instead.
	Addr, Socket string
	// Username and Password are those of an ACL user; both may be empty. The user needs access to all keys, and
	// +@read +@write +@transaction +@connection +info +config|get +wait.
	Username, Password string
	TLS                *tls.Config
	DB                 int

	// AllowUnsafe accepts, with a warning, a server whose settings allow it to lose or evict what it acknowledged. The
	// first crash of such a server may then break causal consistency.
	AllowUnsafe bool

	// WaitReplicas is the number of replicas that must have received a write before it counts as applied. Default 0.
	WaitReplicas int
	// WaitTimeout limits the wait for them. Default 1 s.
	WaitTimeout time.Duration

	// Timeout limits one request to the server. Apply makes at most two. Default 5 s.
	Timeout time.Duration
	// Connections is the maximum number of connections for reads. There is one more, for writes. Default 8.
	Connections int

	// Watermark is the path of a file, on a disk that outlives the process, that says up to where the store was
	// acknowledged. Without it, Open does not detect that the server has lost acknowledged writes while no store was
	// open.
	Watermark string
	// CheckOwner is called by Open with a store that has lost data, before it says so. An error of it is that of Open:
	// the store belongs to somebody else. It may be nil.
	CheckOwner func(storage.Store) error

	// Logger receives warnings. Default slog.Default().
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

// client returns the options that the clients for reads and for writes have in common. The driver does not retry: the
// store does.
func (o Options) client() *goredis.Options {
	c := &goredis.Options{
		Network:                  "tcp",
		Addr:                     o.Addr,
		Username:                 o.Username,
		Password:                 o.Password,
		DB:                       o.DB,
		TLSConfig:                o.TLS,
		Protocol:                 2, // without push messages, which are not used
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
	if o.TLS != nil {
		c.Dialer = o.dialTLS
	}
	return c
}

// dialTLS connects as the driver would, but bounds what the server sends in the handshake.
func (o Options) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	config := o.TLS.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(addr) // it could be dialed
	}
	return connlimit.Client(ctx, raw, config)
}

// driverLog logs the driver's messages at debug level: they repeat the errors that it returns.
type driverLog struct{}

func (driverLog) Printf(ctx context.Context, format string, v ...any) {
	slog.DebugContext(ctx, fmt.Sprintf(format, v...))
}

// The driver has one logger for the whole process. The default one writes to standard error.
func init() { goredis.SetLogger(driverLog{}) }
