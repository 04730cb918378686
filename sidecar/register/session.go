package register

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/causalstore/causalstore/sidecar/connlimit"
)

const (
	// A server that has sent nothing for keepaliveAfter gets a ping, and has keepaliveTimeout to answer it. Servers of
	// etcd refuse pings that come more often than each 5 s.
	keepaliveAfter, keepaliveTimeout = 10 * time.Second, 3 * time.Second
	// verifyInterval is how often it is checked that the certificate of a connected server still counts.
	verifyInterval = 10 * time.Second
)

// session is one connection to one server, and everything that is sent on it.
//
// Invariant: it never has a second connection. So what is sent in it reaches the server, in the life, that has answered
// before.
type session struct {
	client *clientv3.Client
	// ctx ends with the connection; its cause says why.
	ctx context.Context
	end context.CancelCauseFunc
	// verify returns why the server is not trusted any more.
	verify func() error
}

var errEnded = errors.New("the connection has ended")

// newSession returns a session, which connects with the first request.
func (e *etcd) newSession(ctx context.Context, addr string) (*session, error) {
	s := &session{verify: func() error { return nil }}
	s.ctx, s.end = context.WithCancelCause(ctx)
	config := clientv3.Config{
		Endpoints: []string{addr}, Context: s.ctx, DialTimeout: connectTimeout,
		DialKeepAliveTime: keepaliveAfter, DialKeepAliveTimeout: keepaliveTimeout, PermitWithoutStream: true,
		// One attempt. The client would repeat a transaction if a server answers that it was canceled, although that
		// one may have applied.
		MaxUnaryRetries: 1,
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(s.dialer()), grpc.WithDisableRetry(),
			grpc.WithDisableServiceConfig(),
			grpc.WithChainUnaryInterceptor(failWithoutConnection)},
		Logger: zap.NewNop(), // what matters is logged here
	}
	var err error
	if config.TLS, err = e.tlsConfig(s); err == nil {
		config.Username, config.Password, err = e.user()
	}
	if config.TLS != nil {
		config.DialOptions = append(config.DialOptions,
			grpc.WithTransportCredentials(
				connlimit.DialingCredentials{TransportCredentials: credentials.NewTLS(config.TLS)}))
	}
	if config.TLS != nil && config.TLS.ServerName != "" {
		// else it is the host of the endpoint
		config.DialOptions = append(config.DialOptions, grpc.WithAuthority(config.TLS.ServerName))
	}
	if err == nil {
		s.client, err = clientv3.New(config)
	}
	if err != nil {
		s.end(err)
		return nil, err
	}
	return s, nil
}

// failWithoutConnection makes a request fail with the reason why there is no connection; the client would wait for one.
func failWithoutConnection(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return invoke(ctx, method, req, reply, conn, append(opts, grpc.WaitForReady(false))...)
}

// dialer returns a function that dials once.
func (s *session) dialer() func(context.Context, string) (net.Conn, error) {
	var used atomic.Bool
	return func(ctx context.Context, addr string) (net.Conn, error) {
		if used.Swap(true) {
			return nil, errEnded
		}
		c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		return &connection{c, s.end}, nil
	}
}

// connection ends its session when it is closed.
type connection struct {
	net.Conn
	end context.CancelCauseFunc
}

func (c *connection) Close() error {
	c.end(errEnded)
	return c.Conn.Close()
}

func (s *session) close() {
	s.end(errEnded)
	_ = s.client.Close() // it returns that its context is done
}

// runSession runs a session with a server until it ends, and returns why.
func (e *etcd) runSession(ctx context.Context, addr string, connected func()) error {
	s, err := e.newSession(ctx, addr)
	if err != nil {
		return err
	}
	defer s.close()
	watching, err := s.watch(ctx, e)
	if err != nil {
		return err
	}
	e.add(s)
	defer e.remove(s)
	connected()
	verify := time.NewTicker(verifyInterval)
	defer verify.Stop()
	for {
		select {
		case resp, ok := <-watching:
			switch {
			case !ok && s.ctx.Err() != nil:
				return context.Cause(s.ctx)
			case !ok:
				return errEnded
			case resp.Err() != nil:
				// it has lost its leader, or what was missed is compacted: the next session watches from then on
				return resp.Err()
			}
			for _, event := range resp.Events {
				e.notify(string(event.Kv.Key))
			}
		case <-verify.C:
			if err := s.verify(); err != nil {
				return err
			}
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
	}
}

// watch connects, and watches all keys from now on. ctx is not that of the session, which may end before the reason is
// known.
func (s *session) watch(ctx context.Context, e *etcd) (clientv3.WatchChan, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if _, err := s.client.Get(ctx, e.idKey(), clientv3.WithSerializable()); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	watching := s.client.Watch(clientv3.WithRequireLeader(s.ctx), e.base, clientv3.WithPrefix(),
		clientv3.WithCreatedNotify())
	select {
	case resp, ok := <-watching:
		switch {
		case !ok:
			return nil, fmt.Errorf("watch: %w", errEnded)
		case resp.Err() != nil:
			return nil, fmt.Errorf("watch: %w", resp.Err())
		}
		return watching, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("watch: %w", ctx.Err())
	}
}

// user returns the user of etcd, if there is one.
func (e *etcd) user() (name, password string, err error) {
	if e.o.Etcd.UsernameFile == "" {
		return "", "", nil
	}
	if name, err = readLine(e.o.Etcd.UsernameFile); err == nil {
		password, err = readLine(e.o.Etcd.PasswordFile)
	}
	return name, password, err
}

// readLine returns the content of a file without the line end that editors add.
func readLine(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read the user of etcd: %w", err)
	}
	return string(bytes.TrimRight(b, "\r\n")), nil
}
