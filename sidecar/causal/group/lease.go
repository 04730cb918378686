package group

import "github.com/causalstore/causalstore/sidecar/causal"

// Leases say until when no other member serves; they do not protect the log, which needs none. Each acknowledgement
// grants the primary a lease, counted at the primary from when it sent the frame, and less 2 % for clocks that differ.
// A member that becomes the primary waits until the grant that it gave last has expired. Since it was a member before,
// it had to be asked for that grant.

// HoldsLease reports whether no other member serves now: all others that could become the primary have promised to
// wait.
func (g *Group) HoldsLease(now causal.Now) bool {
	return g.lead != nil && g.lead.serving && !g.lead.paused && g.hasGrants(now)
}

// volumeBits is how many bits of a life in a Leadership tell volumes apart: a group that was made again, on empty
// volumes, counts epochs and lives from 1 again, and what was said to the earlier one must not be taken for it. The
// lives of a volume are below 2^24.
const volumeBits = 40

// Leadership returns the leadership of this member; none unless it serves and holds the lease. No other one of this
// node is the same, whatever happens to the volumes.
func (g *Group) Leadership(now causal.Now) causal.Leadership {
	if !g.HoldsLease(now) {
		return causal.Leadership{}
	}
	return causal.Leadership{Epoch: g.lead.session.Epoch,
		Life: g.lead.session.Life<<volumeBits | g.self.Volume&(1<<volumeBits-1)}
}

// LeaseEnd returns until when this member holds the lease by what others have granted so far; 0: it holds none. The
// simulator asks.
func (g *Group) LeaseEnd(now causal.Now) int64 {
	if !g.HoldsLease(now) {
		return 0
	}
	end := causal.Never
	for _, id := range g.required() {
		if p := g.findPeer(id); p != nil {
			end = min(end, p.grantedUntil)
		}
	}
	return end
}

// Promised returns until when this member serves nothing in place of a primary that it has granted a lease; false while
// it does nothing at all. The simulator asks.
func (g *Group) Promised() (until int64, known bool) { return g.grantUntil, g.ready() }

// hasGrants reports whether the grants of all others that could become the primary hold.
func (g *Group) hasGrants(now causal.Now) bool {
	for _, id := range g.required() {
		if p := g.findPeer(id); id != g.self && (p == nil || p.grantedUntil <= now.Mono) {
			return g.opts.Broken.Has(causal.ReadAfterLease)
		}
	}
	return true
}

// pause refuses records and gives the leases back, because another member becomes the primary.
func (g *Group) pause() {
	g.lead.paused = true
	for _, p := range g.lead.peers {
		p.sentAt = 0 // at once, since the swap may be done before the next heartbeat
	}
}

// resume ends a pause, since no other member becomes the primary. What was granted before counts no more: it was given
// back, so another member that becomes the primary by itself does not wait for it.
func (g *Group) resume(now causal.Now) {
	g.lead.paused, g.lead.resumedAt = false, now.Mono
	for _, p := range g.lead.peers {
		if p.sentAt = 0; !g.opts.Broken.Has(causal.GrantGivenBack) {
			p.grantedUntil = 0
		}
	}
}

// noteGrant notes that an acknowledgement of a frame grants a lease, or that the primary gives its lease back, so that
// another member can serve at once. What it gave back before it asked again is late. A restart has forgotten for what
// it asked last, so a grant of the life before ends by itself only.
func (g *Group) noteGrant(now causal.Now, f *Frame) {
	if !f.Released {
		g.grantSentAt = max(g.grantSentAt, f.SentAt)
	} else if f.SentAt > g.grantSentAt {
		g.grantUntil = max(now.Mono, g.startedAt+int64(g.opts.Lease))
	}
}

// grantEnd returns until when a grant holds.
func (g *Group) grantEnd(now causal.Now, a *Ack) int64 {
	if g.opts.Broken.Has(causal.GrantFromReceipt) {
		return now.Mono + int64(g.opts.Lease)
	}
	return a.SentAt + int64(g.opts.Lease)/100*98
}
