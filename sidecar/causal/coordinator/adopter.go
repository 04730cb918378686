package coordinator

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Adoption (PROTOCOL ADO): the leader of some data center collects what shards hold of the incomplete writes of
// an origin that is silent, and puts in all rings those of which it has the whole past. It decides nothing about the
// origin: that sends the same writes again when it is back, so a wrong suspicion costs work only, and so do two
// adopters.

const (
	// silenceLimit is how long nothing new may be heard of an origin before its writes are adopted. Coordinators
	// publish at least twice a second.
	silenceLimit = 2 * time.Second
	// successionDelay is how much longer the next leader waits for the one that is to adopt first.
	successionDelay = 3 * time.Second
	// silenceInterval is how often a leader sees to an origin that is silent, heldInterval how often shards are asked
	// for what they hold, and pageInterval the same for a shard that has just answered.
	silenceInterval, heldInterval, pageInterval = 250 * time.Millisecond, time.Second, 50 * time.Millisecond
	// adoptionPause is how long an adoption rests at least: it looks at all that was collected, and shards answer in
	// many messages.
	adoptionPause = 5 * time.Millisecond
	// adoptRetryInterval is when AdoptPuts are sent again of which none was answered, and maxAdoptRetryInterval bounds
	// how long that is when nothing is answered again and again. adoptPollInterval is the same for an AdoptStep; it
	// doubles up to maxPollDoublings times.
	adoptRetryInterval, maxAdoptRetryInterval, adoptPollInterval = time.Second, 16 * time.Second, 150 * time.Millisecond
	maxPollDoublings                                             = 3
	// maxAdoptedBytes bounds what is collected of all origins.
	maxAdoptedBytes = 128 << 20
	// maxAdoptBatch bounds what is put to one shard and not answered, in bytes, and maxStepVersions the versions of a
	// message.
	maxAdoptBatch, maxStepVersions = 512 << 10, 1000
)

// adopter is what a leader knows of silent origins. Nothing of it is durable: a restart collects again.
type adopter struct {
	*shared
	excluded excludedShards
	heard    []heardOrigin // by origin
	cases    map[topology.Origin]*adoption
	bytes    int
	nextAt   int64
	restAt   int64 // until then it rests
}

// excludedShards says what an adoption does in place of shards of excluded data centers, which do not answer.
type excludedShards interface {
	// isExcluded reports whether writes are completed without the shard of a slot in a ring.
	isExcluded(r topology.RingID, slot topology.Slot) bool
	// isElsewhere reports whether a shard of the slot in another ring has what is asked for, and relies on nobody who
	// has been excluded with the one in r.
	isElsewhere(r topology.RingID, slot topology.Slot, has func(topology.RingID) bool) bool
	// hasForeign reports whether a ring has acknowledged writes of other origins.
	hasForeign(r topology.RingID, deps []causal.Dep) bool
}

// heardOrigin is when something new was heard of an origin.
type heardOrigin struct {
	sum causal.HLC // of all vector entries; it changes when one does
	at  int64
}

func newAdopter(s *shared, now causal.Now, excluded excludedShards) adopter {
	a := adopter{shared: s, excluded: excluded, heard: make([]heardOrigin, s.cfg.Topology.Origins()+1),
		cases: map[topology.Origin]*adoption{}}
	for o := range a.heard {
		a.heard[o].at = now.Mono
	}
	return a
}

// observe notes of which origins something new was heard.
func (a *adopter) observe(now causal.Now) {
	for o := range a.heard {
		sum := a.known.SV(topology.Origin(o))
		for r := range a.cfg.Topology.Rings {
			sum += a.known.RV(topology.RingID(r), topology.Origin(o))
		}
		if h := &a.heard[o]; h.sum != sum {
			*h = heardOrigin{sum, now.Mono}
		}
	}
}

// noteHeard notes that the coordinator of an origin is there.
func (a *adopter) noteHeard(now causal.Now, o topology.Origin) {
	if int(o) < len(a.heard) {
		a.heard[o].at = now.Mono
	}
}

// hasten lets adoptions go on as soon as they have rested.
func (a *adopter) hasten(now causal.Now) { a.nextAt = min(a.nextAt, max(now.Mono, a.restAt)) }

func (a *adopter) silence(now causal.Now, o topology.Origin) time.Duration {
	return time.Duration(now.Mono - a.heard[o].at)
}

// step handles what a shard reports to an adopter.
func (a *adopter) step(now causal.Now, m *causal.Message) {
	switch m.Kind {
	case causal.KindAdoptHeld:
		a.takeHeld(now, m.From, m.AdoptHeld())
	case causal.KindAdoptState:
		a.takeStatus(now, m.From, m.AdoptStatus())
	}
}

// tick continues the adoption of every origin that is silent, unless it may adopt nothing now.
func (a *adopter) tick(now causal.Now, mayAdopt bool) {
	a.observe(now)
	if now.Mono < a.nextAt {
		return
	}
	mayAdopt = mayAdopt && !a.isResharding()
	for o := topology.Origin(1); int(o) <= a.cfg.Topology.Origins(); o++ {
		c := a.cases[o]
		switch {
		case !mayAdopt || !a.isAdopterOf(now, o):
			if c != nil {
				a.bytes -= c.bytes
				delete(a.cases, o)
			}
			continue
		case c == nil:
			c = newAdoption(a.shared, o, a.excluded)
			a.cases[o] = c
		}
		a.bytes -= c.dropComplete()
		c.tick(now)
	}
	a.nextAt, a.restAt = a.nextTick(now), now.Mono+int64(adoptionPause)
}

// nextTick returns when tick has something to do next, if no answer comes and nothing is heard before.
func (a *adopter) nextTick(now causal.Now) int64 {
	next := causal.Never
	for o := topology.Origin(1); int(o) <= a.cfg.Topology.Origins(); o++ {
		silentAt := a.heard[o].at + int64(silenceLimit)
		if silentAt <= now.Mono {
			silentAt = now.Mono + int64(silenceInterval) // there may be more to collect
		}
		if c := a.cases[o]; c != nil {
			if c.isUnderWay() {
				silentAt = min(silentAt, now.Mono+int64(adoptPollInterval))
			}
			for _, s := range c.sources {
				silentAt = min(silentAt, s.askAt)
			}
		}
		next = min(next, silentAt)
	}
	return next
}

// isAdopterOf reports whether this leader adopts the writes of an origin. The first one is the leader of the origin's
// data center, then that of the next, and so on. Two of those that are not silent themselves may do it.
func (a *adopter) isAdopterOf(now causal.Now, o topology.Origin) bool {
	t, n := a.cfg.Topology, a.cfg.Topology.CoordinatorOf(o)
	if n == a.cfg.Self || int(n.Index) >= t.DCs[n.DC].RunningCoordinators() {
		return false
	}
	limit := silenceLimit
	for dc := n.DC; dc != a.cfg.Self.DC; dc = (dc + 1) % topology.DC(len(t.DCs)) {
		if a.silence(now, t.OriginOf(t.Leader(dc))) < silenceLimit {
			limit += successionDelay
		}
	}
	return limit <= silenceLimit+successionDelay && a.silence(now, o) >= limit
}

// takeHeld takes a put that a shard holds.
func (a *adopter) takeHeld(now causal.Now, from topology.Node, h causal.AdoptHeld) {
	c, t := a.cases[h.Origin], a.cfg.Topology
	ring := t.RingOf(from.DC)
	if c == nil || h.ID != a.cfg.Incarnation || h.Map != t.Map(ring) || !c.noteStart(from, h.Incarnation) {
		return
	}
	s, v := c.source(from), h.Record.Version
	if h.None {
		return
	}
	if !c.collects(v, a.limit.At(now)) || !lacksValue(&h) && t.Owner(ring, topology.SlotOf(h.Key)) != from {
		return
	}
	if v.HLC > a.known.SV(c.origin) {
		size := sizeOf(h.Key, h.Record.Value, 0) + causal.MissingDepBytes*h.Deps.Len() // as shards count it
		if a.bytes+size > maxAdoptedBytes {
			return // what is beyond waits until the origin is back
		}
		a.bytes += c.put(ring, from, &h, size)
	}
	if h.Before <= s.after {
		s.after = max(s.after, h.Number)
	}
	s.askAt = now.Mono + int64(pageInterval) // there may be another page
	a.hasten(now)
}

// takeStatus takes how far writes have come at a shard.
func (a *adopter) takeStatus(now causal.Now, from topology.Node, s causal.AdoptStatus) {
	ring := a.cfg.Topology.RingOf(from.DC)
	for _, v := range s.Versions {
		if c := a.cases[v.Origin]; c != nil && c.noteStart(from, s.Incarnation) && c.noteState(v, ring, from, s.State) {
			a.hasten(now)
		}
	}
}

// forgetExcluded forgets what adoptions have treated as received, clean or complete in place of an excluded shard that
// is back: it gets all of it again.
func (a *adopter) forgetExcluded(shard topology.Node) {
	for _, c := range a.cases {
		c.forgetStates(shard)
	}
}

// Adoption is the state of the adoption of the writes of one silent origin.
type Adoption struct {
	Origin topology.Origin
	// Writes are those that were collected and are not known to the origin to be complete, of which Adoptable have
	// their whole past, and Complete are in all rings.
	Writes, Adoptable, Complete int
}

// inProgress returns the adoptions, by origin.
func (a *adopter) inProgress() (all []Adoption) {
	for o := topology.Origin(1); int(o) <= a.cfg.Topology.Origins(); o++ {
		c := a.cases[o]
		if c == nil || len(c.order) == 0 {
			continue
		}
		s := Adoption{Origin: o, Writes: len(c.order)}
		for _, w := range c.order {
			if w.adoptable {
				s.Adoptable++
			}
			if w.isCleanEverywhere() {
				s.Complete++
			}
		}
		all = append(all, s)
	}
	return all
}
