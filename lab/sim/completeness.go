package sim

import (
	"fmt"
	"maps"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/cache"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/topology"
)

// claims compares what coordinators say of their writes with what there is, whether or not a client sees it:
//
//   - what a coordinator says that a ring has acknowledged is durable in a storage of that ring, or in the log of a
//     member of a shard;
//   - while a write is said to be complete, no cache and no near copy answers with an older one.
//
// It knows the writes of registers by what coordinators send, until they are said to be complete. Nothing is compared
// once a fault has taken data away, or a data center is excluded: what was complete is then not in every ring.
type claims struct {
	w *World
	// open are the writes that are not said to be in a ring, by ring and origin, in the order in which they were sent.
	open []map[topology.Origin][]claimed
	// newest are the newest writes of keys that are said to be complete.
	newest  map[string]causal.Version
	checkAt int64 // when all copies are looked at next
	// judgesBroken: also with broken rules. What these do is to be seen by what clients see.
	judgesBroken bool
	found        []string
}

type claimed struct {
	version causal.Version
	key     string
}

const (
	// copiesInterval is how often all copies are looked at, in virtual time.
	copiesInterval = int64(100e6)
	// maxClaims bounds what is reported of a run.
	maxClaims = 3
)

func newClaims(w *World) *claims {
	c := &claims{w: w, newest: map[string]causal.Version{}}
	for range w.topo.Rings {
		c.open = append(c.open, map[topology.Origin][]claimed{})
	}
	return c
}

// takesDataAway are faults after which a complete write may be missing in a ring, for a time or for good.
var takesDataAway = []InjectedFault{EmptyDisk, LogGivenUp, ShardLost, OldStorage, MembersLost, VolumeReturned, Exclude,
	Divide, DamagedTwice}

// areJudged reports whether what coordinators claim must hold.
func (c *claims) areJudged() bool {
	return (!c.w.settings.Broken.Any() || c.judgesBroken) && !c.w.lostWrites && len(c.found) < maxClaims &&
		!slices.ContainsFunc(takesDataAway, func(f InjectedFault) bool { return c.w.faults[f] > 0 })
}

// observe takes a message that a part has sent.
func (c *claims) observe(m *causal.Message) {
	if m.From.Part != topology.Coordinator || !c.areJudged() {
		return
	}
	own := c.w.topo.OriginOf(m.From.Group())
	switch m.Kind {
	case causal.KindPutAfter:
		if p := m.PutAfter(); !p.Complete && !p.Record.Value.Merges() {
			c.note(c.w.topo.RingOf(m.To.DC), claimed{p.Record.Version, p.Key})
		}
	case causal.KindComplete:
		for _, v := range m.Complete().Versions {
			c.claimComplete(m.From, v)
		}
	case causal.KindVectors:
		for _, e := range m.Vectors().Entries {
			if e.Origin == own {
				c.claimVectors(m.From, &e)
			}
		}
	}
	if c.w.now >= c.checkAt {
		c.checkAt = c.w.now + copiesInterval
		for _, key := range slices.Sorted(maps.Keys(c.newest)) {
			c.checkCopies(key, c.newest[key])
		}
	}
}

// note takes a write that is on its way to a ring.
func (c *claims) note(r topology.RingID, w claimed) {
	of := c.open[r][w.version.Origin]
	if !slices.Contains(of, w) {
		c.open[r][w.version.Origin] = append(of, w)
	}
}

// claimVectors takes RV and SV of an origin from its own coordinator.
func (c *claims) claimVectors(from topology.Node, e *causal.VectorEntry) {
	for r := range c.open {
		upTo := e.SV
		if r < len(e.RV) {
			upTo = e.RV[r]
		}
		c.claim(from, topology.RingID(r), e.Origin, func(v causal.Version) bool { return v.HLC <= upTo })
	}
}

// claimComplete takes a coordinator's word that a write is complete.
func (c *claims) claimComplete(from topology.Node, v causal.Version) {
	for r := range c.open {
		for _, w := range c.claim(from, topology.RingID(r), v.Origin, func(o causal.Version) bool { return o == v }) {
			if c.newest[w.key].Less(v) {
				c.newest[w.key] = v
				c.checkCopies(w.key, v)
			}
		}
	}
}

// claim takes a coordinator's word that writes are in a ring, and returns those of which it was not known.
func (c *claims) claim(from topology.Node, r topology.RingID, o topology.Origin,
	is func(causal.Version) bool) (said []claimed) {
	c.open[r][o] = slices.DeleteFunc(c.open[r][o], func(w claimed) bool {
		if !is(w.version) {
			return false
		}
		said = append(said, w)
		if !c.isIn(r, w) {
			c.fail("%s says that ring %d has %s=%s, and no storage there does", from, r, w.key, w.version)
		}
		return true
	})
	return said
}

// isIn reports whether a storage of a ring has a write durably, or a newer one of its key, or has dropped the tombstone
// of that. Of a shard with several members the log of one is enough: the one whose storage had it may be gone, and the
// next one that serves makes the change.
func (c *claims) isIn(r topology.RingID, w claimed) bool {
	return slices.ContainsFunc(c.w.order, func(n *node) bool {
		if n.id.Part != topology.Middleman || c.w.topo.RingOf(n.id.DC) != r {
			return false
		}
		content := &n.disk.content
		if n.disk.before != nil {
			content = n.disk.before
		}
		rec, ok := content.records[w.key]
		return ok && !rec.Version.Less(w.version) || !ok && content.Horizon >= w.version.HLC || isInLog(n.disk, w)
	})
}

// isInLog reports whether the log of a member of a shard has a write, or a newer one of its key.
func isInLog(d *disk, w claimed) bool {
	for i, b := range d.log {
		e, err := group.ParseEntry(d.firstIndex+uint64(i), b)
		if err != nil || e.Kind != group.EntryRecord || e.Record.Start {
			continue
		}
		change, err := member.ParseChange(e.Record.Data)
		if err == nil && slices.ContainsFunc(change.Writes, func(o member.Write) bool {
			return o.Key == w.key && !o.Delete && !o.Record.Version.Less(w.version)
		}) {
			return true
		}
	}
	return false
}

// checkCopies reports copies of a key that answer with less than a write which is said to be complete.
func (c *claims) checkCopies(key string, v causal.Version) {
	for _, n := range c.w.order {
		if n.removed || !c.areJudged() {
			continue
		}
		var old causal.Version
		var isOld bool
		switch m := n.m.(type) {
		case *cache.Cache:
			old, isOld = m.AnswersWithout(c.w.clock(n), key, v)
		case *session.Sidecar:
			old, isOld = m.AnswersWithout(c.w.clock(n), key, v)
		}
		if isOld {
			c.fail("%s answers %s=%s at a cut that has %s, which is said to be complete", n.id, key, old, v)
		}
	}
}

func (c *claims) fail(format string, args ...any) {
	c.found = append(c.found, "claims: "+fmt.Sprintf(format, args...))
}
