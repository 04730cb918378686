package transport

import (
	"slices"
	"sync"

	"github.com/causalstore/causalstore/sidecar/transport/wire"
)

// A new authority may issue certificates once all who verify them trust it. So each end of a link tells the other, in
// its hello and whenever that changes, which authorities of the other's trust domain it trusts.

// roots is what both ends of a stream have said last.
type roots struct {
	mu          sync.Mutex
	heard, said wire.Roots
}

// start notes the hellos.
func (r *roots) start(heard, said wire.Roots) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard, r.said = heard, said
}

// hear notes what the peer has said in a frame, if anything.
func (r *roots) hear(heard wire.Roots) {
	if heard == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard = heard
}

// tell queues what this process trusts now, unless that is what it has said.
func (r *roots) tell(now wire.Roots, out *outbox) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.said, now) && out.pushRoots(now) {
		r.said = now
	}
}

// rootsFor returns the authorities of a peer's trust domain that are trusted.
func (s *keySet) rootsFor(p *peerIdentity) wire.Roots {
	all := s.trust.Roots(p.TrustDomain)
	return wire.Roots(all[:min(len(all), wire.MaxRoots)])
}

// Roots returns the authorities of this process' trust domain that it trusts itself; nil without TLS.
func (g *GRPC) Roots() (trustDomain string, all wire.Roots) {
	if g.keys == nil {
		return "", nil
	}
	set := g.keys.load()
	return set.trustDomain, wire.Roots(set.trust.Roots(set.trustDomain))
}

// describeTrust adds who the peer of a link is, and what it trusts.
func (s *LinkStats) describeTrust(p *peerIdentity, r *roots) {
	if p == nil || r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.TrustDomain, s.Roots = p.TrustDomain, r.heard
}
