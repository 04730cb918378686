package node

import "github.com/causalstore/causalstore/topology"

// largeValues remembers keys by their hash whose values are large. They are read by the goroutine of reads, and not
// while the lock of the middleman is held: copying 16 MiB takes 10 ms, in which the shard would do nothing else.
type largeValues struct{ hashes map[uint64]struct{} }

const (
	largeBytes     = 128 << 10
	maxLargeValues = 1 << 16 // then all are forgotten: each is noticed again with the next read
)

func (l *largeValues) has(key string) bool {
	if len(l.hashes) == 0 {
		return false
	}
	_, found := l.hashes[topology.Hash(key)]
	return found
}

// note takes how many bytes the value of a key was found to have.
func (l *largeValues) note(key string, bytes int) {
	switch {
	case bytes >= largeBytes:
		if l.hashes == nil || len(l.hashes) >= maxLargeValues {
			l.hashes = map[uint64]struct{}{}
		}
		l.hashes[topology.Hash(key)] = struct{}{}
	case len(l.hashes) > 0:
		delete(l.hashes, topology.Hash(key))
	}
}
