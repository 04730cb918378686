package causal

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// A cache may hold a version of a key that is older than the one in storage: for unbound sessions that have seen less than
// the version that came next. Versions between the two may still arrive, late; they lose, and yet bound for whom the copy
// is. So the middleman remembers where such copies may be until its ring has everything up to the next version.

// olderCopies are where copies of a key may be that are older than what stands in storage.
type olderCopies struct {
	dcs  uint64
	next HLC // of the newest of the versions that came after them
}

// maxOlder bounds the keys that may have older copies.
const maxOlder = 1 << 17

// olderWanted is for how long after such a read caches are taken to have readers of older versions.
const olderWanted = int64(time.Minute)

// keepsOlder reports whether caches may keep older copies: somebody reads them, and they can be remembered.
func (m *Middleman) keepsOlder(now Now) bool {
	return now.Mono < m.olderUntil && len(m.olderAt) < maxOlder
}

func (m *Middleman) rememberOlder(hash uint64, dc topology.DC, next HLC) {
	o := m.olderAt[hash]
	m.olderAt[hash] = olderCopies{dcs: o.dcs | 1<<dc, next: max(o.next, next)}
}

// tellOlder tells the caches with older copies of p's key, unless p came after all of these.
func (m *Middleman) tellOlder(hash uint64, p *put, tell func(topology.DC) bool) {
	o, ok := m.olderAt[hash]
	if !ok || p.rec.Version.HLC > o.next || m.cfg.Broken.has(SupersededKeepsOlder) {
		return
	}
	for dc := range m.cfg.Topology.DCs {
		if o.dcs&(1<<dc) != 0 {
			tell(topology.DC(dc))
		}
	}
}

// forgetOlder forgets the copies for which no version between can arrive any more.
func (m *Middleman) forgetOlder() {
	whole := m.known.MinRV(m.ring)
	if whole == m.olderWhole {
		return
	}
	m.olderWhole = whole
	for hash, o := range m.olderAt {
		if o.next <= whole {
			delete(m.olderAt, hash)
		}
	}
}
