package node

import (
	"testing"
	"time"
)

// Else: nothing is written any more, though the storages of the others have room.
func TestAnotherMemberServesWhenTheStorageOfOneIsFull(t *testing.T) {
	r, full := newFullRig(t)
	r.putAll(100)
	p := r.primary()
	filled := time.Now()
	full[p].full.Store(true)
	r.put(100)
	next := r.awaitAnother(p)
	t.Logf("another member serves %v after the storage was full", time.Since(filled))
	r.checkAcknowledged(next)
	r.putAll(100)
	full[p].full.Store(false)
	r.awaitWhole()
	r.put(100)
	r.awaitDrained()
	for i := range full {
		r.awaitEqual(i)
	}
}
