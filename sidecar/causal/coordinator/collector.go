package coordinator

import (
	"cmp"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// collector collects what the shards of all rings have of the lanes of one origin that does not speak for itself: it is
// silent (adoption), or it has lost its log (logRecovery). It asks each shard for one page after the other, again until
// the page has come. P is a place in what a shard reports, W a write.
//
// Invariant: what it holds are facts of the origin's log, which stay true. Nothing of it is durable.
type collector[P any, W collectable] struct {
	*shared
	origin topology.Origin
	// question asks for the page behind a place, and interval is how often.
	question func(of *source[P], shard topology.Node) causal.Message
	interval time.Duration

	sources  map[topology.Node]*source[P]
	writes   map[causal.HLC]W
	order    []W // see ascending
	unsorted bool
}

// collectable is a write of the origin that was collected.
type collectable interface{ hlc() causal.HLC }

// source is how far a shard was read.
type source[P any] struct {
	incarnation uint64 // of the shard; 0: it has not answered
	after       P
	askAt       int64
	done        bool // there is no further page
}

// restart forgets what was collected.
func (c *collector[P, W]) restart() {
	c.sources, c.writes, c.order = map[topology.Node]*source[P]{}, map[causal.HLC]W{}, nil
	c.unsorted = false
}

// source returns how far a shard was read.
func (c *collector[P, W]) source(shard topology.Node) *source[P] {
	s := c.sources[shard]
	if s == nil {
		s = &source[P]{}
		c.sources[shard] = s
	}
	return s
}

// ask asks the shards for the pages that are due.
func (c *collector[P, W]) ask(now causal.Now) {
	for n := range c.middlemen() {
		c.askShard(now, n)
	}
}

func (c *collector[P, W]) askShard(now causal.Now, n topology.Node) {
	s := c.source(n)
	if s.done || now.Mono < s.askAt {
		return
	}
	s.askAt = now.Mono + int64(c.interval)
	c.Send(c.question(s, n))
}

// unread returns the shards of which there is a further page.
func (c *collector[P, W]) unread() (shards []topology.Node) {
	for n := range c.middlemen() {
		if s := c.sources[n]; s == nil || !s.done {
			shards = append(shards, n)
		}
	}
	return shards
}

// collects reports whether a write that a shard names may be one of the origin: nobody has timestamps above the limit.
func (c *collector[P, W]) collects(v causal.Version, limit causal.HLC) bool {
	return v.Origin == c.origin && v.HLC <= limit
}

// add adds a write that is not here yet.
func (c *collector[P, W]) add(w W) {
	if last := len(c.writes) - 1; last >= 0 && c.order[last].hlc() > w.hlc() {
		c.unsorted = true
	}
	c.writes[w.hlc()] = w
	c.order = append(c.order, w)
}

// ascending returns the writes in the order of their timestamps.
func (c *collector[P, W]) ascending() []W {
	if c.unsorted {
		slices.SortFunc(c.order, func(a, b W) int { return cmp.Compare(a.hlc(), b.hlc()) })
		c.unsorted = false
	}
	return c.order
}

// dropUpTo drops the writes that are known to be complete, and returns them.
func (c *collector[P, W]) dropUpTo(sv causal.HLC) (dropped []W) {
	n := 0
	for all := c.ascending(); n < len(all) && all[n].hlc() <= sv; n++ {
		delete(c.writes, all[n].hlc())
	}
	dropped = slices.Clone(c.order[:n])
	c.order = slices.Delete(c.order, 0, n)
	return dropped
}
