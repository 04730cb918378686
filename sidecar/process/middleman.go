package process

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/metrics"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/storage/embedded"
	"github.com/causalstore/causalstore/sidecar/storage/redis"
	"github.com/causalstore/causalstore/sidecar/topology"
)

type middleman struct {
	m     *node.Middleman
	store storage.Store

	mu    sync.Mutex
	sick  error         // why the storage cannot be used now
	done  chan struct{} // ends the looks at the storage
	ended chan struct{}
}

func (p *process) startMiddleman(ctx context.Context) (part, error) {
	store, err := awaitStore(ctx, p.o.Settings, p.log, p.health.waitFor)
	if err != nil {
		return nil, err
	}
	if err := identityOf(p.topo(), p.self).claimStore(ctx, store); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	config := causal.DefaultMiddlemanConfig(p.topo(), p.self)
	if b := p.o.Settings.Config.Limits.HistoryBytes; b > 0 {
		config.MaxHistoryBytes = int(b)
	}
	n, err := node.NewMiddleman(ctx, node.MiddlemanOptions{
		Config: config, Clock: p.clock, Net: p.net, Store: store, InlineReads: p.o.Settings.Config.Storage.Engine == "embedded", Logger: p.log, Fail: p.fail})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	p.metrics.MustRegister(metrics.Middleman(func() *node.Middleman { return n }))
	m := &middleman{m: n, store: store, done: make(chan struct{}), ended: make(chan struct{})}
	go m.look(p.fail)
	return m, nil
}

const (
	// openAgain is the pause before another attempt to open a storage that is not there yet.
	openAgain = 500 * time.Millisecond
	// lookEvery is how often the storage is pinged, and lookTimeout how long it may take to answer.
	lookEvery   = time.Second
	lookTimeout = 2 * time.Second
)

// awaitStore opens the storage. A server that cannot be reached yet, as when both start together, is waited for.
func awaitStore(ctx context.Context, set *Settings, log *slog.Logger, waiting func(error)) (storage.Store, error) {
	last := ""
	for {
		s, err := openStore(ctx, set, log)
		if err == nil || !transient(err) {
			return s, err
		}
		waiting(err)
		if last != err.Error() {
			last = err.Error()
			log.Warn("waiting for the storage", "error", err)
		}
		select {
		case <-time.After(openAgain):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// transient reports whether a store may come up by itself.
func transient(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || strings.Contains(err.Error(), "loading")
}

func openStore(ctx context.Context, set *Settings, log *slog.Logger) (storage.Store, error) {
	c := set.Config.Storage
	if c.Engine == "embedded" {
		s, err := embedded.Open(c.Embedded.Dir, embedded.Options{CacheBytes: int64(c.Embedded.CacheBytes), Logger: log})
		if err != nil {
			return nil, err // not s: a nil *Store is no nil Store
		}
		return s, nil
	}
	o := redis.Options{
		Addr: c.Redis.Address, Socket: c.Redis.Socket, Username: c.Redis.Username, Password: set.storagePassword, DB: c.Redis.Database,
		AllowUnsafe: c.Redis.AllowUnsafe, WaitReplicas: c.Redis.WaitReplicas, Logger: log,
	}
	var err error
	if c.Redis.TLS != nil {
		if o.TLS, err = storageTLS(c.Redis.TLS); err != nil {
			return nil, fmt.Errorf("storage.redis.tls: %w", err)
		}
	}
	s, err := redis.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func storageTLS(files *TLS) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: files.ServerName}
	if files.CA != "" {
		pem, err := os.ReadFile(files.CA)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate in PEM", files.CA)
		}
	}
	if files.Cert != "" {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
			return &pair, err
		}
		if _, err := c.GetClientCertificate(nil); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// look pings the storage until close. Once another middleman has taken it over, this one is of no use any more.
func (m *middleman) look(fail func(error)) {
	defer close(m.ended)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-m.done:
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
		err := m.store.Ping(ctx)
		cancel()
		if errors.Is(err, storage.ErrRestarted) { // said once, to whoever asks first; it is back
			err = nil
		}
		m.mu.Lock()
		m.sick = err
		m.mu.Unlock()
		if errors.Is(err, storage.ErrFenced) {
			fail(err)
		}
	}
}

// setTopology also leaves the epoch in the store: no later start may go by an older one.
func (m *middleman) setTopology(t *topology.Topology) error {
	if err := m.m.SetTopology(t); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	return identityOf(t, m.m.ID).claimStore(ctx, m.store)
}

func (m *middleman) host() *node.Host              { return m.m.Host }
func (m *middleman) handle(batch []causal.Message) { m.m.Handle(batch) }
func (m *middleman) linkDown(topology.Node)        {}
func (m *middleman) linkUp(topology.Node)          {}
func (m *middleman) unreached(topology.Node)       {}

func (m *middleman) ready() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sick != nil {
		return fmt.Errorf("storage does not answer: %w", m.sick)
	}
	return nil
}

// drain stops at once: what is not acknowledged will be sent again to the next start.
func (m *middleman) drain(context.Context) error {
	m.m.Close()
	close(m.done)
	<-m.ended
	return nil
}

func (m *middleman) close() error { return m.store.Close() }
