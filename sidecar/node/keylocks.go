package node

import (
	"slices"
	"sync"
	"sync/atomic"
)

// keyLocks order the commands of a sidecar that must not overlap on a key. These exclude each other:
//
//	                    read  plain write  read-modify-write  transaction
//	read                                                      x
//	plain write                            x                  x
//	read-modify-write         x            x                  x
//	transaction         x     x            x                  x
//
// Nobody deadlocks: whoever waits for a lock while it holds others waits for them in the order of the keys, and for
// each key for writes before reads. A plain write that is in flight releases its lock by itself.
type keyLocks struct {
	mu           sync.Mutex
	used         map[string]*keyLock
	idle         []*keyLock    // that nobody uses, to be used again
	transactions atomic.Int64  // that hold locks, or wait for them
	begun        atomic.Uint64 // transactions, since the start
}

// keyLock is the lock of one key, while somebody holds it or waits for it.
type keyLock struct {
	table  *keyLocks
	key    string
	users  int          // under keyLocks.mu
	writes sync.RWMutex // locked by read-modify-writes and transactions, shared by plain writes
	reads  sync.RWMutex // locked by transactions, shared by reads
}

// maxIdleLocks bounds the locks that are kept for use.
const maxIdleLocks = 1024

// use returns the lock of a key. release ends its use.
func (k *keyLocks) use(key string) *keyLock {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.used[key]
	if l == nil {
		if last := len(k.idle) - 1; last >= 0 {
			l, k.idle = k.idle[last], k.idle[:last]
			l.key = key
		} else {
			l = &keyLock{table: k, key: key}
		}
		k.used[key] = l
	}
	l.users++
	return l
}

func (l *keyLock) release() {
	k := l.table
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.users--; l.users > 0 {
		return
	}
	delete(k.used, l.key)
	if len(k.idle) < maxIdleLocks {
		l.key = ""
		k.idle = append(k.idle, l)
	}
}

// share locks a key for a plain write; unshare of the result unlocks it.
func (k *keyLocks) share(key string) *keyLock {
	l := k.use(key)
	l.writes.RLock()
	return l
}

// tryShare is share if that need not wait, and returns nil otherwise.
func (k *keyLocks) tryShare(key string) *keyLock {
	l := k.use(key)
	if l.writes.TryRLock() {
		return l
	}
	l.release()
	return nil
}

func (l *keyLock) unshare() {
	l.writes.RUnlock()
	l.release()
}

// update locks keys for a read-modify-write command.
func (k *keyLocks) update(keys []string) (unlock func()) {
	return k.each(keys, func(l *keyLock) { l.writes.Lock() }, func(l *keyLock) { l.writes.Unlock() })
}

// isolate locks keys for a transaction.
func (k *keyLocks) isolate(keys []string) (release func()) {
	k.transactions.Add(1)
	k.begun.Add(1)
	unlock := k.each(keys, func(l *keyLock) {
		l.writes.Lock()
		l.reads.Lock()
	}, func(l *keyLock) {
		l.reads.Unlock()
		l.writes.Unlock()
	})
	return func() {
		unlock()
		k.transactions.Add(-1)
	}
}

// read locks keys for a read of several keys, which returns what was there before or after a transaction and nothing
// between.
func (k *keyLocks) read(keys []string) (unlock func()) {
	return k.each(keys, func(l *keyLock) { l.reads.RLock() }, func(l *keyLock) { l.reads.RUnlock() })
}

// awaitTransaction waits until no transaction holds a key. A read of one key needs no lock: if it began before the
// transaction, it may return what was there before, or what the transaction has written.
func (k *keyLocks) awaitTransaction(key string) {
	if k.transactions.Load() == 0 {
		return
	}
	l := k.use(key)
	l.reads.RLock()
	l.reads.RUnlock() //nolint:staticcheck // waiting is all that is wanted
	l.release()
}

// each locks each key once, in sorted order.
func (k *keyLocks) each(keys []string, lock, unlock func(*keyLock)) func() {
	if len(keys) > 1 {
		keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	}
	locked := make([]*keyLock, len(keys))
	for i, key := range keys {
		locked[i] = k.use(key)
		lock(locked[i])
	}
	return func() {
		for _, l := range locked {
			unlock(l)
			l.release()
		}
	}
}
