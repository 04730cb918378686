package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/causalstore/causalstore/sidecar/identity"
	"github.com/causalstore/causalstore/topology"
)

// TLS looks at certificates only when a connection is made, and streams live long. So the dialer renews each link from
// time to time: it opens a second connection with a stream, and when the peer has answered sends nothing more on the
// first one. The peer sends what it had queued for the first one there, and ends it once it has handled everything.
// Both sides handle nothing of the second stream before that. So a renewal neither loses nor reorders a message. If the
// second connection cannot be made, the first one stays in use.

// checkIdentity returns why the peer that has answered is not the node that this address is for.
func (d *dialer) checkIdentity(p *peerIdentity) error {
	n, ok := identity.NodeOf(p.Identity, d.g.config.Topology())
	for m := range uint8(topology.MaxMembers + 1) { // members share the identity of their node
		if addr, known := d.g.config.Resolve(n.WithMember(m)); ok && known && addr == d.addr {
			return nil
		}
	}
	return fmt.Errorf("%s answers at %s, which is not its address", p.Identity, d.addr)
}

// requestRenewal makes the dialer renew its link soon.
func (d *dialer) requestRenewal() {
	select {
	case d.renew <- struct{}{}:
	default:
	}
}

// renewalPause is the wait after a renewal that has failed.
const renewalPause = time.Second

// renewWhenDue waits until a stream is to be renewed, and returns the next one. It returns nil if ctx ends before.
func (d *dialer) renewWhenDue(ctx context.Context, s *dialedStream) *dialedStream {
	due := time.NewTimer(math.MaxInt64) // without TLS, only when requested
	if s.identity != nil {
		due.Reset(d.renewalAge(time.Now(), s.identity.ends))
	}
	defer due.Stop()
	for {
		select {
		case <-due.C:
		case <-d.renew:
		case <-ctx.Done():
			return nil
		}
		next, asked, err := d.open(ctx, true)
		switch {
		case err == nil && next.in.hello.Incarnation == s.in.hello.Incarnation:
			d.markUp(next, true)
			return next
		case err == nil:
			next.close()
			s.cancel(errPeerRestarted)
			return nil
		case ctx.Err() != nil:
			return nil
		case asked: // it may have taken the new stream for the one to use
			s.cancel(fmt.Errorf("renew the link: %w", err))
			return nil
		}
		d.g.config.Log.Warn("cannot renew a link; trying again", "address", d.addr, "error", err)
		due.Reset(renewalPause)
	}
}

// renewalAge returns after which time to renew a link with certificates that end at some time. It is random, so that a
// process does not renew all its links at once.
func (d *dialer) renewalAge(now, ends time.Time) time.Duration {
	age := min(d.g.timing.renewAfter, ends.Sub(now)*3/4)
	if age <= renewalPause {
		return renewalPause
	}
	return age/2 + rand.N(age/2)
}

// finish ends a stream that was renewed: it returns nil when the peer has ended it and everything that arrived on it is
// handled.
func (d *dialer) finish(s *dialedStream, broken <-chan struct{}, why *error) error {
	_ = s.stream.CloseSend() // it always returns nil
	select {
	case <-broken:
		if errors.Is(*why, io.EOF) {
			return nil
		}
	case <-time.After(d.g.timing.hello):
	case <-s.ctx.Done():
	}
	return errBroken
}

// watchKeys reads the TLS files from time to time. It ends links whose certificates have expired or are not trusted any
// more, renews links when this process has a new certificate, and tells peers which of their authorities it trusts when
// that has changed. It also logs the violations that wait for their line.
func (g *GRPC) watchKeys() {
	tick := time.NewTicker(g.timing.keysInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-g.closing:
			return
		}
		g.verifyLinks(g.keys.load())
		g.violations.log.flush(time.Now(), g.config.Log)
		g.acceptedLog.flush(time.Now(), g.config.Log)
	}
}

// verifyLinks verifies the peers of all links against a key set, and tells them what that says of their authorities.
func (g *GRPC) verifyLinks(set *keySet) {
	now := time.Now()
	g.mu.RLock()
	defer g.mu.RUnlock()
	for _, d := range g.dialed {
		d.mu.Lock()
		if d.up && d.identity != nil {
			d.roots.tell(set.rootsFor(d.identity), d.out)
			err := g.distrust(d.identity, set, now)
			if d.identity.own != set.cert || !d.identity.distrustedAt.IsZero() || d.via != g.viaOf(d.addr) {
				d.requestRenewal() // perhaps the peer has a new certificate, or there is another way to it
			}
			if err != nil {
				g.violations.note(ViolationCertificate, d.identity.String(), err, g.config.Log)
				d.cancelStream(err)
			}
		}
		d.mu.Unlock()
	}
	for _, a := range g.accepted {
		if a.identity == nil {
			continue
		}
		a.roots.tell(set.rootsFor(a.identity), a.out)
		if err := g.distrust(a.identity, set, now); err != nil {
			g.violations.note(ViolationCertificate, a.who(), err, g.config.Log)
			a.end(status.Error(codes.Unauthenticated, err.Error()))
		}
	}
}

// distrust returns why a link must end now: a certificate has expired, or the peer is not trusted any more and has not
// renewed the link with another certificate for a while.
func (g *GRPC) distrust(p *peerIdentity, set *keySet, now time.Time) error {
	if !now.Before(p.ends) {
		return fmt.Errorf("the certificates of the link with %s have expired at %s", p.Identity,
			p.ends.UTC().Format(time.RFC3339))
	}
	if p.trust == set.trust {
		return nil
	}
	if _, err := set.trust.Verify(p.chain, now, p.usage); err != nil {
		if p.distrustedAt.IsZero() {
			p.distrustedAt = now
		}
		if now.Sub(p.distrustedAt) < g.timing.distrust {
			return nil
		}
		return fmt.Errorf("%s is not trusted any more: %w", p.Identity, err)
	}
	p.trust, p.distrustedAt = set.trust, time.Time{}
	return nil
}
