package sim

import "fmt"

// MemberCounts counts what the members of shards have done.
type MemberCounts struct {
	Sessions  int // in which a member has served its shard
	Failovers int // sessions of another member than the one before
	Copies    int // of the storage of another member
	Resets    int // of damaged members
	Failures  int // of members that could not go on
}

// Add adds other counts to c.
func (c *MemberCounts) Add(others *MemberCounts) {
	c.Sessions += others.Sessions
	c.Failovers += others.Failovers
	c.Copies += others.Copies
	c.Resets += others.Resets
	c.Failures += others.Failures
}

func (c MemberCounts) String() string {
	return fmt.Sprintf("%d sessions, %d failovers, %d copies, %d resets, %d failures", c.Sessions,
		c.Failovers, c.Copies,
		c.Resets, c.Failures)
}
