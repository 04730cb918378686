package middleman

import "github.com/causalstore/causalstore/sidecar/causal"

// formats returns up to which format the shard reads values (PROTOCOL FMT).
func (c *Config) formats(now causal.Now) causal.FormatReply {
	if c.MembersRead != nil {
		return c.MembersRead(now)
	}
	return causal.FormatReply{Reads: c.Types.Reads(), Lacking: c.Self, Heard: true}
}
