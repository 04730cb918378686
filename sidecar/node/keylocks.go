package node

import (
	"slices"
	"sync"
)

// keyLocks serializes read-modify-write commands of the same keys.
type keyLocks struct {
	mu   sync.Mutex
	held map[string]*keyLock
}

type keyLock struct {
	mu    sync.Mutex
	users int
}

// lock locks each key once, in sorted order, so that callers do not deadlock.
func (k *keyLocks) lock(keys []string) (unlock func()) {
	if len(keys) > 1 {
		keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	}
	for _, key := range keys {
		k.mu.Lock()
		l := k.held[key]
		if l == nil {
			l = &keyLock{}
			k.held[key] = l
		}
		l.users++
		k.mu.Unlock()
		l.mu.Lock()
	}
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, key := range keys {
			l := k.held[key]
			l.mu.Unlock()
			if l.users--; l.users == 0 {
				delete(k.held, key)
			}
		}
	}
}
