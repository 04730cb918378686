package process

import (
	"strconv"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/topology"
)

// groupRoles are the roles of a member, as the readiness report names them.
var groupRoles = map[group.Role]contract.GroupRole{
	group.Starting: contract.GroupStarting, group.Outside: contract.GroupOutside,
	group.Following: contract.GroupFollowing, group.Electing: contract.GroupElecting,
	group.Aligning: contract.GroupAligning, group.Serving: contract.GroupServing, group.Broken: contract.GroupDamaged,
}

var memberStates = map[group.PeerState]contract.GroupMemberState{
	group.PeerInStep: contract.MemberInStep, group.PeerJoining: contract.MemberJoining,
	group.PeerSilent:  contract.MemberSilent,
	group.PeerStalled: contract.MemberStalled, group.PeerDamaged: contract.MemberDamaged,
	group.PeerReplaced: contract.MemberLost,
}

// groupMember is a member of the group of a coordinator or a shard.
type groupMember interface {
	HasRegister() bool
	Status() group.Status
	Health() group.Health
	MemberNode() topology.Node
	AcceptRegister(epoch uint64) error
}

// describeGroup returns what a member of a group reports of it; nil if it can have only one.
func describeGroup(c groupMember) *contract.Group {
	if !c.HasRegister() {
		return nil
	}
	s, h := c.Status(), c.Health()
	g := &contract.Group{Member: int(c.MemberNode().Member), Role: groupRoles[s.Role], Epoch: s.Config.Epoch,
		Primary:    memberNumber(s.Config.Primary.Name),
		ShortForMs: milliseconds(h.Short), Reason: s.Problem()}
	for _, id := range s.Config.Members {
		g.Members = append(g.Members, memberNumber(id.Name))
	}
	for _, name := range h.Wanted {
		g.Wanted = append(g.Wanted, memberNumber(name))
	}
	for _, p := range h.Peers {
		g.Others = append(g.Others, contract.GroupMember{Member: memberNumber(p.Name), State: memberStates[p.State],
			BehindRecords: p.Behind, BehindBytes: int64(p.BehindBytes), HeardMsAgo: milliseconds(p.Heard)})
	}
	switch {
	case s.Frozen != "":
		g.Problem, g.Reason, g.ProblemForMs = contract.GroupFrozen, s.Frozen, milliseconds(h.Frozen)
	case s.Lost:
		g.Problem, g.ProblemForMs = contract.GroupLost, milliseconds(h.Lost)
	case s.Diverged:
		g.Problem = contract.GroupDiverged
	}
	if h.HasRegister {
		g.Register = &contract.GroupRegister{AnsweredMsAgo: milliseconds(h.RegisterAnswered),
			UnreachableForMs: milliseconds(h.RegisterAway)}
	}
	return g
}

// memberNumber returns the number of the member with a name; 0: it is none.
func memberNumber(name string) int {
	n, err := strconv.Atoi(name)
	if err != nil {
		return 0
	}
	return n
}

// milliseconds returns an age; nil if it is negative.
func milliseconds(d time.Duration) *int64 {
	if d < 0 {
		return nil
	}
	ms := d.Milliseconds()
	return &ms
}
