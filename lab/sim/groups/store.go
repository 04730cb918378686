package groups

import (
	"fmt"

	"github.com/causalstore/causalstore/sidecar/causal/group"
)

// Store is the value of a register: the configuration of one group, in one cluster at a time.
type Store struct {
	Number int // of the cluster
	Config group.Config
	Found  bool
}

// Cluster returns the id of the cluster.
func (s *Store) Cluster() string { return fmt.Sprintf("cluster-%d", s.Number) }

// Read returns what a read returns now.
func (s *Store) Read() group.RegisterResult {
	return group.RegisterResult{Outcome: group.Done, Cluster: s.Cluster(), Found: s.Found, Config: s.Config}
}

// Swap compares and swaps. A request that is meant for an earlier cluster fails.
func (s *Store) Swap(op group.RegisterOp) bool {
	if op.Cluster != s.Cluster() || s.Found != (op.Expect != group.Nonce{}) || s.Found && s.Config.Nonce != op.Expect {
		return false
	}
	s.Config, s.Found = op.Config, true
	return true
}
