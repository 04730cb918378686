package group

import (
	"errors"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// A group whose volumes are all lost (isLost) can be given up by a person. Then another group takes its place in the register, with a member
// that has nothing. It has another name, so a volume of the lost one that comes back all the same neither joins it nor disturbs it.

// AcceptLoss says that a person gives up what the volumes of the group held, which are all lost: a new group begins at this member. If its own
// volume holds something of the lost group, it is to be emptied first (Reset), and the person asked again.
func (g *Group) AcceptLoss(now causal.Now) error {
	switch {
	case !g.lost:
		return errors.New("not all volumes of the group are known to be lost: bring up every member, with an empty folder if its disk is gone")
	case g.opts.External:
		return errors.New("the group of a shard is not given up by its members")
	case g.damaged || g.log.last() > 0:
		g.events = append(g.events, Event{Kind: Reset})
		return nil
	}
	g.givesUp, g.knockAt = true, now.Mono
	return nil
}

// replaceLost proposes the new group, and reports whether it has.
func (g *Group) replaceLost(now causal.Now) bool {
	if !g.givesUp || !g.lost || !g.isBlank() || !g.register.fresh || !g.canRequest(now) {
		return false
	}
	g.swap(now, Config{Group: g.self.Volume, Epoch: g.state.Config.Epoch + 1, Members: []ID{g.self}, Primary: g.self, Nonce: g.newNonce()})
	return true
}

// isBlank reports whether this member has acknowledged nothing: it is in no configuration, and has no record.
func (g *Group) isBlank() bool {
	return !g.isMember() && !g.damaged && g.lead == nil && g.log.last() == 0 && len(g.state.Pending) == 0
}

// forgetLost makes a blank member forget the group that it knows of, if the register holds one that has taken its place.
func (g *Group) forgetLost(c *Config) {
	if g.isForeign(c) && g.isBlank() && c.Epoch > g.state.Config.Epoch {
		g.state.Config, g.lost, g.givesUp, g.diverged = Config{}, false, false, false
	}
}
