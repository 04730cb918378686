package group

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// PeerState is how a primary finds another member.
type PeerState uint8

// The states of another member. The first that applies counts.
const (
	PeerReplaced PeerState = iota + 1 // its name has another volume now, which has not asked to join yet
	PeerDamaged                       // it has lost what it had acknowledged
	PeerSilent                        // nothing is heard of it
	PeerStalled                       // it answers, and does not make durable what it is sent
	PeerJoining                       // it is in no configuration yet, and gets the log
	PeerInStep                        // it is in the configuration, and follows
)

// PeerHealth is what a primary knows of another member.
type PeerHealth struct {
	Name  string
	State PeerState
	// Heard is how long ago it was heard of last; negative: never in this session.
	Heard time.Duration
	// Behind is how many records of the log it has not acknowledged, and BehindBytes their size; both 0 of one that is
	// not sent any.
	Behind      uint64
	BehindBytes int
}

// Health is how a member finds its group. Times are ages, at the time of the call.
type Health struct {
	// Wanted are the names that should be members.
	Wanted []string
	// Peers are set by a primary: all other members, and those that should be.
	Peers []PeerHealth
	// Short is for how long the configuration has been without a wanted member, Frozen for how long the register is not
	// believed, and Lost for how long all volumes are known to be gone or damaged; negative: it is not so. They count
	// from when this process has noticed.
	Short, Frozen, Lost time.Duration
	// RegisterAnswered is how long ago the register has answered last, and RegisterAway for how long it has failed to,
	// or has not taken a change that this member needs, e.g. because etcd has no space; negative: it never has, or it
	// does both. Only members that read it regularly know: HasRegister.
	HasRegister                    bool
	RegisterAnswered, RegisterAway time.Duration
}

// period is a state of affairs that has lasted since a time.
type period struct {
	is   bool
	from int64
}

func (p *period) set(now causal.Now, is bool) {
	if is && !p.is {
		p.from = now.Mono
	}
	p.is = is
}

// age returns how long it has lasted; negative: it does not.
func (p *period) age(now causal.Now) time.Duration {
	if !p.is {
		return -1
	}
	return time.Duration(max(0, now.Mono-p.from))
}

// troubles are the periods of a Health.
type troubles struct {
	short, frozen, lost, registerAway period
	// changesFail: a swap has failed, and is needed still.
	changesFail period
	// answered began when the register answered last.
	answered period
}

// noteTroubles notes since when the group is as it is.
func (g *Group) noteTroubles(now causal.Now) {
	missing := slices.ContainsFunc(g.desired.Names, func(name string) bool { return !g.state.Config.hasName(name) })
	g.troubles.short.set(now, missing)
	g.troubles.frozen.set(now, g.frozen != "")
	g.troubles.lost.set(now, g.lost)
}

// noteRead notes whether the register has answered.
func (g *Group) noteRead(now causal.Now, answered bool) {
	g.troubles.registerAway.set(now, !answered)
	if answered {
		g.troubles.answered = period{true, now.Mono}
	}
}

// Health returns how this member finds its group.
func (g *Group) Health(now causal.Now) Health {
	g.noteTroubles(now)
	t := &g.troubles
	h := Health{Wanted: g.desired.Names, Short: t.short.age(now), Frozen: t.frozen.age(now), Lost: t.lost.age(now),
		HasRegister:      g.opts.Register && (g.lead != nil || !g.isMember() || g.suspicion.started),
		RegisterAnswered: t.answered.age(now), RegisterAway: max(t.registerAway.age(now), t.changesFail.age(now))}
	if g.lead == nil {
		return h
	}
	var names []string
	for _, id := range g.state.Config.Members {
		names = append(names, id.Name)
	}
	for _, name := range slices.Concat(names, g.desired.Names) {
		if name != g.self.Name && !slices.ContainsFunc(h.Peers, func(p PeerHealth) bool { return p.Name == name }) {
			h.Peers = append(h.Peers, g.peerHealth(now, name))
		}
	}
	return h
}

// peerHealth returns what this primary knows of the member with a name.
func (g *Group) peerHealth(now causal.Now, name string) PeerHealth {
	h := PeerHealth{Name: name, State: PeerSilent, Heard: -1}
	var best *peer
	for _, p := range g.lead.peers {
		// A name has two peers while its new volume joins and the old one is still necessary: the new one says more.
		if p.id.Name == name && (best == nil || best.gone) {
			best = p
		}
	}
	if best == nil {
		for _, d := range g.lead.departed {
			if d.name == name {
				h.State = d.state
				if d.isHeard {
					h.Heard = time.Duration(max(0, now.Mono-d.heardAt))
				}
			}
		}
		return h
	}
	h.State = g.stateOf(now, best)
	if best.isHeard {
		h.Heard = time.Duration(max(0, now.Mono-best.heardAt))
	}
	for pos := max(best.match+1, g.log.firstHeld()); pos <= g.log.last(); pos++ {
		h.BehindBytes += len(g.log.at(pos).Data)
	}
	h.Behind = g.log.last() - max(min(best.match, g.log.last()), g.log.first()-1)
	return h
}

// stateOf returns how a primary finds a peer.
func (g *Group) stateOf(now causal.Now, p *peer) PeerState {
	switch {
	case p.gone:
		return p.goneAs
	case now.Mono-p.heardAt > int64(g.opts.SilentAfter):
		return PeerSilent
	case g.isSilent(now, p):
		return PeerStalled
	case !g.state.Config.Has(p.id):
		return PeerJoining
	}
	return PeerInStep
}

// departed is a member that a primary has let go.
type departed struct {
	name    string
	state   PeerState
	heardAt int64
	isHeard bool
}

// letGo remembers what was known of a peer that is removed.
func (l *leadership) letGo(p *peer) {
	state := PeerSilent
	if p.gone {
		state = p.goneAs
	}
	l.departed = slices.DeleteFunc(l.departed, func(d departed) bool { return d.name == p.id.Name })
	if len(l.departed) < maxPending {
		l.departed = append(l.departed, departed{p.id.Name, state, p.heardAt, p.isHeard})
	}
}
