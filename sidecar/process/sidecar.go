package process

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/front"
	"github.com/causalstore/causalstore/sidecar/front/resp"
	"github.com/causalstore/causalstore/sidecar/metrics"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/token"
	"github.com/causalstore/causalstore/topology"
)

type sidecarPart struct {
	s      *node.Sidecar
	server *resp.Server
	// certificates are those for clients with TLS, or nil.
	certificates *front.Certificates
	heard        atomic.Bool
}

func (p *process) startSidecar() (part, error) {
	set := p.o.Settings
	s := node.NewSidecar(node.SidecarOptions{Config: sidecarConfig(set, p.self), Clock: p.clock, Net: p.net,
		Scope: set.Scope, PerConnection: set.Config.Session.PerConnection, Tokens: p.tokenSealer()})
	commands := metrics.NewCommands()
	server, err := resp.NewServer(resp.Options{Backend: s, Logger: p.log, Metrics: commands,
		Limits: redisLimits(set.Config.Limits.Redis), Users: set.users})
	if err != nil {
		return nil, err
	}
	part := &sidecarPart{s: s, server: server}
	if err := p.listenForClients(part); err != nil {
		return nil, err
	}
	p.metrics.MustRegister(metrics.Sidecar(func() *node.Sidecar { return s }), commands)
	return part, nil
}

// tokenSealer returns what authenticates session tokens: the certificate of this sidecar, if it has one; or a key that
// it shares with other sidecars, or has for itself.
func (p *process) tokenSealer() token.Sealer {
	set := p.o.Settings
	switch {
	case set.Config.TLS != nil:
		if set.ignoresTokenKey {
			p.log.Warn(
				"tokenKeyFile is ignored: with tls, session tokens are signed with the certificate; " +
					"remove tokenKeyFile")
		}
		return token.NewCertified(p.net.Credentials, time.Now)
	case set.tokenKey != "":
		return token.NewKeyed([]byte(set.tokenKey))
	}
	p.log.Warn(
		"neither tls nor tokenKeyFile is configured; session tokens are valid only at this sidecar, until it restarts")
	return token.NewRandom()
}

// listenForClients listens for Redis clients, without TLS, with TLS, or both.
func (p *process) listenForClients(s *sidecarPart) error {
	c := &p.o.Settings.Config
	if c.RedisTLS != nil {
		s.certificates = front.NewCertificates(front.TLSFiles{Field: "redisTLS", Cert: c.RedisTLS.Cert,
			Key: c.RedisTLS.Key, ClientCA: c.RedisTLS.ClientCA}, p.log)
	}
	plain, err := listenAt("listen.redis", c.Listen.Redis)
	if err != nil {
		return err
	}
	secure, err := listenAt("listen.redisTLS", c.Listen.RedisTLS)
	if err != nil {
		return err // the process ends
	}
	serve := func(l net.Listener, serve func() error) {
		if l != nil {
			p.serving.Go(func() {
				if err := serve(); !errors.Is(err, front.ErrServerClosed) {
					p.fail(err)
				}
			})
		}
	}
	serve(plain, func() error { return s.server.Serve(plain) })
	serve(secure, func() error { return s.server.ServeTLS(secure, s.certificates) })
	return nil
}

// listenAt listens at an address, if there is one.
func listenAt(field, address string) (net.Listener, error) {
	if address == "" || address == contract.ListenNone {
		return nil, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return l, nil
}

func sidecarConfig(set *Settings, self topology.Node) session.Config {
	c := session.DefaultConfig(set.Topology, self)
	c.Binding, c.UseCache, c.Level = set.Binding, *set.Config.Cache, set.Level
	if d := set.Config.Session.ReadTimeout; d > 0 {
		c.ReadTimeout = time.Duration(d)
	}
	if d := set.Config.Session.WriteTimeout; d > 0 {
		c.PutTimeout = time.Duration(d)
	}
	if b := clientBytes(set.Config.Limits.Redis); b > 0 {
		c.MaxMGetBytes, c.MaxAheadBytes = int(b)/2, int(b)/4
	}
	if b := set.Config.Limits.OwnBytes; b > 0 {
		c.MaxOwnBytes = int(b)
	}
	c.MaxNearBytes = int(*set.Config.NearCopies.MaxBytes)
	c.Broken = brokenRules()
	return c
}

// clientBytes returns the bound of the memory of all clients: what is configured, or two fifths of the memory limit of
// the Go runtime; 0: the default.
func clientBytes(l contract.RedisLimits) contract.Bytes {
	if limit := debug.SetMemoryLimit(-1); l.ClientBytes == 0 && limit < math.MaxInt64 {
		return contract.Bytes(limit / 5 * 2)
	}
	return l.ClientBytes
}

func redisLimits(l contract.RedisLimits) resp.Limits {
	return resp.Limits{
		Limits: front.Limits{MaxKeyBytes: int(l.KeyBytes), MaxValueBytes: int(l.ValueBytes),
			MaxClientBytes: int(clientBytes(l)), MaxClients: l.Clients,
			WriteTimeout: time.Duration(l.WriteTimeout)},
		MaxArgs: l.Arguments, MaxCommandBytes: int(l.CommandBytes), MaxInlineBytes: int(l.InlineBytes),
		MaxPipelineBytes: int(l.PipelineBytes),
		MaxMGetKeys:      l.MGetKeys,
	}
}

func (s *sidecarPart) setTopology(t *topology.Topology) error {
	s.s.SetTopology(t)
	return nil
}

func (s *sidecarPart) host() node.Host               { return s.s }
func (s *sidecarPart) handle(batch []causal.Message) { s.s.Handle(batch) }
func (s *sidecarPart) memberUp(topology.Node)        {}
func (s *sidecarPart) linkDown(n topology.Node)      { s.s.LinkDown(n) }
func (s *sidecarPart) linkEnded(n topology.Node)     { s.s.LinkEnded(n) }
func (s *sidecarPart) linkUp(n topology.Node, l causal.Leadership) {
	s.s.LinkUp(n, l)
}
func (s *sidecarPart) unsent(put causal.Message) { s.s.Unsent(put) }

// ready requires a certificate if clients use TLS. The process starts without: on Kubernetes the coordinator beside it
// is to run even if the Secret is missing, and the certificate is used as soon as it exists.
//
// It also requires that stability vectors were received once: before, no write is known to be in every ring, and the
// coordinator of the data center may be unreachable. Later, if that coordinator is lost, the sidecar still reads, and
// writes through another data center.
func (s *sidecarPart) ready() error {
	if s.certificates != nil {
		if err := s.certificates.Ready(); err != nil {
			return err
		}
	}
	if s.heard.Load() {
		return nil
	}
	var sv causal.HLC
	s.s.Inspect(func(m *session.Sidecar) { sv = m.Stability().MaxSV() })
	if sv == 0 {
		return errors.New("has received no stability vectors from its data center's first coordinator yet")
	}
	s.heard.Store(true)
	return nil
}

// drain waits until clients have the answers to their requests.
func (s *sidecarPart) drain(ctx context.Context) (answered bool, err error) {
	err = s.server.Shutdown(ctx)
	s.s.Close()
	if err != nil && ctx.Err() == nil {
		return false, err
	}
	return false, nil // connections that remained were cut, which clients must expect at any time
}

func (s *sidecarPart) close() error { return nil }
