package group

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// suspicion is how far a member has come that does not hear of its primary.
//
// It proposes a configuration without those that do not answer, with itself as the primary. Why nothing else is needed:
// every member of the present configuration has everything that is committed in it, and as long as this one has not
// begun its session, it goes on to receive and to acknowledge. When it has begun, nothing is committed any more in the
// earlier configuration, because this member does not acknowledge it. So it does not matter when a swap applies, nor
// how often a member changes its mind.
type suspicion struct {
	stage   suspicionStage
	until   int64 // when the stage ends
	started bool
}

type suspicionStage uint8

const (
	suspectRead  suspicionStage = iota // what does the register hold?
	suspectProbe                       // who answers?
	suspectSwap                        // a swap is in progress
)

// answer is what a member has answered to the last probe.
type answer struct {
	id ID
	*Answer
}

// watchPrimary takes over when nothing is heard of the primary.
func (g *Group) watchPrimary(now causal.Now) {
	s := &g.suspicion
	if g.damaged || g.frozen != "" || g.impaired || g.isStuck(now) {
		if g.damaged || g.frozen != "" && now.Mono-g.heardAt > int64(g.opts.FailoverAfter) {
			g.knock(now) // the others may know better
		}
		return
	}
	// Members act one after the other, so that they do not compete.
	rank := 0
	for _, id := range g.state.Config.Members {
		if id.Name == g.self.Name {
			break
		}
		if id != g.state.Config.Primary {
			rank++
		}
	}
	if !g.accept && now.Mono-g.heardAt < int64(g.opts.FailoverAfter)+int64(rank)*int64(g.opts.Retry) ||
		!g.opts.Register {
		*s, g.troubles.changesFail.is = suspicion{}, false
		return
	}
	if !s.started {
		*s = suspicion{started: true}
		g.register.fresh = false
	}
	switch s.stage {
	case suspectRead:
		if !g.register.fresh {
			g.read(now)
			return
		}
		s.stage, s.until = suspectProbe, now.Mono+int64(g.opts.Retry)
		g.probe(g.state.Config.Members, false)
	case suspectProbe:
		if now.Mono >= s.until || len(g.answers) == len(g.state.Config.Members)-1 {
			g.takeOver(now)
		}
	}
}

// takeOver proposes this member as the primary of those that have answered.
func (g *Group) takeOver(now causal.Now) {
	s := &g.suspicion
	if !g.register.fresh || !g.canRequest(now) {
		s.stage = suspectRead
		return
	}
	c := &g.state.Config
	next := Config{Group: c.Group, Epoch: max(c.Epoch, g.register.epoch) + 1, Primary: g.self, Nonce: g.newNonce(),
		Replaced: c.Replaced}
	for _, id := range c.Members {
		a := g.answerOf(id)
		if id == c.Primary && a != nil && !a.Damaged && !g.accept {
			// It is there after all. It may be starting, and what this member hears of it is late.
			g.heardAt, *s = now.Mono, suspicion{}
			return
		}
		if id == g.self || a != nil && !a.Damaged {
			next.Members = append(next.Members, id)
		}
	}
	if !next.Has(g.self) { // only with rules broken: this member is in no configuration
		next.Members = append(next.Members, g.self)
	}
	s.stage = suspectSwap
	g.swap(now, next)
}

// knock asks the primary to let this member join, creates the group if there is none yet, and finds out whether all
// volumes of the group are lost.
func (g *Group) knock(now causal.Now) {
	if now.Mono < g.knockAt {
		return
	}
	g.knockAt = now.Mono + int64(g.opts.Retry)
	if !g.damaged && g.state.Config.Epoch == 0 {
		g.create(now)
		if g.lead != nil {
			return
		}
	}
	if g.replaceLost(now) {
		return
	}
	g.read(now)
	if g.opts.Broken.Has(causal.OutsiderLeads) && g.register.fresh && !g.damaged && g.state.Config.Epoch > 0 &&
		now.Mono-g.heardAt > int64(g.opts.FailoverAfter) {
		g.takeOver(now)
		return
	}
	targets := slices.Clone(g.present().Members)
	add := func(name string) {
		if !slices.ContainsFunc(targets, func(id ID) bool { return id.Name == name }) {
			targets = append(targets, ID{Name: name})
		}
	}
	for _, id := range g.register.members { // the group may have moved on to members that this one has never heard of
		add(id.Name)
	}
	for _, name := range g.desired.Names {
		add(name)
	}
	g.lost = g.isLost()
	g.onlyNewVolumes = g.hasOnlyNewVolumes()
	g.givesUpItself = g.onlyNewVolumes && g.replaceable
	g.probe(targets, true)
}

// create makes the first configuration, if nobody knows of an earlier one.
func (g *Group) create(now causal.Now) {
	names := g.desired.Names
	if len(names) == 0 || names[0] != g.self.Name {
		return
	}
	if g.opts.External && g.foundation != g.self.Volume {
		return // the storage is not that of a member yet, or of another group
	}
	first := Config{Group: g.self.Volume, Epoch: 1, Members: []ID{g.self}, Primary: g.self}
	if !g.opts.Register {
		if len(names) == 1 {
			first.Nonce = g.newNonce()
			g.learn(now, "", &first)
		}
		return
	}
	for _, name := range names[1:] {
		i := slices.IndexFunc(g.answers, func(a answer) bool { return a.id.Name == name })
		if i < 0 || !g.answers[i].Fresh {
			if g.opts.Broken.Has(causal.CreateUnasked) {
				continue
			}
			return
		}
		if !g.opts.External { // there, the others get the storage first
			first.Members = append(first.Members, g.answers[i].id)
		}
	}
	if g.register.fresh && g.register.epoch == 0 && g.canRequest(now) {
		first.Nonce = g.newNonce()
		g.swap(now, first)
	}
}

// probe asks members who they are. The answers to earlier probes are forgotten.
func (g *Group) probe(targets []ID, join bool) {
	g.probed++
	g.answers = g.answers[:0]
	for _, id := range targets {
		if id.Name != g.self.Name {
			g.send(ID{Name: id.Name}, &Probe{Number: g.probed, Group: g.state.Config.Group, Join: join})
		}
	}
}

// stepProbe answers a probe. A primary also takes note of a member that would like to join.
func (g *Group) stepProbe(now causal.Now, from ID, p *Probe) {
	if g.isStuck(now) {
		return
	}
	g.answer(from, p.Number)
	l := g.lead
	if l == nil || p.Group != 0 && p.Group != g.state.Config.Group {
		return
	}
	for _, other := range l.peers {
		if other.id.Name == from.Name && other.id != from {
			other.gone, other.goneAs = true, PeerReplaced
		}
	}
	if known := g.findPeer(from); known != nil && !slices.Contains(g.required(), from) {
		known.heardAt, known.isHeard = now.Mono, true
	}
	if p.Join && l.serving && g.desired.has(from.Name) && len(l.peers) < maxPending {
		g.peerOf(now, from)
	}
}

// answer says who this member is and what it knows.
func (g *Group) answer(to ID, number uint64) {
	if to.Name == g.self.Name {
		return
	}
	serving := g.lead != nil && g.lead.serving
	g.send(to, &Answer{Number: number, Cluster: g.state.Cluster, Config: g.state.Config, Session: g.state.Session,
		Damaged: g.damaged,
		Fresh:   !g.damaged && g.state.Config.Epoch == 0 && g.log.last() == 0 && !g.opts.Occupied, Serving: serving,
		Blank: g.state.Config.Epoch > 0 && g.isBlank() && (!g.opts.External || g.opts.Blank),
		Whole: serving && g.whole && len(g.state.Config.Replaced) > 0})
}

// stepAnswer takes in who another member is and what it knows.
func (g *Group) stepAnswer(now causal.Now, from ID, a *Answer) {
	// Also one with the volume of another group says that the volume is gone which should be there.
	if a.Number == g.probed && !slices.ContainsFunc(g.answers, func(b answer) bool { return b.id == from }) {
		g.answers = append(g.answers, answer{from, a})
	}
	if g.isForeign(&a.Config) {
		g.diverged = g.diverged || a.Serving
		g.noteReplaced(now, &a.Config)
		g.noteAlive(now, from, a.Damaged)
		if g.isReplaced() && a.Whole {
			g.events = append(g.events, Event{Kind: Reset})
		}
		return
	}
	g.learn(now, a.Cluster, &a.Config)
	g.noteAlive(now, from, a.Damaged)
	if l := g.lead; l != nil {
		for _, p := range l.peers {
			switch {
			case p.id.Name != from.Name:
			case p.id != from:
				p.gone, p.goneAs = true, PeerReplaced
			case a.Damaged:
				p.gone, p.goneAs = true, PeerDamaged
			}
		}
		g.plan(now)
	}
	if g.damaged && a.Serving && a.Config.Epoch >= g.state.Config.Epoch && !a.Config.Has(g.self) {
		g.events = append(g.events, Event{Kind: Reset})
	}
}

func (g *Group) answerOf(id ID) *answer {
	for i := range g.answers {
		if g.answers[i].id == id {
			return &g.answers[i]
		}
	}
	return nil
}
