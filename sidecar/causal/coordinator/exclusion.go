package coordinator

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// A data center that is lost is excluded by a person (PROTOCOL EXC): writes complete without its
// shards. To a coordinator these are as shards that acknowledge everything at once, and then say that they have lost
// it.

// exclusion knows which data centers are excluded, and decides from when on the coordinator applies that. What it means
// for writes in a lane is in excludedlane.go.
type exclusion struct {
	*shared
	host  exclusionHost
	log   *logState
	lanes *laneTable
	// active are those that the coordinator applies: durable, and in every message that it sends.
	active causal.Exclusions
	// known are also those that its configuration has declared, since learnedAt.
	known     causal.Exclusions
	learnedAt int64
	// blocked is a data center that the configuration excludes and that may have the last copy of some slot here; -1:
	// there is none.
	blocked int
	copies  copyInquiry
	foreign foreignWrites
}

// exclusionHost is what an exclusion asks of its coordinator.
type exclusionHost interface {
	// announce says in every message from here on which exclusions are applied.
	announce(x causal.Exclusions)
	writeCheckpoint(now causal.Now)
}

func newExclusion(s *shared, now causal.Now, host exclusionHost, log *logState, lanes *laneTable,
	foreign foreignWrites) exclusion {
	return exclusion{shared: s, host: host, log: log, lanes: lanes, foreign: foreign,
		known: causal.ExclusionsOf(s.cfg.Topology), learnedAt: now.Mono, blocked: -1}
}

// ShardExclusion says under which exclusion of its data center writes are completed without a shard, and under which it
// has begun again with nothing: until that is as great, they are.
type ShardExclusion struct {
	Shard              topology.Node
	Excluded, Rejoined uint32
}

// noteExclusion adds to what is known of a shard. It is durable with the next checkpoint.
func (s *State) noteExclusion(x ShardExclusion) {
	isShard := func(y ShardExclusion) bool { return y.Shard == x.Shard }
	s.ShardExclusions = slices.Clone(s.ShardExclusions)
	if i := slices.IndexFunc(s.ShardExclusions, isShard); i >= 0 {
		y := &s.ShardExclusions[i]
		y.Excluded, y.Rejoined = max(y.Excluded, x.Excluded), max(y.Rejoined, x.Rejoined)
		return
	}
	s.ShardExclusions = append(s.ShardExclusions, x)
}

// isExcluded reports whether writes are completed without a shard.
func (s *State) isExcluded(shard topology.Node) bool {
	return slices.ContainsFunc(s.ShardExclusions, func(x ShardExclusion) bool {
		return x.Shard == shard && x.Excluded > x.Rejoined
	})
}

// defaultExclusionDelay is the default of Config.ExclusionDelay.
const defaultExclusionDelay = 5 * time.Second

// learn takes the exclusions of a new configuration.
func (e *exclusion) learn(now causal.Now, x causal.Exclusions) {
	if !e.known.Covers(x) {
		e.known, e.learnedAt = e.known.With(x), now.Mono
	}
}

// admits reports whether a message may be handled by the exclusions of its sender. If it is the first one with others
// that are known, they are made durable first; the message is lost, as any may be.
func (e *exclusion) admits(now causal.Now, m *causal.Message) bool {
	if l := e.lanes.lanes[m.From]; l != nil {
		l.applies = l.applies.With(m.Exclusions())
	}
	switch e.active.Check(m, e.known, e.cfg.Broken) {
	case causal.ExclusionsRefuse:
		return false
	case causal.ExclusionsNew:
		e.exclude(now, m.Exclusions())
		return e.active.Covers(m.Exclusions())
	}
	return true
}

// exclude makes durable that the coordinator applies further exclusions. Only a coordinator in use may complete writes
// without the excluded shards: the others have no incomplete writes, and when they come into use the shards may be
// back, since these wait for coordinators in use only.
func (e *exclusion) exclude(now causal.Now, x causal.Exclusions) {
	p := &e.log.pending
	if p.Exclusions.Covers(x) {
		return
	}
	before := p.Exclusions
	p.Exclusions = before.With(x)
	for dc := range topology.DC(len(e.cfg.Topology.DCs)) {
		if n := p.Exclusions.Of(dc); n > before.Of(dc) && e.log.isInUse() {
			for i := range e.cfg.Topology.DCs[dc].RunningMiddlemen() {
				shard := topology.Node{DC: dc, Part: topology.Middleman, Index: uint64(i)}
				p.note(causal.ShardMark{DC: dc, Index: uint64(i), HasData: true})
				p.noteExclusion(ShardExclusion{Shard: shard, Excluded: n})
			}
		}
	}
	if e.log.checkpointIndex > 0 {
		e.host.writeCheckpoint(now)
		return
	}
	// The log is empty, and nothing was done by it: the checkpoint that begins it has the exclusions.
	e.setActive(p.Exclusions)
}

func (e *exclusion) setActive(x causal.Exclusions) {
	e.active, e.known = x, e.known.With(x)
	e.host.announce(x)
}

// activateDurable applies the exclusions in the newest durable checkpoint. It returns false if it has before.
func (e *exclusion) activateDurable() bool {
	x := e.log.durable.Exclusions
	if e.active.Covers(x) {
		return false
	}
	e.setActive(e.active.With(x))
	return true
}

// isExcluded reports whether writes are completed without the shard of a slot in a ring.
func (e *exclusion) isExcluded(r topology.RingID, slot topology.Slot) bool {
	return e.lanes.laneTo(r, slot).excluded
}

// isElsewhere reports whether the shard of a slot in another ring has what is asked for, is not excluded, and applies
// the exclusion of the shard in r. Such a shard forgets nothing before a third one has the write. Otherwise nobody
// might have it: two sides exclude each other, each without knowing of the other one, and then hear of both.
func (e *exclusion) isElsewhere(r topology.RingID, slot topology.Slot, has func(topology.RingID) bool) bool {
	if e.cfg.Broken.Has(causal.CompleteNowhere) {
		return true
	}
	l := e.lanes.laneTo(r, slot)
	dc := l.mm.DC
	applies := func(o *lane) bool {
		return o.applies.Of(dc) >= e.active.Of(dc) || e.cfg.Broken.Has(causal.ExclusionUnmarked) // nobody says
	}
	for ring := range topology.RingID(len(e.cfg.Topology.Rings)) {
		if o := e.lanes.laneTo(ring, slot); o != l && !o.excluded && applies(o) && has(ring) {
			return true
		}
	}
	return false
}

// hasForeign reports whether a ring has acknowledged writes of other origins, or shards have said that these are
// complete.
func (e *exclusion) hasForeign(r topology.RingID, deps []causal.Dep) bool {
	return e.foreign.areIn(r, deps)
}

// noteRejoined notes that a shard has begun again with nothing, under the newest exclusion of its data center that is
// applied here.
func (e *exclusion) noteRejoined(shard topology.Node, its causal.Exclusions) {
	if n := e.active.Of(shard.DC); n > 0 && its.Of(shard.DC) >= n && !e.cfg.Broken.Has(causal.ExcludeForEver) {
		e.log.pending.noteExclusion(ShardExclusion{Shard: shard, Rejoined: n})
	}
}

// Exclusion is the state of one data center that was excluded.
type Exclusion struct {
	DC topology.DC
	// Declared is how often the configuration says that it was excluded, Applied the number by which this coordinator
	// goes.
	Declared, Applied uint32
	// Active: this coordinator applies the newest exclusion that its configuration declares. Otherwise it waits for
	// others to learn of it, or, if LastCopy, the data center may have the only copy of some data.
	Active, LastCopy bool
	// Without is how many shards of it writes are completed without; Shards is how many it has.
	Without, Shards int
}

// state returns the state of each data center that was ever excluded.
func (e *exclusion) state() (all []Exclusion) {
	for dc := range topology.DC(len(e.cfg.Topology.DCs)) {
		n := e.known.Of(dc)
		if n == 0 {
			continue
		}
		x := Exclusion{DC: dc, Declared: n, Applied: e.active.Of(dc), Active: e.active.Of(dc) >= n,
			LastCopy: e.blocked == int(dc)}
		for i := range e.cfg.Topology.DCs[dc].RunningMiddlemen() {
			x.Shards++
			shard := topology.Node{DC: dc, Part: topology.Middleman, Index: uint64(i)}
			if l := e.lanes.lanes[shard]; l != nil && l.excluded {
				x.Without++
			}
		}
		all = append(all, x)
	}
	return all
}
