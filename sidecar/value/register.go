package value

import "github.com/causalstore/causalstore/sidecar/causal"

// joinRegisters returns the register with the greater version, byte for byte, whether it is a value, a tombstone, or
// the absence of one. Equal versions are of the same write.
func joinRegisters(a, b causal.Record) causal.Record {
	if a.Version.Less(b.Version) {
		return b
	}
	return a
}
