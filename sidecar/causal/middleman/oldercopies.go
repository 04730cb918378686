package middleman

import (
	"iter"
	"math/bits"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// A cache may keep a version of a key that is older than the one in storage, for unbound sessions that have seen less
// than the version after it (PROTOCOL SNAP). Versions between the two may still arrive: they
// lose, and yet determine who may read the copy. So the middleman remembers where such copies may be until its ring has
// every write up to the version after them.

// olderCopies are where caches may hold copies that are older than the version in storage.
type olderCopies struct {
	byHash        map[uint64]olderCopy
	forgottenUpTo causal.HLC
	readersUntil  int64 // until when sessions are assumed to read older versions
}

type olderCopy struct {
	dcs  uint64     // a bit for each
	next causal.HLC // the newest of the versions after the copies
}

// maxOlderCopies bounds the keys that may have older copies.
const maxOlderCopies = 1 << 17

func newOlderCopies() olderCopies { return olderCopies{byHash: map[uint64]olderCopy{}} }

// isKept reports whether caches may keep older copies: somebody reads them, and there is room to remember them.
func (o *olderCopies) isKept(now causal.Now) bool {
	return now.Mono < o.readersUntil && len(o.byHash) < maxOlderCopies
}

// add records that dc may hold a copy older than the version next.
func (o *olderCopies) add(hash uint64, dc topology.DC, next causal.HLC) {
	c := o.byHash[hash]
	o.byHash[hash] = olderCopy{dcs: c.dcs | 1<<dc, next: max(c.next, next)}
}

// outdatedBy yields the data centers with copies of the hash that the write v concerns: all, unless v came after all
// the versions that follow them.
func (o *olderCopies) outdatedBy(hash uint64, v causal.Version) iter.Seq[topology.DC] {
	return func(yield func(topology.DC) bool) {
		c, ok := o.byHash[hash]
		if !ok || v.HLC > c.next {
			return
		}
		for dcs := c.dcs; dcs != 0; dcs &= dcs - 1 {
			if !yield(topology.DC(bits.TrailingZeros64(dcs))) {
				return
			}
		}
	}
}

// forgetUpTo forgets the copies that no version can outdate any more: the ring has every write up to hlc.
func (o *olderCopies) forgetUpTo(hlc causal.HLC) {
	if hlc == o.forgottenUpTo {
		return
	}
	o.forgottenUpTo = hlc
	for hash, c := range o.byHash {
		if c.next <= hlc {
			delete(o.byHash, hash)
		}
	}
}
