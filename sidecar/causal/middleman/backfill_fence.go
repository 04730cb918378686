package middleman

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// A storage that has lost its data has lost its fences, too: which logs were given up. So a backfill takes no put of an
// origin before its coordinator has told the generation of its log.

// admit takes the generation of the log that an origin has now. It returns false if the log was given up, or while the
// fence against earlier ones is not durable.
func (b *backfill) admit(now causal.Now, o topology.Origin, generation uint64) bool {
	if generation < b.fences.of(now, o) || !b.isPlausible(now, generation) {
		return false
	}
	c := b.admitted[o]
	if c == nil || generation > b.fences.of(now, o) {
		c = &claim{fenced: generation == 0}
		b.admitted[o] = c
	}
	if !c.fenced {
		b.fences.want(o, generation)
		b.fences.save(o, c)
	}
	return c.fenced
}

// takesPutsOf reports whether the fence of an origin is known. Not before: a late put of a log that was given up would
// be in this ring only.
func (b *backfill) takesPutsOf(o topology.Origin) bool {
	c := b.admitted[o]
	return c != nil && c.fenced || b.cfg.Broken.Has(causal.BackfillUnfenced)
}
