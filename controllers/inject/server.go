package inject

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/causalstore/causalstore/sidecar/connlimit"
)

// The bounds of the webhook's port. The API server keeps a few connections; who else reaches the port has no
// certificate to show.
const (
	webhookConnections = 256
	webhookHandshake   = 5 * time.Second
	webhookRequest     = 30 * time.Second // the API server waits for less
	webhookIdle        = 90 * time.Second
	webhookHeaderBytes = 16 << 10
	webhookStreams     = 32        // of a connection
	webhookReceived    = 128 << 10 // of a connection, that no handler has read
	webhookShutdown    = time.Minute
)

// Server is the webhook's server. It differs from that of controller-runtime by its bounds, for connections, handshakes
// and requests.
type Server struct {
	webhook.Server // which registers handlers
	port           int
	certificate    *ServingCertificate
	started        atomic.Bool
}

// NewServer returns a server that listens at a port.
func NewServer(port int, certificate *ServingCertificate) *Server {
	return &Server{Server: webhook.NewServer(webhook.Options{}), port: port, certificate: certificate}
}

// Start implements webhook.Server.
func (s *Server) Start(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf(":%d", s.port))
	if err != nil {
		return fmt.Errorf("serve the webhook: %w", err)
	}
	return s.serve(ctx, l)
}

func (s *Server) serve(ctx context.Context, l net.Listener) error {
	l = connlimit.NewCounter(webhookConnections, nil).Count(l)
	handshakes := connlimit.NewCounter(connlimit.HandshakesFor(debug.SetMemoryLimit(-1)), nil)
	l = handshakes.Secure(l, &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"},
		GetCertificate: s.certificate.Certificate}, webhookHandshake)
	server := &http.Server{Handler: newBodyRoom().limit(s.WebhookMux()),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: webhookRequest, ReadTimeout: webhookRequest, WriteTimeout: 2 * webhookRequest,
		IdleTimeout: webhookIdle, MaxHeaderBytes: webhookHeaderBytes,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: webhookStreams,
			MaxReceiveBufferPerConnection: webhookReceived, MaxReceiveBufferPerStream: webhookReceived / 2}}
	ended := make(chan error, 1)
	go func() {
		<-ctx.Done()
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), webhookShutdown)
		defer cancel()
		ended <- server.Shutdown(limit)
	}()
	s.started.Store(true)
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the webhook: %w", err)
	}
	return <-ended
}

// StartedChecker implements webhook.Server.
func (s *Server) StartedChecker() healthz.Checker {
	return func(*http.Request) error {
		if !s.started.Load() {
			return errors.New("the webhook's server has not been started yet")
		}
		return nil
	}
}
