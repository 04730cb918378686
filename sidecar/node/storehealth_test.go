package node

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/storage"
)

// A storage that refuses connections is gone; one that fails otherwise may be slow.
func TestAStorageThatRefusesConnectionsIsNoticedSooner(t *testing.T) {
	for _, c := range []struct {
		err  error
		gone bool
	}{{fmt.Errorf("dial: %w", syscall.ECONNREFUSED), true}, {fmt.Errorf("dial: %w", syscall.ENOENT), true}, {errors.New("timeout"), false}, {storage.ErrFull, false}} {
		var h storeHealth
		h.init(discard)
		h.notePing(nil)
		h.notePing(c.err)
		if responds, _ := h.update(); !responds {
			t.Errorf("%v: it does not respond at once", c.err)
		}
		for _, since := range []*time.Time{&h.gone, &h.deaf, &h.failing} {
			if !since.IsZero() {
				*since = since.Add(-goneAfter)
			}
		}
		h.notePing(c.err)
		if responds, changed := h.update(); responds == c.gone || changed != c.gone {
			t.Errorf("%v for %v: responds %v", c.err, goneAfter, responds)
		}
		h.notePing(nil)
		if responds, _ := h.update(); !responds {
			t.Errorf("%v: it is over, and it does not respond", c.err)
		}
	}
}

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
