package session

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/keystate"
)

// pastReads are the reads of a session, as far as its reads at a cut must not be older. A shard that does not know yet
// that a write is complete passes over it, if it is above the base of a read. So whatever is in the past of the session
// has to be at or below the base.
//
// Most versions that a session reads are above the cut, but what they depend on is older, and known to be complete by
// then. So a version is kept for its key, and for the other keys counts what it depends on only (PROTOCOL SNAP-10).
//
// Invariant: every write of another session in the past of this one is at or below upTo, or at or below the base of the
// cut, or not newer than the version in above of its key, unless the session is bound.
type pastReads struct {
	upTo  causal.HLC
	above map[string]causal.Version // by key: complete versions above the base of the cut
}

// maxPastReads bounds the versions that a session keeps by key. At the bound they count for all keys.
const maxPastReads = 1024

// raise notes that the session has seen something at h, whatever its key.
func (p *pastReads) raise(h causal.HLC) { p.upTo = max(p.upTo, h) }

// hasRead reports whether the session has read this value of a key, and knows that it is complete.
func (p *pastReads) hasRead(key string, r *causal.Record) bool {
	return r.Version.Written() && p.above[key] == r.Version && keystate.Identifies(r)
}

// add notes that the session has read a complete version of a key. past is the greatest HLC in the past of the version.
func (p *pastReads) add(key string, v causal.Version, past, base causal.HLC, broken causal.Mutations) {
	if !broken.Has(causal.PastIgnored) {
		p.raise(min(past, v.HLC))
	}
	if v.HLC <= base || v.HLC <= p.upTo || !p.above[key].Less(v) || broken.Has(causal.ReadKeyForgotten) {
		return
	}
	if len(p.above) >= maxPastReads {
		p.fold(base)
	}
	p.above[key] = v
}

// fold makes room: it drops what the base has passed, and if that is not half of all, it counts the others for all
// keys.
func (p *pastReads) fold(base causal.HLC) {
	greatest := causal.HLC(0)
	for key, v := range p.above {
		if v.HLC <= base {
			delete(p.above, key)
			continue
		}
		greatest = max(greatest, v.HLC)
	}
	if len(p.above) > maxPastReads/2 {
		p.raise(greatest)
		clear(p.above)
	}
}

// greatest returns the HLC that a read of some keys at one HLC must not be below.
func (p *pastReads) greatest(keys []string) causal.HLC {
	h := p.upTo
	for _, key := range keys {
		h = max(h, p.above[key].HLC)
	}
	return h
}
