package group

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// A group whose volumes are all lost (isLost) can be given up. Then another group takes its place in the register, with
// a member that has nothing. It has another name, and names the one that it replaces: a volume of that one that comes
// back anyway neither joins nor serves.
//
// A person gives a group up (AcceptLoss). It is also done without one if nothing is lost by it (hasOnlyNewVolumes,
// SetReplaceable).

// absentAfter is for how long a member of a shard's group was not heard of when a person may give up its volume as
// well. It is longer than any pause after which the others take over.
const absentAfter = int64(10e9)

var errNotLost = errors.New(
	"not all volumes of the group are known to be lost: bring up every member, with an empty folder if its disk is " +
		"gone")

// AcceptLoss says that a person gives up what the volumes of the group held, which are all lost: a new group begins at
// this member. If its own volume holds something of the lost group, it is to be emptied first (Reset), and the person
// asked again. With Options.External, members that are absent may be given up too; the user empties its storage, and
// then sets the foundation.
func (g *Group) AcceptLoss(now causal.Now) error {
	absent, err := g.canGiveUp(now)
	switch {
	case err != nil:
		return err
	case g.damaged || g.isReplaced() || g.log.last() > 0:
		g.events = append(g.events, Event{Kind: Reset})
		return nil
	}
	g.givesUp, g.givesUpAbsent, g.knockAt = true, len(absent) > 0, now.Mono
	return nil
}

// canGiveUp returns why the group cannot be given up here, or the members that are absent.
func (g *Group) canGiveUp(now causal.Now) (absent []string, err error) {
	switch {
	case g.lost:
		return nil, nil
	case !g.opts.External || g.state.Config.Epoch == 0 || g.present().Has(g.self) && !g.damaged:
		return nil, errNotLost
	}
	for _, id := range g.present().Members {
		if id.Name != g.self.Name && !slices.ContainsFunc(g.answers, func(a answer) bool { return g.hasLost(id, &a) }) {
			absent = append(absent, id.Name)
		}
	}
	if wait := absentAfter - (now.Mono - max(g.startedAt, g.aliveAt)); wait > 0 {
		return absent,
			fmt.Errorf(
				"members %s are not known to have lost their volumes, and were perhaps heard of lately: look again "+
					"in %d s", strings.Join(absent, ", "), wait/1e9+1)
	}
	return absent, nil
}

// hasLost reports whether an answer says that the volume of a member is gone or damaged.
func (g *Group) hasLost(id ID, a *answer) bool {
	return a.id.Name == id.Name && (a.id != id || a.Damaged)
}

// noteAlive takes note of a member of the configuration that has its volume.
func (g *Group) noteAlive(now causal.Now, from ID, damaged bool) {
	if g.present().Has(from) && !damaged {
		g.aliveAt, g.givesUpAbsent = now.Mono, false
	}
}

// hasOnlyNewVolumes reports whether all volumes of the group are gone, all that should be members have answered, and
// their volumes are new. One that is silent may have its volume. It is so at one member only, so that they do not
// compete.
func (g *Group) hasOnlyNewVolumes() bool {
	if !g.lost || !g.isBlank() || g.opts.External && !g.opts.Blank {
		return false
	}
	names := g.desired.Names
	if len(names) == 0 || names[0] != g.self.Name {
		return false
	}
	for _, id := range g.state.Config.Members {
		if !slices.Contains(names, id.Name) {
			names = append(slices.Clip(names), id.Name)
		}
	}
	for _, name := range names[1:] {
		if name != g.self.Name && !slices.ContainsFunc(g.answers, func(a answer) bool {
			return a.id.Name == name && (a.Blank || a.Fresh)
		}) {
			return false
		}
	}
	return true
}

// OnlyNewVolumes reports whether all volumes of the group are gone, and those of all members are new: then another
// group takes its place if the user says that nothing is lost by it (SetReplaceable).
func (g *Group) OnlyNewVolumes() bool { return g.onlyNewVolumes }

// SetReplaceable says that nothing is lost with the group: if all of its volumes are gone, a group of new ones takes
// its place by itself.
func (g *Group) SetReplaceable(replaceable bool) { g.replaceable = replaceable }

// SetWhole says whether the user has all that can be had of what the group should hold. A volume of a group that was
// given up is kept until the group that replaces it has.
func (g *Group) SetWhole(whole bool) { g.whole = whole }

// GivesUp reports whether the group is to be replaced by one of this member, or was, whose user then empties its
// storage, and its log if there is any (Restore), and sets the foundation.
func (g *Group) GivesUp() bool {
	return g.isSuccessor() || g.isBlank() && (g.givesUpItself || g.givesUp && (g.lost || g.givesUpAbsent))
}

// Replaces reports whether the group of this member has taken the place of another one.
func (g *Group) Replaces(group uint64) bool { return g.state.Config.replaces(group) }

// replaceLost proposes the new group, and reports whether it has.
func (g *Group) replaceLost(now causal.Now) bool {
	if !g.GivesUp() || g.isReplaced() || g.opts.External && g.foundation != g.self.Volume {
		return false
	}
	if !g.register.fresh || !g.canRequest(now) {
		return false
	}
	g.replacesAbsent = g.replacesAbsent || g.givesUpAbsent
	old := &g.state.Config
	replaced := append(slices.Clone(old.Replaced), old.Group)
	replaced = replaced[max(len(replaced)-maxReplaced, 0):]
	g.swap(now, Config{Group: g.self.Volume, Epoch: old.Epoch + 1, Members: []ID{g.self}, Primary: g.self,
		Nonce: g.newNonce(), Replaced: replaced})
	return true
}

// isBlank reports whether this member has acknowledged nothing: it is in no configuration, and has no record.
func (g *Group) isBlank() bool {
	return !g.isMember() && !g.damaged && g.lead == nil && g.log.last() == 0 && len(g.state.Pending) == 0
}

// forgetLost makes a blank member forget the group that it knows of, if the register holds one that has taken its
// place.
func (g *Group) forgetLost(now causal.Now, c *Config) {
	if !g.isForeign(c) || !g.isBlank() || c.Epoch <= g.state.Config.Epoch {
		return
	}
	if c.Group == g.self.Volume && g.opts.External && g.foundation != c.Group {
		return // the user's storage comes first: GivesUp
	}
	// A life before this one may have proposed it, in place of whatever group; and members of the former one have been
	// heard of, if this one is its successor.
	if c.Primary == g.self && (g.isSuccessor() || g.opts.External &&
		(g.replacesAbsent || c.Nonce.Life != g.state.Life)) {
		g.grantUntil = max(g.grantUntil, now.Mono+g.untilReplacedNotice())
	}
	g.state.Config, g.replacedBy, g.lost, g.diverged = Config{}, Config{}, false, false
	g.givesUp, g.givesUpAbsent, g.givesUpItself, g.onlyNewVolumes = false, false, false, false
}

// untilReplacedNotice is how long the members of a group that was given up may serve anyway, until they read in
// the register that it was.
func (g *Group) untilReplacedNotice() int64 {
	return int64(g.opts.ReadEvery + g.opts.RegisterTimeout + g.opts.Lease)
}

// mayReplaceAbsent reports whether the group here has replaced another one perhaps just before this start, so that
// members of that one may not have noticed: it has served nobody yet who has written.
func (g *Group) mayReplaceAbsent() bool {
	c := &g.state.Config
	if !g.opts.External || len(c.Replaced) == 0 || c.Group != g.self.Volume || g.log.first() > 1 {
		return false
	}
	return !slices.ContainsFunc(g.log.records, func(r held) bool { return !r.Start })
}

// noteReplaced takes in the configuration of another group. If that has taken the place of the one that this volume
// belongs to, what is here is void: it does not serve any more.
func (g *Group) noteReplaced(now causal.Now, c *Config) {
	if !c.replaces(g.state.Config.Group) || g.isBlank() && c.Group != g.self.Volume || c.Epoch <= g.replacedBy.Epoch ||
		g.opts.Broken.Has(causal.ReplacedServes) {
		return
	}
	if g.replacedBy = *c; g.lead != nil {
		g.stop(false)
	}
	if g.isSuccessor() && !g.opts.External && !g.isBlank() {
		g.startAt(now, 0, Stamp{})
	}
}

// isSuccessor reports whether the group that has taken the place of the one here is that of this member, which is in no
// configuration of the former: it had proposed the new one, did not hear whether that was done, and has followed the
// former one again, of which somebody has come back. Then what it has of the former is void, and the new one begins
// without it. Else: nobody serves, since the new one has no other member.
func (g *Group) isSuccessor() bool {
	return g.replacedBy.Group == g.self.Volume && !g.isMember() && !g.damaged &&
		!g.opts.Broken.Has(causal.SuccessorFollows)
}

// isReplaced reports whether another group has taken the place of the one that this volume belongs to.
func (g *Group) isReplaced() bool { return g.replacedBy.Epoch > 0 }

// present returns the configuration that has this member's place in the register, as far as is known: if the group of
// this volume was given up, that of its successor. All of that one's volumes may be lost in turn, perhaps because the
// former ones have come back in their places.
func (g *Group) present() *Config {
	if g.isReplaced() {
		return &g.replacedBy
	}
	return &g.state.Config
}
