package group

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// Role is what a member does.
type Role uint8

// The roles.
const (
	Starting  Role = iota // its start is not durable yet
	Outside               // it is in no configuration, and asks to join
	Following             // it follows its primary
	Electing              // it does not hear of its primary, and tries to take over
	Aligning              // it is the primary, and brings the logs of the others in step with its own
	Serving               // it is the primary
	Broken                // it has lost what it had acknowledged, and waits until others can do without it
)

var roleNames = [...]string{"starting", "outside", "following", "electing", "aligning", "serving", "broken"}

func (r Role) String() string { return roleNames[r] }

// Status is what a member says about itself.
type Status struct {
	Role   Role
	Config Config
	// Pending are members that may have joined unnoticed. Nothing is committed without them.
	Pending []ID
	// Uncertain are the members of Config that the group may already do without: a primary has proposed that, and does
	// not know the outcome yet.
	Uncertain []ID
	Commit    uint64
	Base      uint64
	Last      uint64
	Bytes     int
	// Frozen says why the configuration is not changed until a person decides; "": it can be changed.
	Frozen string
	// Foreign: it is frozen because the register holds the configuration of another group, which AcceptRegister would
	// replace.
	Foreign bool
	// Diverged: records that are committed here differ from the primary's, so this is the volume of another group or of
	// one that a person has divided. It does not join before it is emptied.
	Diverged bool
	// Impaired: the user's storage does not respond, and this member keeps silent.
	Impaired bool
	// Lost: every volume of the configuration is gone or damaged.
	Lost bool
	// Replaced: the group of this volume was given up, and another one has taken its place.
	Replaced bool
	// Absent are, if a person may give the group up though it is not lost, the members that are not heard of.
	Absent []string
	// WhyNotGivenUp is set while the group cannot be given up here.
	WhyNotGivenUp error
}

// LogBytes returns the size of the log, in bytes.
func (g *Group) LogBytes() int { return g.log.bytes }

// Status returns the status.
func (g *Group) Status() Status {
	s := Status{Config: g.state.Config, Pending: g.state.Pending, Uncertain: g.uncertain(), Commit: g.commit,
		Base: g.log.first(), Last: g.log.last(), Bytes: g.log.bytes,
		Frozen: g.frozen, Foreign: g.frozen == frozenForeign, Lost: g.lost, Diverged: g.diverged, Impaired: g.impaired,
		Replaced: g.isReplaced()}
	switch {
	case !g.ready():
	case g.damaged:
		s.Role = Broken
	case g.lead != nil && g.lead.serving:
		s.Role = Serving
	case g.lead != nil:
		s.Role = Aligning
	case !g.isMember():
		s.Role = Outside
	case g.suspicion.started, g.frozen != "" && g.tickedAt-g.heardAt > int64(g.opts.FailoverAfter):
		// frozen, it may not try
		s.Role = Electing
	default:
		s.Role = Following
	}
	s.Absent, s.WhyNotGivenUp = g.canGiveUp(causal.Now{Mono: g.tickedAt})
	return s
}

// uncertain returns the members of the configuration that a swap which may have been done leaves out. Those that one of
// unknown outcome has left out are not remembered, so until that is settled it may be any of them.
func (g *Group) uncertain() (ids []ID) {
	l := g.lead
	if l == nil || !l.unsettled && (l.change == nil || !l.change.submitted) {
		return nil
	}
	for _, id := range g.state.Config.Members {
		if id != g.self && (l.unsettled || !l.change.config.Has(id)) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Problem says for people what keeps the group from changing, or this member out of it; empty: nothing.
func (s *Status) Problem() string {
	switch {
	case s.Replaced && s.Lost:
		return "the group of this volume was given up, and the volumes of all members of the one that has taken its " +
			"place are gone or damaged as well"
	case s.Replaced:
		return "the group of this volume was given up, and another one has taken its place: what is here is void; " +
			"the member joins that one when its volume is empty"
	case s.Frozen != "":
		return "it is not changed until somebody decides: " + s.Frozen
	case s.Lost:
		return "the volumes of all its members are gone or damaged: put that of one back as it was when its process " +
			"stopped, or give up what they held; see docs/disasters.md, All members of a shard are lost, and All " +
			"members of a coordinator are lost"
	case s.Diverged:
		return "this volume belongs to another group: empty it, or put back the right one"
	}
	return ""
}

// isLost reports whether every member of the configuration is known to have lost its volume.
func (g *Group) isLost() bool {
	for _, id := range g.present().Members {
		if id == g.self && !g.damaged {
			return false
		}
		if id.Name == g.self.Name {
			continue // this volume is another one, or damaged
		}
		if !slices.ContainsFunc(g.answers, func(a answer) bool { return g.hasLost(id, &a) }) {
			return false
		}
	}
	return g.state.Config.Epoch > 0
}
