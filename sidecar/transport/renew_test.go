package transport

import (
	"crypto/tls"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/causalstore/causalstore/authority"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/transport/wire"
	"github.com/causalstore/causalstore/topology"
)

// exchange sends messages both ways while f runs, and asserts that none was lost or reordered.
func exchange(t *testing.T, a, b *testProcess, from, to topology.Node,
	there, back func(from, to topology.Node, seq uint64) causal.Message, f func()) {
	t.Helper()
	stop, ended := make(chan struct{}), make(chan uint64)
	before := [2]int{len(b.all()), len(a.all())}
	go func() {
		n := uint64(0)
		for {
			select {
			case <-stop:
				ended <- n
				return
			default:
			}
			for range 20 {
				a.Send(there(from, to, n))
				b.Send(back(to, from, n))
				n++
			}
			for len(b.all())-before[0]+2000 < int(n) { // do not overflow the queues
				select {
				case <-stop:
					ended <- n
					return
				case <-b.changed:
				}
			}
		}
	}()
	defer func() {
		if t.Failed() {
			t.Logf("%d and %d arrived; %+v %+v\n%s\n%s", len(b.all()), len(a.all()), a.Stats(), b.Stats(), a.log, b.log)
		}
	}()
	f()
	close(stop)
	n := <-ended
	b.wait(t, before[0]+int(n))
	a.wait(t, before[1]+int(n))
	same(t, "there", b.seqs()[before[0]:], upTo(n))
	same(t, "back", a.seqs()[before[1]:], upTo(n))
	for _, p := range []*testProcess{a, b} {
		if s := p.Stats(); len(s.Drops) != 0 {
			t.Errorf("drops: %+v", s.Drops)
		}
	}
}

// allIssuedBy reports whether the peers of all links have certificates of an authority.
func allIssuedBy(p *testProcess, ca *authority.Authority) bool {
	p.GRPC.mu.RLock()
	defer p.GRPC.mu.RUnlock()
	for _, a := range p.accepted {
		if a.identity.chain[0].CheckSignatureFrom(ca.Certificate()) != nil {
			return false
		}
	}
	for _, d := range p.dialed {
		d.mu.Lock()
		id := d.identity
		d.mu.Unlock()
		if id == nil {
			return false
		}
		if id.chain[0].CheckSignatureFrom(ca.Certificate()) != nil {
			d.requestRenewal() // it notices by age that the peer has a new certificate
			return false
		}
	}
	return true
}

func renewOften(_ *Config, tm *timings) { tm.renewAfter = 2 * renewalPause }

func TestRenewalsLoseAndReorderNothing(t *testing.T) {
	ca := newAuthority(t, "eu")
	d := newDirectory()
	k := newKeys(t, idOf(sidecarA), ca)
	a := startWith(t, d, sidecarA, k)
	b := startWith(t, d, coordinatorA, newKeys(t, idOf(coordinatorA), ca))
	awaitServing(t, a, coordinatorA)
	a.Send(put(sidecarA, coordinatorA, 0))
	b.wait(t, 1)
	reply := func(from, to topology.Node, seq uint64) causal.Message {
		m := causal.PutReply{}.Message(from, to)
		m.Fields().Seq = seq
		return m
	}
	exchange(t, a, b, sidecarA, coordinatorA, put, reply, func() {
		for i := range uint64(20) {
			k.renew(t, ca)
			waitFor(t, "the link to be renewed", func() bool { return a.Stats().Opened > i+1 })
		}
	})
	if s := a.Stats(); s.Failed != 0 {
		t.Errorf("%d links have failed", s.Failed)
	}
	if n := len(b.Stats().Links); n != 1 {
		t.Errorf("%d links", n)
	}
}

func TestLinksAreRenewedByAge(t *testing.T) {
	ca := newAuthority(t, "eu")
	d := newDirectory()
	a := startWith(t, d, coordinatorA, newKeys(t, idOf(coordinatorA), ca), renewOften)
	b := startWith(t, d, middlemanB, newKeys(t, idOf(middlemanB), ca), renewOften)
	awaitServing(t, a, middlemanB)
	a.Send(numbered(coordinatorA, middlemanB, 0))
	b.wait(t, 1)
	waitFor(t, "the link to be renewed", func() bool { return a.Stats().Opened >= 2 })
	if s := a.Stats(); s.Failed != 0 {
		t.Errorf("%d links have failed", s.Failed)
	}
}

func TestTheAuthorityIsReplacedWithoutALostMessage(t *testing.T) {
	before, after := newAuthority(t, "eu"), newAuthority(t, "eu")
	d := newDirectory()
	ka, kb := newKeys(t, idOf(coordinatorA), before), newKeys(t, idOf(middlemanB), before)
	a, b := startWith(t, d, coordinatorA, ka), startWith(t, d, middlemanB, kb)
	both := []*keys{ka, kb}
	loaded := func(p *testProcess, n int) bool { return strings.Count(p.log.String(), "loaded new TLS files") >= n }
	awaitServing(t, a, middlemanB)
	awaitServing(t, b, coordinatorA)
	exchange(t, a, b, coordinatorA, middlemanB, numbered, answer, func() {
		waitFor(t, "the links", func() bool { return a.Stats().Opened >= 2 && b.Stats().Opened >= 2 })
		// Trust both authorities, renew the certificates, then trust only the new authority; each when all have the one
		// before.
		for _, k := range both {
			k.trust(t, before, after)
		}
		waitFor(t, "both to trust the new authority", func() bool { return loaded(a, 1) && loaded(b, 1) })
		opened := a.Stats().Opened
		for _, k := range both {
			k.renew(t, after)
		}
		waitFor(t, "the links to be renewed", func() bool {
			return allIssuedBy(a, after) && allIssuedBy(b, after) && a.Stats().Opened > opened
		})
		for _, k := range both {
			k.trust(t, after)
		}
		waitFor(t, "the old authority to be forgotten", func() bool { return loaded(a, 3) && loaded(b, 3) })
	})
	if s := a.Stats(); s.Failed != 0 {
		t.Errorf("the rotation broke a link: %s", a.log)
	}
	late := startWith(t, d, sidecarA, newKeys(t, idOf(sidecarA), before, after))
	late.Send(causal.Ping{}.Message(sidecarA, middlemanB))
	waitFor(t, "a certificate of the old authority to be refused", func() bool { return late.Stats().Failed > 1 })
}

// A link may come up after the new certificate was loaded, with that of before, which its handshake began with.
func TestALinkThatCameUpWithTheCertificateOfBeforeIsRenewed(t *testing.T) {
	ca := newAuthority(t, "eu")
	d := newDirectory()
	often := func(_ *Config, tm *timings) { tm.keysInterval = 5 * time.Millisecond }
	a := startWith(t, d, coordinatorA, newKeys(t, idOf(coordinatorA), ca), often)
	startWith(t, d, middlemanB, newKeys(t, idOf(middlemanB), ca))
	awaitServing(t, a, middlemanB)
	waitFor(t, "the link to have an old certificate", func() bool {
		a.GRPC.mu.RLock()
		defer a.GRPC.mu.RUnlock()
		for _, link := range a.dialed {
			link.mu.Lock()
			defer link.mu.Unlock()
			if link.up && link.identity != nil {
				link.identity.own = &tls.Certificate{}
				return true
			}
		}
		return false
	})
	waitFor(t, "the link to be renewed", func() bool { return a.Stats().Opened >= 2 })
}

func TestLinksEndWhenTheirAuthorityIsNoLongerTrusted(t *testing.T) {
	eu, us := newAuthority(t, "eu"), newAuthority(t, "us")
	d := newDirectory()
	ka, kb := newKeys(t, idOf(coordinatorA), eu), newKeys(t, idOf(middlemanB), eu)
	quickly := func(_ *Config, tm *timings) { tm.distrust = 50 * time.Millisecond }
	a, b := startWith(t, d, coordinatorA, ka, quickly), startWith(t, d, middlemanB, kb, quickly)
	awaitServing(t, a, middlemanB)
	a.Send(numbered(coordinatorA, middlemanB, 0))
	b.wait(t, 1)
	kb.trust(t, eu, us) // the trust domain of all data centers is another one now
	waitFor(t, "the link to end", func() bool {
		return len(b.Stats().Links) == 0 && violationCount(b, ViolationCertificate) > 0
	})
	if !strings.Contains(b.log.String(), "not trusted any more") {
		t.Errorf("the log does not say why:\n%s", b.log)
	}
}

func TestLinksEndWhenACertificateExpires(t *testing.T) {
	ca := newAuthority(t, "eu")
	d := newDirectory()
	k := newKeys(t, idOf(coordinatorA), ca)
	k.issue(t, ca, time.Now().Add(-authority.Backdate), authority.Backdate+4*time.Second)
	a := startWith(t, d, coordinatorA, k)
	b := startWith(t, d, middlemanB, newKeys(t, idOf(middlemanB), ca))
	awaitServing(t, a, middlemanB)
	a.Send(numbered(coordinatorA, middlemanB, 0))
	b.wait(t, 1)
	waitFor(t, "the link to end", func() bool { return len(b.Stats().Links) == 0 })
	waitFor(t, "the certificate to be refused", func() bool { return a.Stats().Failed > 1 })
}

// A stream that waits for earlier ones goes on waiting for them when a later one renews it: the two lists are apart.
func TestALaterStreamLeavesWhatAnEarlierOneWaitsFor(t *testing.T) {
	ca := newAuthority(t, "eu")
	g := startWith(t, newDirectory(), coordinatorA, newKeys(t, idOf(coordinatorA), ca)).GRPC
	stream := func(renews bool) *acceptor {
		return &acceptor{g: g, out: newOutbox(&g.counters, g.config.QueueBytes, new(atomic.Int64)),
			stop: make(chan struct{}), drained: make(chan struct{}), peer: &wire.Hello{Process: "p", Renews: renews}}
	}
	ended, open := make(chan struct{}), make(chan struct{})
	close(ended)
	earlier, later := stream(false), stream(true)
	earlier.predecessors = append(make([]<-chan struct{}, 0, 4), ended, open)
	for _, a := range []*acceptor{earlier, later} {
		if err := g.register(a); err != nil {
			t.Fatal(err)
		}
	}
	if p := earlier.predecessors; len(p) != 2 || p[0] != ended || p[1] != open {
		t.Errorf("the earlier stream waits for %v now", p)
	}
	if p := later.predecessors; len(p) != 2 || p[0] != open || p[1] != earlier.drained {
		t.Errorf("the later one waits for %v", p)
	}
}
