package register

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/causalstore/causalstore/sidecar/retry"
)

const (
	// connectTimeout bounds the time until a server has answered on a new connection.
	connectTimeout = 2 * time.Second
	// reconnectMin and reconnectMax bound the waits between connections to one server.
	reconnectMin, reconnectMax = 50 * time.Millisecond, time.Second
	// logInterval is how often requests that fail are logged.
	logInterval = 10 * time.Second
)

// etcd is a register in etcd. It keeps one session with each server: a read goes to all of them, and the first answer
// counts, so that a server which hangs or has lost its quorum delays nothing.
type etcd struct {
	o      Options
	base   string // of all keys, with a slash at the end
	cancel context.CancelFunc
	loops  sync.WaitGroup
	failed rate.Sometimes // logs a request that has failed

	mu       sync.Mutex
	sessions []*session // in which requests can be sent
	keys     []*etcdKey
}

func openEtcd(o Options) (*etcd, error) {
	prefix := o.Etcd.Prefix
	if prefix == "" {
		prefix = DefaultPrefix
	}
	store := ""
	if o.Credentials != nil {
		_, trust := o.Credentials()
		store = trust.StoreID()
	}
	ctx, cancel := context.WithCancel(context.Background())
	e := &etcd{o: o, base: path.Join(prefix, store, o.DataCenter) + "/", cancel: cancel,
		failed: rate.Sometimes{Interval: logInterval}}
	for _, addr := range o.Etcd.Endpoints {
		e.loops.Go(func() { e.keepSession(ctx, addr) })
	}
	return e, nil
}

// Close implements Register.
func (e *etcd) Close() error {
	e.cancel()
	e.loops.Wait()
	return nil
}

// idKey is where the random id of the cluster is.
func (e *etcd) idKey() string { return e.base + "cluster-id" }

// keepSession keeps a session with a server until ctx is done.
func (e *etcd) keepSession(ctx context.Context, addr string) {
	backoff := retry.Backoff{First: reconnectMin, Max: reconnectMax}
	var before string
	for ctx.Err() == nil {
		err := e.runSession(ctx, addr, func() {
			backoff.Reset()
			before = ""
			e.o.Log.Info("connected to a server of the register", "endpoint", addr)
		})
		if ctx.Err() != nil {
			return
		}
		if reason := err.Error(); reason != before { // it is logged once
			before = reason
			e.o.Log.Warn("no connection to a server of the register; trying again", "endpoint", addr, "error", err)
		}
		select {
		case <-time.After(backoff.Next()):
		case <-ctx.Done():
		}
	}
}

// add makes a session one in which requests are sent. Until now changes may have been missed.
func (e *etcd) add(s *session) {
	e.mu.Lock()
	e.sessions = append(e.sessions, s)
	e.mu.Unlock()
	e.o.Metrics.Connected()
	e.notify("")
}

func (e *etcd) remove(s *session) {
	e.mu.Lock()
	e.sessions = slices.DeleteFunc(e.sessions, func(other *session) bool { return other == s })
	e.mu.Unlock()
	e.o.Metrics.Disconnected()
}

// connected returns the sessions in which requests can be sent.
func (e *etcd) connected() []*session {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.sessions)
}

// notify says that a key has changed; "": any may have.
func (e *etcd) notify(name string) {
	e.mu.Lock()
	keys := slices.Clone(e.keys)
	e.mu.Unlock()
	for _, k := range keys {
		if name == "" || k.name == name {
			k.changed()
		}
	}
}

// Key implements Register.
func (e *etcd) Key(name string, changed func()) Key {
	k := &etcdKey{etcd: e, name: e.base + name, changed: changed}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.keys = append(e.keys, k)
	return k
}

// Close implements Key.
func (k *etcdKey) Close() {
	k.etcd.mu.Lock()
	defer k.etcd.mu.Unlock()
	k.etcd.keys = slices.DeleteFunc(k.etcd.keys, func(other *etcdKey) bool { return other == k })
}

// servers names the servers, for errors.
func (e *etcd) servers() string {
	return fmt.Sprintf("etcd at %s", strings.Join(e.o.Etcd.Endpoints, ", "))
}
