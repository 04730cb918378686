package sim

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/causal/process"
	"github.com/causalstore/causalstore/topology"
)

// anyMember draws a coordinator's process, or one of a shard that has members.
func (c *faultInjector) anyMember() *node {
	if len(c.shardMembers) > 0 && c.w.rng.IntN(3) > 0 {
		return c.anyOf(c.shardMembers)
	}
	return c.anyOf(c.byPart[topology.Coordinator])
}

// cutRegister makes the register of a member unreachable for it, or for its whole group.
func (c *faultInjector) cutRegister(duration int64) {
	n := c.anyMember()
	c.w.countFault(CutRegister)
	for _, m := range c.membersOf(n) {
		if m == n || c.w.rng.IntN(2) == 0 {
			m.registerCutTill = c.w.now + duration
		}
	}
}

func (c *faultInjector) membersOf(n *node) (all []*node) {
	for _, m := range c.byPart[n.id.Part] {
		if m.id.Group() == n.id.Group() {
			all = append(all, m)
		}
	}
	return all
}

// cutMember cuts a member, mostly the one that serves, off from the others, and perhaps from its register. Some other
// nodes then reach it only, and some the others only.
func (c *faultInjector) cutMember(duration int64) {
	n := c.anyMember()
	if s := c.w.serving(n.id.Group()); s != nil && c.w.rng.IntN(4) > 0 {
		n = s
	}
	c.w.countFault(MemberCut)
	duration += int64(time.Second)
	if c.w.rng.IntN(2) == 0 {
		n.registerCutTill = c.w.now + duration
	}
	members := c.membersOf(n)
	for _, m := range members {
		if m != n {
			c.cutPair(n, m, duration)
		}
	}
	for _, other := range c.w.order {
		if slices.Contains(members, other) {
			continue
		}
		if c.w.rng.IntN(2) == 0 {
			for _, m := range members {
				if m != n {
					c.cutPair(other, m, duration)
				}
			}
		} else if c.w.rng.IntN(2) == 0 {
			c.cutPair(other, n, duration)
		}
	}
}

// wipeMember replaces the volume of a member, if the others are all up and in step: no other copy is missing. That of a
// shard loses its log, its storage, or both.
func (c *faultInjector) wipeMember(duration int64) {
	n := c.anyMember()
	if !c.mayLose(n) {
		return
	}
	if c.w.rng.IntN(3) == 0 {
		c.crashNode(n, BitFlip, duration)
		n.disk.isDamaged = true
		return
	}
	if n.id.Part == topology.Coordinator {
		c.crashNode(n, MemberWipe, duration)
		n.disk = newDisk()
		return
	}
	switch c.w.rng.IntN(3) {
	case 0:
		c.crashNode(n, MemberWipe, duration)
		n.disk = newDisk()
	case 1:
		c.crashNode(n, LogLost, duration)
		n.disk.loseLog()
	default:
		c.crashNode(n, StorageLost, duration)
		n.disk.loseStorage()
	}
}

// mayLose reports whether what a member holds may be lost: the member that serves has another one, which has all that
// is committed.
func (c *faultInjector) mayLose(n *node) bool {
	s := c.w.serving(n.id.Group())
	if s == nil || n.id.Member == 0 || c.w.swaps[n.id.Group()] > 0 { // a swap may leave it as the only member
		return false
	}
	config := s.group().Status().Config
	isSound := func(m *node) bool {
		has := slices.ContainsFunc(config.Members, func(id group.ID) bool { return id.Volume == m.disk.volume })
		return has && !m.disk.isDamaged && !m.disk.lost && (m.id.Part == topology.Coordinator ||
			m.disk.marker.Volume == m.disk.volume &&
				!m.disk.marker.Copying)
	}
	left := slices.ContainsFunc(c.membersOf(n), func(m *node) bool { return m != n && isSound(m) })
	return left && c.w.registers[n.id.Group()].Config.Epoch == config.Epoch
}

// fillLog makes the log of a member, or those of all members of its group, take nothing for some seconds: it has
// reached its bound, and has room for little some time after, or the disk has no room.
func (c *faultInjector) fillLog(duration int64) {
	n, full, problem := c.anyMember(), []*node(nil), process.DiskIsFull
	if full = []*node{n}; c.w.rng.IntN(2) == 0 {
		full = c.membersOf(n)
	}
	if c.w.rng.IntN(2) == 0 {
		problem = process.LogIsFull
	}
	c.w.countFault(FullLog)
	for _, m := range full {
		d := m.disk
		d.logFullUntil, d.logProblem = c.w.now+int64(time.Second)+duration, problem
		if d.logNearlyFullUntil = 0; problem == process.LogIsFull {
			d.logNearlyFullUntil = d.logFullUntil + duration
		}
	}
}

// hangStorage makes the storage of a middleman respond to nothing for some seconds.
func (c *faultInjector) hangStorage(duration int64) {
	n := c.anyOf(c.byPart[topology.Middleman])
	c.w.countFault(HungStorage)
	n.disk.hungSince, n.disk.hungUntil = c.w.now, c.w.now+int64(time.Second)+2*duration
}

// fillStorage makes the storage of a member, or those of all members of its shard, full for some seconds.
func (c *faultInjector) fillStorage(duration int64) {
	if len(c.shardMembers) == 0 {
		return
	}
	n := c.anyOf(c.shardMembers)
	full := []*node{n}
	if c.w.rng.IntN(2) == 0 {
		full = c.membersOf(n)
	}
	c.w.countFault(FullStorage)
	for _, m := range full {
		m.disk.fullUntil = c.w.now + int64(time.Second) + duration
	}
}

// refuseStorage makes the storage of a member refuse connections, or fail, for some seconds.
func (c *faultInjector) refuseStorage(duration int64) {
	if len(c.shardMembers) == 0 {
		return
	}
	d := c.anyOf(c.shardMembers).disk
	c.w.countFault(GoneStorage)
	d.problem, d.brokenUntil = process.NoProblem, c.w.now+2*duration
	if c.w.rng.IntN(2) == 0 {
		d.problem = process.IsGone
	}
}

// findLoss makes the storage of a member lose some keys, and say so while it is used, if another member has them.
func (c *faultInjector) findLoss(int64) {
	n := c.anyMember()
	if n.id.Part != topology.Middleman || !n.isUp() || n.disk.marker.Volume == 0 || !c.mayLose(n) {
		return
	}
	c.w.countFault(LossFound)
	n.disk.loseSome(c.w.rng)
}

// crashApplying makes the storages of a shard's members slow, so that they lag behind the logs, and crashes the one
// that serves, another one, or both.
func (c *faultInjector) crashApplying(duration int64) {
	if len(c.shardMembers) == 0 {
		return
	}
	n := c.anyOf(c.shardMembers)
	if s := c.w.serving(n.id.Group()); s != nil && c.w.rng.IntN(2) == 0 {
		n = s
	}
	c.lagStorages(n)
	c.later(int64(100*time.Millisecond)+c.w.rng.Int64N(int64(600*time.Millisecond)), func() {
		c.crashNode(n, CrashApplying, duration)
	})
}

// lagStorages makes the storages of most members of n's group slow for a while.
func (c *faultInjector) lagStorages(n *node) {
	for _, m := range c.membersOf(n) {
		if c.w.rng.IntN(3) > 0 {
			m.disk.lag, m.disk.lagUntil = c.w.rng.Int64N(int64(930*time.Millisecond)), c.w.now+int64(5*time.Second)
		}
	}
}

// leaveApplying makes the storages of a shard's members slow, so that they lag behind the logs. Then the one that
// serves hands over, as one that is about to stop, and restarts: another one serves at once, with a storage that is
// behind.
func (c *faultInjector) leaveApplying(duration int64) {
	if len(c.shardMembers) == 0 {
		return
	}
	n := c.w.serving(c.anyOf(c.shardMembers).id.Group())
	if n == nil {
		return
	}
	c.lagStorages(n)
	c.later(int64(100*time.Millisecond)+c.w.rng.Int64N(int64(600*time.Millisecond)), func() {
		if m, ok := n.m.(*process.Member); ok {
			m.HandOver(c.w.clock(n))
			c.w.flush(n)
			c.later(int64(100*time.Millisecond)+c.w.rng.Int64N(int64(400*time.Millisecond)), func() {
				c.crashNode(n, LeaveApplying, duration)
			})
		}
	})
}
