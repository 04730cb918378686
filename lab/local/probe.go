package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/causalstore/causalstore/console"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/front"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/token"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/sidecar/value"
	"github.com/causalstore/causalstore/topology"
)

// probes are sidecars of the page, one in each data center: it reads and writes as a client does, and binds no session
// of others. They start with the first use.
type probes struct {
	mu       sync.Mutex
	sidecars []*node.Sidecar // by data center
	busy     []bool          // by data center: a read that has not returned yet
}

// pageClients are sessions of the page in the sidecars that clients use, the first one of each data center, from the
// first use until the end: what such a session has read binds it as it binds a client, and it is listed.
type pageClients struct {
	mu       sync.Mutex // of sessions and busy
	sessions map[topology.DC]front.Session
	busy     map[topology.DC]bool // a read that has not returned yet
}

// unreadIn returns what is shown of a data center where nothing was read, and why.
func (d *Deployment) unreadIn(dc topology.DC, why string) console.KeyReading {
	return console.KeyReading{DataCenter: d.topo.DCs[dc].Name, Rings: []string{}, Unknown: why}
}

// readAsClient reads a key as a client of a data center does, in a session that stays.
func (d *Deployment) readAsClient(ctx context.Context, dc topology.DC, key string) console.KeyReading {
	unknown := func(why string) console.KeyReading { return d.unreadIn(dc, why) }
	is, err := d.takePageClient(dc)
	if err != nil {
		return unknown(err.Error())
	}
	done := make(chan console.KeyReading, 1)
	go func() {
		r := d.readIn(context.WithoutCancel(ctx), is, dc, key) // has a timeout of its own
		d.releasePageClient(dc)
		done <- r
	}()
	select {
	case r := <-done:
		return r
	case <-time.After(readWithin):
		return unknown(noAnswer())
	}
}

func (d *Deployment) takePageClient(dc topology.DC) (front.Session, error) {
	c := &d.pageClients
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy[dc] {
		return nil, errors.New("an earlier read has not been answered yet")
	}
	if c.sessions[dc] == nil {
		is, err := d.frontsOf(dc)[0].sidecar.NewSession()
		if err != nil {
			return nil, err
		}
		if d.o.Scope == node.ScopeDataCenter {
			// At its own level it would read what other data centers have written only when that is complete, and never
			// be bound by it, which is what the page shows.
			if err := is.SetLevel(causal.Latest); err != nil {
				return nil, err
			}
		}
		if c.sessions == nil {
			c.sessions, c.busy = map[topology.DC]front.Session{}, map[topology.DC]bool{}
		}
		c.sessions[dc] = is
	}
	c.busy[dc] = true
	return c.sessions[dc], nil
}

func (d *Deployment) releasePageClient(dc topology.DC) {
	d.pageClients.mu.Lock()
	defer d.pageClients.mu.Unlock()
	d.pageClients.busy[dc] = false
}

// sidecar returns the probe of a data center.
func (d *Deployment) probe(dc topology.DC) (*node.Sidecar, error) {
	p := &d.probes
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.sidecars); i < len(d.topo.DCs); i++ {
		s, err := d.startProbe(topology.DC(i))
		if err != nil {
			return nil, err
		}
		p.sidecars, p.busy = append(p.sidecars, s), append(p.busy, false)
	}
	return p.sidecars[dc], nil
}

func (d *Deployment) startProbe(dc topology.DC) (*node.Sidecar, error) {
	cfg, scope := d.sessionConfig(dc), node.ScopeConnection
	if d.o.Scope == node.ScopeDataCenter {
		scope = d.o.Scope // so that the home of a key is asked, as clients ask it
	}
	s := node.NewSidecar(node.SidecarOptions{Config: cfg, Clock: d.clock, Net: d.net, Scope: scope,
		PerConnection: true, Tokens: token.NewKeyed(d.o.TokenKey)})
	if err := d.net.Register(s.ID(), d.observer.sidecar(s.Handle)); err != nil {
		return nil, fmt.Errorf("start the sidecar of the page in %s: %w", d.topo.DCs[dc].Name, err)
	}
	d.net.Watch(transport.Watcher{Up: s.LinkUp, Down: s.LinkDown, Node: s.ID(), Unsent: s.Unsent})
	d.ticker.Add(s)
	return s, nil
}

// sessionConfig returns the configuration of a sidecar in a data center.
func (d *Deployment) sessionConfig(dc topology.DC) session.Config {
	cfg := session.DefaultConfig(d.current.Load(),
		topology.Node{DC: dc, Part: topology.Sidecar, Index: node.NewSidecarIndex()})
	cfg.Binding, cfg.UseCache, cfg.Level = d.o.Binding, d.o.Cache, d.o.Level
	cfg.MaxNearBytes = d.o.NearBytes
	if d.o.Tune.Sidecar != nil {
		d.o.Tune.Sidecar(&cfg)
	}
	return cfg
}

func (d *Deployment) closeProbes() {
	d.probes.mu.Lock()
	defer d.probes.mu.Unlock()
	for _, s := range d.probes.sidecars {
		s.Close()
	}
}

// write writes a value as a new session in a data center, and traces it.
func (d *Deployment) write(ctx context.Context, dc topology.DC, key, value string) (id uint64, err error) {
	s, err := d.probe(dc)
	if err != nil {
		return 0, err
	}
	is, err := s.NewSession()
	if err != nil {
		return 0, err
	}
	id = d.observer.tracer.begin(dc, key)
	// The session stays until the write is complete, since only then is it told.
	go func() {
		defer is.Close()
		if err := is.Put(ctx, key, causal.Value{Data: []byte(value)}); err != nil {
			d.observer.tracer.failed(id, err)
			return
		}
		d.observer.tracer.accepted(id, is.Last().Version)
		_, _ = is.AwaitWrites(ctx, front.AllRings, traceTimeout) // the trace says how it went
	}()
	return id, nil
}

// traceTimeout is how long a traced write is followed.
const traceTimeout = 10 * time.Minute

// readWithin is how long the page waits for the reads of a key.
const readWithin = 1500 * time.Millisecond

func noAnswer() string { return fmt.Sprintf("no answer within %.1f s", readWithin.Seconds()) }

// view returns where a key is, and what a new session in each data center reads.
func (d *Deployment) view(ctx context.Context, key string) (console.KeyView, error) {
	if _, err := d.probe(0); err != nil {
		return console.KeyView{}, err
	}
	slot := topology.SlotOf(key)
	v := console.KeyView{Key: key, Slot: uint16(slot), AtMs: time.Now().UnixMilli()}
	var mu sync.Mutex // guards v.Readers from reads that come late
	readers := make([]console.KeyReading, len(d.topo.DCs))
	var reads sync.WaitGroup
	for i := range d.topo.DCs {
		readers[i] = d.unreadIn(topology.DC(i), noAnswer())
		if !d.takeProbe(topology.DC(i)) {
			readers[i].Unknown = "an earlier read has not been answered yet"
			continue
		}
		reads.Go(func() {
			defer d.releaseProbe(topology.DC(i))
			r := d.read(context.WithoutCancel(ctx), topology.DC(i), key) // has a timeout of its own
			mu.Lock()
			defer mu.Unlock()
			readers[i] = r
		})
	}
	answered := make(chan struct{})
	go func() { reads.Wait(); close(answered) }()
	for r := range d.topo.Rings {
		v.Rings = append(v.Rings, d.stored(ctx, topology.RingID(r), slot, key))
	}
	select {
	case <-answered:
	case <-time.After(readWithin):
	case <-ctx.Done():
		return v, ctx.Err()
	}
	mu.Lock()
	defer mu.Unlock()
	v.Readers = slices.Clone(readers)
	return v, nil
}

func (d *Deployment) takeProbe(dc topology.DC) bool {
	d.probes.mu.Lock()
	defer d.probes.mu.Unlock()
	taken := d.probes.busy[dc]
	d.probes.busy[dc] = true
	return !taken
}

func (d *Deployment) releaseProbe(dc topology.DC) {
	d.probes.mu.Lock()
	defer d.probes.mu.Unlock()
	d.probes.busy[dc] = false
}

// read reads a key as a new session.
func (d *Deployment) read(ctx context.Context, dc topology.DC, key string) console.KeyReading {
	s, err := d.probe(dc)
	if err != nil {
		return d.unreadIn(dc, err.Error())
	}
	is, err := s.NewSession()
	if err != nil {
		return d.unreadIn(dc, err.Error())
	}
	defer is.Close()
	return d.readIn(ctx, is, dc, key)
}

// readIn reads a key in a session.
func (d *Deployment) readIn(ctx context.Context, is front.Session, dc topology.DC, key string) console.KeyReading {
	r := d.unreadIn(dc, "")
	began := time.Now()
	value, err := is.Get(ctx, key)
	r.TookMs = float64(time.Since(began).Microseconds()) / 1e3
	if err != nil {
		r.Unknown = err.Error()
		return r
	}
	r.Value, r.Deleted = preview(value)
	last := is.Last()
	if last.Version.Written() {
		r.Version = versionText(last.Version)
	}
	r.Source, r.Stable = last.Source, last.Status == causal.Stable
	r.Rings = append(r.Rings, is.Status().Rings...)
	return r
}

// stored returns what the owner of a key in a ring has stored.
func (d *Deployment) stored(ctx context.Context, ring topology.RingID, slot topology.Slot,
	key string) console.KeyInRing {
	owner := d.topo.Owner(ring, slot)
	k := console.KeyInRing{Ring: d.topo.Rings[ring].Name, DataCenter: d.topo.DCs[owner.DC].Name, Shard: owner.Index}
	store, state := d.storeOf(owner)
	if store == nil {
		k.Unknown = "the shard is " + string(state)
		if state == console.PartHung {
			k.Unknown = "the shard hangs"
		}
		return k
	}
	rec, found, err := store.Get(ctx, key)
	switch {
	case err != nil:
		k.Unknown = err.Error()
	case found && rec.Version.Written():
		k.Version, k.AgeMs = versionText(rec.Version), max(time.Now().UnixMilli()-rec.Version.HLC.WallMs(), 0)
		k.Value, k.Deleted = preview(rec.Value)
	}
	return k
}

// storeOf returns the storage of the member of a shard that serves; if none does, nil and what its members are doing.
func (d *Deployment) storeOf(n topology.Node) (storage.Store, console.PartState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	state := console.PartDown
	for _, m := range d.topo.MembersOf(n) {
		p := d.parts[m]
		if is := p.state(); is == console.PartServing {
			return p.store, is
		} else if is != console.PartDown {
			state = is
		}
	}
	return nil, state
}

// maxPreview bounds what is shown of a value, in bytes.
const maxPreview = 64

// preview returns the beginning of a value as text.
func preview(v causal.Value) (text string, deleted bool) {
	if !value.Exists(v) {
		return "", true
	}
	if v = value.TextOf(v); v.Merges() {
		return previewCollection(v), false
	}
	b, more := v.Data, ""
	if len(b) > maxPreview {
		b, more = b[:maxPreview], "…"
		for n := 0; n < utf8.UTFMax-1 && !utf8.Valid(b); n++ { // perhaps within a letter
			b = b[:len(b)-1]
		}
	}
	if !utf8.Valid(b) {
		return strconv.QuoteToASCII(string(v.Data[:min(len(v.Data), maxPreview)])) + more, false
	}
	return string(b) + more, false
}

// previewCollection says what a collection is.
func previewCollection(v causal.Value) string {
	h := value.CollectionOf(v)
	switch value.KindOf(v) {
	case value.Set:
		return fmt.Sprintf("set of %d members", h.Len())
	case value.SortedSet:
		return fmt.Sprintf("sorted set of %d members", h.Len())
	case value.HyperLogLog:
		return "HyperLogLog"
	case value.List:
		return fmt.Sprintf("list of %d elements", h.Len())
	case value.Stream:
		return fmt.Sprintf("stream of %d entries", len(value.StreamOf(&h).Entries))
	}
	return fmt.Sprintf("hash of %d fields", h.Len())
}
