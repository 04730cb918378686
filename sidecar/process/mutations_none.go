//go:build !mutations

package process

import "github.com/causalstore/causalstore/sidecar/causal"

// brokenRules are the rules of the protocol that this program breaks: none. Only programs that are built with the tag
// faults break any, to see that the checker catches them.
func brokenRules() causal.Mutations { return causal.Mutations{} }
