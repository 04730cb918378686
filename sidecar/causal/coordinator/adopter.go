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
	heard  []heardOrigin // by origin
	cases  map[topology.Origin]*adoption
	bytes  int
	nextAt int64
	restAt int64 // until then it rests
}

// heardOrigin is when something new was heard of an origin.
type heardOrigin struct {
	sum causal.HLC // of all vector entries; it changes when one does
	at  int64
}

func newAdopter(now causal.Now, origins int) adopter {
	a := adopter{heard: make([]heardOrigin, origins+1), cases: map[topology.Origin]*adoption{}}
	for o := range a.heard {
		a.heard[o].at = now.Mono
	}
	return a
}

// observe notes of which origins something new was heard.
func (a *adopter) observe(now causal.Now, known *causal.Stability, rings int) {
	for o := range a.heard {
		sum := known.SV(topology.Origin(o))
		for r := range rings {
			sum += known.RV(topology.RingID(r), topology.Origin(o))
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

// adoptSilent continues the adoption of every origin that is silent.
func (c *Coordinator) adoptSilent(now causal.Now) {
	if c.leader == nil {
		return
	}
	c.adopter.observe(now, c.known, len(c.cfg.Topology.Rings))
	if now.Mono < c.adopter.nextAt {
		return
	}
	defer func() { c.adopter.nextAt, c.adopter.restAt = c.nextAdoption(now), now.Mono+int64(adoptionPause) }()
	// what moves meanwhile could be missed
	mayAdopt := c.isEstablished() && c.maps.Pending()|c.cfg.Topology.Resharding() == 0
	for o := topology.Origin(1); int(o) <= c.cfg.Topology.Origins(); o++ {
		a := c.adopter.cases[o]
		switch {
		case !mayAdopt || !c.isAdopterOf(now, o):
			if a != nil {
				c.adopter.bytes -= a.bytes
				delete(c.adopter.cases, o)
			}
			continue
		case a == nil:
			a = newAdoption(o, len(c.cfg.Topology.Rings))
			c.adopter.cases[o] = a
		}
		c.continueAdoption(now, a)
	}
}

// nextAdoption returns when adoptSilent has something to do next, if no answer comes and nothing is heard before.
func (c *Coordinator) nextAdoption(now causal.Now) int64 {
	next := causal.Never
	for o := topology.Origin(1); int(o) <= c.cfg.Topology.Origins(); o++ {
		silentAt := c.adopter.heard[o].at + int64(silenceLimit)
		a := c.adopter.cases[o]
		if silentAt <= now.Mono {
			silentAt = now.Mono + int64(silenceInterval) // there may be more to collect
		}
		if a != nil && a.isUnderWay() {
			silentAt = min(silentAt, now.Mono+int64(adoptPollInterval))
		}
		if a != nil {
			for _, s := range a.shards {
				silentAt = min(silentAt, s.askAt)
			}
		}
		next = min(next, silentAt)
	}
	return next
}

// isAdopterOf reports whether this leader adopts the writes of an origin. The first one is the leader of the origin's
// data center, then that of the next, and so on. Two of those that are not silent themselves may do it.
func (c *Coordinator) isAdopterOf(now causal.Now, o topology.Origin) bool {
	t, n := c.cfg.Topology, c.cfg.Topology.CoordinatorOf(o)
	if n == c.cfg.Self || int(n.Index) >= t.DCs[n.DC].RunningCoordinators() {
		return false
	}
	limit := silenceLimit
	for dc := n.DC; dc != c.cfg.Self.DC; dc = (dc + 1) % topology.DC(len(t.DCs)) {
		if c.adopter.silence(now, t.OriginOf(t.Leader(dc))) < silenceLimit {
			limit += successionDelay
		}
	}
	return limit <= silenceLimit+successionDelay && c.adopter.silence(now, o) >= limit
}

// continueAdoption does what is due for the writes of a silent origin.
func (c *Coordinator) continueAdoption(now causal.Now, a *adoption) {
	c.adopter.bytes -= a.dropUpTo(c.known.SV(a.origin))
	c.askForHeld(now, a)
	if len(a.order) == 0 {
		return
	}
	a.findChains(c.known.SV(a.origin), c.cfg.Broken.Has(causal.AdoptOpenChain))
	owner := c.cfg.Topology.Owner
	a.settle(owner, func(*adoptedWrite) bool { return true })
	for _, w := range a.order {
		w.adoptable = w.settled
	}
	for r := range topology.RingID(len(c.cfg.Topology.Rings)) {
		c.adoptWithout(a, r)
		c.putAdopted(now, a, r)
		if a.hasIn(r, causal.AdoptionReceived) {
			a.settle(owner, func(w *adoptedWrite) bool {
				return w.adoptable && (w.states[r] >= causal.AdoptionReceived ||
					c.cfg.Broken.Has(causal.AdoptUnreceived))
			})
			c.sendSteps(now, a, r, causal.AdoptionReceived, causal.AdoptionReceived)
		}
		if a.hasIn(r, causal.AdoptionConfirmed) {
			a.settle(owner, func(w *adoptedWrite) bool {
				return w.adoptable && w.states[r] >= causal.AdoptionConfirmed
			})
			c.cleanWithout(a, r)
			c.sendSteps(now, a, r, causal.AdoptionConfirmed, causal.AdoptionConfirmed)
		}
	}
	for _, w := range a.order {
		w.settled = w.isCleanEverywhere()
	}
	for r := range topology.RingID(len(c.cfg.Topology.Rings)) {
		c.sendSteps(now, a, r, causal.AdoptionClean, causal.AdoptionComplete)
	}
}

// askForHeld asks the shards for what they hold.
func (c *Coordinator) askForHeld(now causal.Now, a *adoption) {
	for n := range c.middlemen() {
		s := a.shard(n)
		if now.Mono < s.askAt {
			continue
		}
		s.askAt = now.Mono + int64(heldInterval)
		c.Send(causal.AdoptQuery{ID: c.cfg.Incarnation, Origin: a.origin, After: s.after,
			Incarnation: s.incarnation}.Message(c.cfg.Self, n))
	}
}

// handleAdoptHeld takes a put that a shard holds.
func (c *Coordinator) handleAdoptHeld(now causal.Now, from topology.Node, h causal.AdoptHeld) {
	a, t := c.adopter.cases[h.Origin], c.cfg.Topology
	ring := t.RingOf(from.DC)
	if a == nil || h.ID != c.cfg.Incarnation || h.Map != t.Map(ring) || !c.noteAdoptingShard(a, from, h.Incarnation) {
		return
	}
	s, v := a.shard(from), h.Record.Version
	if h.None {
		return
	}
	if v.Origin != h.Origin || v.HLC > c.limit.At(now) ||
		!lacksValue(&h) && t.Owner(ring, topology.SlotOf(h.Key)) != from {
		return
	}
	if v.HLC > c.known.SV(a.origin) {
		size := sizeOf(h.Key, h.Record.Value, 0) + causal.MissingDepBytes*h.Deps.Len() // as shards count it
		if c.adopter.bytes+size > maxAdoptedBytes {
			return // what is beyond waits until the origin is back
		}
		c.adopter.bytes += a.add(ring, from, &h, size, c.cfg.Broken.Has(causal.AdoptTrustsHolder))
	}
	if h.Before <= s.after {
		s.after = max(s.after, h.Number)
	}
	s.askAt = now.Mono + int64(pageInterval) // there may be another page
	c.adopter.hasten(now)
}

// noteAdoptingShard notes the incarnation of a shard, and reports whether it is the newest one. Another one has
// forgotten what was staged and which writes are complete, so it gets all of it again.
func (c *Coordinator) noteAdoptingShard(a *adoption, n topology.Node, incarnation uint64) bool {
	s, t := a.shard(n), c.cfg.Topology
	if n.Part != topology.Middleman || incarnation < s.incarnation {
		return false
	}
	if incarnation == s.incarnation {
		return true
	}
	if s.incarnation != 0 {
		ring := t.RingOf(n.DC)
		for _, w := range a.order {
			if t.Owner(ring, w.slot()) == n {
				w.states[ring], w.sent[ring] = causal.AdoptionUnknown, adoptSent{}
			}
		}
	}
	s.incarnation, s.after, s.askAt = incarnation, 0, 0
	return true
}

// putAdopted puts the writes to the shards of a ring that do not have them.
func (c *Coordinator) putAdopted(now causal.Now, a *adoption, r topology.RingID) {
	unanswered := map[topology.Node]int{}
	for _, w := range a.order {
		if w.lacks(r) && w.sent[r].at != 0 {
			unanswered[c.cfg.Topology.Owner(r, w.slot())] += w.size
		}
	}
	for _, n := range c.cfg.Topology.RingMiddlemen(r) {
		a.shard(n).window.begin(now, unanswered[n], uint64(a.origin)<<32+uint64(n.DC)<<16+n.Index)
	}
	for _, w := range a.order {
		if !w.lacks(r) {
			continue
		}
		to, s := c.cfg.Topology.Owner(r, w.slot()), &w.sent[r]
		window := &a.shard(to).window
		if s.at == 0 && !window.admits(w.size) || s.at != 0 && !window.admitsAgain(w.size) {
			continue
		}
		*s = adoptSent{at: now.Mono}
		c.Send(causal.AdoptPut{Key: w.key, Record: w.record, Generation: w.generation, Deps: w.deps,
			Map: c.cfg.Topology.Map(r)}.Message(c.cfg.Self, to))
	}
}

// sendSteps tells the shards of a ring of the settled writes that are in a state there how far their past has come,
// again and again until they are in a later one.
func (c *Coordinator) sendSteps(now causal.Now, a *adoption, r topology.RingID, in, past causal.AdoptionState) {
	steps := map[topology.Node][]causal.Version{}
	for _, w := range a.order {
		s := &w.sent[r]
		if !w.settled || w.complete || w.states[r] != in ||
			s.step == past && now.Mono-s.at < int64(adoptPollInterval)<<min(max(s.times-1, 0), maxPollDoublings) {
			continue
		}
		if s.step != past {
			s.times = 0
		}
		*s = adoptSent{at: now.Mono, step: past, times: s.times + 1}
		to := c.cfg.Topology.Owner(r, w.slot())
		steps[to] = append(steps[to], w.record.Version)
	}
	for _, n := range c.cfg.Topology.RingMiddlemen(r) {
		for versions := steps[n]; len(versions) > 0; {
			batch := versions[:min(len(versions), maxStepVersions)]
			versions = versions[len(batch):]
			step := causal.AdoptStep{Past: past, Versions: batch, Incarnation: a.shard(n).incarnation,
				Map: c.cfg.Topology.Map(r)}
			c.Send(step.Message(c.cfg.Self, n))
		}
	}
}

// handleAdoptStatus takes how far writes have come at a shard.
func (c *Coordinator) handleAdoptStatus(now causal.Now, from topology.Node, s causal.AdoptStatus) {
	t := c.cfg.Topology
	ring := t.RingOf(from.DC)
	for _, v := range s.Versions {
		a := c.adopter.cases[v.Origin]
		if a == nil || !c.noteAdoptingShard(a, from, s.Incarnation) {
			continue
		}
		if w := a.writes[v.HLC]; w != nil && t.Owner(ring, w.slot()) == from && s.State > w.states[ring] {
			if a.shard(from).window.heard = true; w.states[ring] == causal.AdoptionUnknown {
				w.sent[ring] = adoptSent{}
			}
			w.states[ring] = min(s.State, causal.AdoptionComplete)
			c.adopter.hasten(now)
		}
	}
}

// Adoption is the state of the adoption of the writes of one silent origin.
type Adoption struct {
	Origin topology.Origin
	// Writes are those that were collected and are not known to the origin to be complete, of which Adoptable have
	// their whole past, and Complete are in all rings.
	Writes, Adoptable, Complete int
}

// Adoptions returns those in progress, by origin.
func (c *Coordinator) Adoptions() (all []Adoption) {
	for o := topology.Origin(1); int(o) <= c.cfg.Topology.Origins(); o++ {
		a := c.adopter.cases[o]
		if a == nil || len(a.order) == 0 {
			continue
		}
		s := Adoption{Origin: o, Writes: len(a.order)}
		for _, w := range a.order {
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
