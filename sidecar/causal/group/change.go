package group

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// change is a configuration that a primary is about to propose.
type change struct {
	config Config
	// saved is the index of the entry that makes its joining members durable; 0: not written yet.
	saved     uint64
	submitted bool
}

// plan brings the group nearer to what it should be: without members that are silent, with those that are desired,
// under the preferred primary. One change is in progress at a time.
//
// A swap whose outcome is unknown may still apply, until another one of the same configuration has been done. So until
// then its joining members stay necessary for each commit (State.Pending), and the next swap is proposed.
func (g *Group) plan(now causal.Now) {
	l := g.lead
	if l == nil || !g.opts.Register || g.isStuck(now) || l.wasStuck {
		return
	}
	g.lookAtRegister(now)
	if g.frozen != "" {
		return
	}
	if l.change != nil && l.change.submitted {
		return
	}
	wanted, ok := g.wanted(now)
	if !ok {
		g.troubles.changesFail.is = false
		g.withdraw(now)
		return
	}
	if l.change == nil || !l.change.config.sameGroup(&wanted) {
		g.withdraw(now)
		l.change = &change{config: wanted}
	}
	for _, id := range wanted.Members {
		g.peerOf(now, id)
	}
	if wanted.Primary != g.self && !l.paused {
		g.pause()
	}
	if g.isPrepared(now) {
		g.submit(now)
	}
}

// withdraw gives up a change that was not submitted.
func (g *Group) withdraw(now causal.Now) {
	l := g.lead
	l.change = nil
	if l.paused && !l.unsettled {
		g.resume(now)
	}
}

// isPrepared reports whether a change may be submitted: every member of the new configuration has everything that is
// committed, and since it is necessary for each commit already, that stays so. A change of the primary waits until
// nothing is in progress.
func (g *Group) isPrepared(now causal.Now) bool {
	l := g.lead
	c := l.change
	for _, id := range c.config.Members {
		if p := g.findPeer(id); p != nil && p.match < g.commit && !g.opts.Broken.Has(causal.JoinBehind) {
			return false
		}
	}
	if c.config.Primary != g.self && g.commit < g.log.last() && !g.opts.Broken.Has(causal.HandoverUndrained) {
		return false
	}
	if c.saved == 0 {
		c.saved = g.next - 1
		before := len(g.state.Pending)
		for _, id := range c.config.Members {
			if !g.state.Config.Has(id) && !slices.Contains(g.state.Pending, id) {
				g.state.Pending = append(slices.Clone(g.state.Pending), id)
			}
		}
		if len(g.state.Pending) > before {
			c.saved = g.save(now) // a restart must know of the swap
		}
	}
	return c.saved <= g.durable
}

// submit sends the swap, once the register was read.
func (g *Group) submit(now causal.Now) {
	if !g.register.fresh {
		g.read(now)
		return
	}
	if !g.canRequest(now) {
		return
	}
	l := g.lead
	l.change.submitted = true
	l.change.config.Epoch, l.change.config.Nonce = max(g.state.Config.Epoch, g.register.epoch)+1, g.newNonce()
	g.swap(now, l.change.config)
}

// swapFailed takes in that a swap was not done, as far as is known.
func (g *Group) swapFailed(now causal.Now, o Outcome) {
	l := g.lead
	if l == nil {
		g.suspicion.stage = suspectRead
		return
	}
	l.unsettled = l.unsettled || o == Unknown
	if l.change != nil && l.change.submitted {
		l.change = nil
	}
	if g.opts.Broken.Has(causal.SwapUnknownAsFailed) && o == Unknown {
		l.unsettled = false
		g.state.Pending = nil
		g.save(now)
		g.withdraw(now)
	}
	g.read(now)
}

// applyOwnChange continues the session in a configuration that this primary has proposed.
func (g *Group) applyOwnChange(now causal.Now) {
	l := g.lead
	l.change, l.unsettled = nil, false
	if l.paused {
		g.resume(now)
	}
	l.peers = slices.DeleteFunc(l.peers, func(p *peer) bool {
		drop := p.gone || !g.state.Config.Has(p.id) && !g.desired.has(p.id.Name)
		if drop {
			l.letGo(p)
		}
		return drop
	})
	for _, id := range g.state.Config.Members {
		g.peerOf(now, id)
	}
	g.advance(now)
}

// wanted returns the configuration that should follow, or false if the present one may stay.
func (g *Group) wanted(now causal.Now) (Config, bool) {
	c := &g.state.Config
	want := Config{Group: c.Group, Primary: g.self, Replaced: c.Replaced}
	for _, id := range c.Members {
		if p := g.findPeer(id); id == g.self || !g.isSilent(now, p) && !g.isDropped(p) && g.desired.has(id.Name) {
			want.Members = append(want.Members, id)
		}
	}
	if g.lead.serving {
		for _, p := range g.lead.peers {
			if g.mayJoin(now, p) && !want.hasName(p.id.Name) {
				want.Members = append(want.Members, p.id)
			}
		}
		if want.sameGroup(c) && !g.lead.unsettled && len(g.state.Pending) == 0 {
			g.choosePrimary(now, &want) // it waits for all members, so it comes last
		}
	}
	if !want.sameGroup(c) || g.lead.unsettled || len(g.state.Pending) > 0 || g.accept {
		return want, true
	}
	return Config{}, false
}

// isDropped reports whether a peer is to be dropped before it is silent, since its storage does not respond. If the one
// here does not either, nothing would be won.
func (g *Group) isDropped(p *peer) bool { return p.impaired && !g.impaired && g.lead.serving }

// mayJoin reports whether a peer that is no member is so near to the end of the log that commits may wait for it.
func (g *Group) mayJoin(now causal.Now, p *peer) bool {
	if g.state.Config.Has(p.id) || !g.desired.has(p.id.Name) || g.isSilent(now, p) || p.impaired ||
		len(g.desired.Names) == 0 {
		return false
	}
	if c := g.lead.change; c != nil && c.config.Has(p.id) {
		return true
	}
	if len(g.state.Pending) >= maxPending && !slices.Contains(g.state.Pending, p.id) {
		return false // until the swaps in progress are settled
	}
	return p.match > 0 && !p.probing && p.match+uint64(maxJoinLag) >= g.commit || g.opts.Broken.Has(causal.JoinBehind)
}

// maxPending bounds the members that may join unnoticed.
const maxPending = 16

// maxJoinLag is how many records a joining member may lack when commits begin to wait for it.
const maxJoinLag = 1024

// choosePrimary makes the preferred member the primary, if it is in step with this one. A primary that should not be a
// member leaves, one that is about to stop hands over, and so does one whose user could serve better elsewhere.
func (g *Group) choosePrimary(now causal.Now, want *Config) {
	mustYield := !g.desired.has(g.self.Name) || g.resigning
	yields := mustYield || g.impaired || g.unfit.age(now) >= g.opts.SilentAfter
	if len(g.desired.Names) == 0 || now.Mono < g.lead.staysTo && !yields {
		return
	}
	candidates := g.desired.Names
	if !yields {
		candidates = candidates[:1]
	}
	next, ok := g.successor(now, want, candidates, false)
	if !ok && mustYield {
		next, ok = g.successor(now, want, candidates, true)
	}
	if !ok {
		return
	}
	want.Primary = next
	if !g.desired.has(g.self.Name) {
		want.Members = slices.DeleteFunc(want.Members, func(id ID) bool { return id == g.self })
	}
}

// Stay keeps a primary that serves from making way for the preferred member, which would be as good, for SilentAfter
// from now on: its user has begun what another member would have to begin again.
func (g *Group) Stay(now causal.Now) {
	if l := g.lead; l != nil && l.serving {
		l.staysTo = now.Mono + int64(g.opts.SilentAfter)
	}
}

// successor returns the first candidate that can become the primary at once. Without unfit, its user has to be fit.
func (g *Group) successor(now causal.Now, want *Config, candidates []string, unfit bool) (ID, bool) {
	for _, name := range candidates {
		if name == g.self.Name {
			continue
		}
		for _, id := range want.Members {
			p := g.findPeer(id)
			if id.Name == name && p != nil && !p.resigning && !p.impaired && (unfit || !p.unfit) &&
				g.state.Config.Has(id) && p.match >= g.commit && !g.isSilent(now, p) {
				return id, true
			}
		}
	}
	return ID{}, false
}
