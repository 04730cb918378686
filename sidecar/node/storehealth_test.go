package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// A storage that refuses connections is gone; one that fails otherwise may be slow.
func TestAStorageThatRefusesConnectionsIsNoticedSooner(t *testing.T) {
	for _, c := range []struct {
		err  error
		gone bool
	}{{fmt.Errorf("dial: %w", syscall.ECONNREFUSED), true}, {fmt.Errorf("dial: %w", syscall.ENOENT), true},
		{errors.New("timeout"), false}, {storage.ErrFull, false}} {
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

// slowLog does not return while it logs that a storage does not respond, until that is told to go on.
type slowLog struct {
	slog.Handler
	once        *sync.Once
	began, goOn chan struct{}
}

func (l slowLog) Enabled(context.Context, slog.Level) bool { return true }

func (l slowLog) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "the storage does not respond") {
		l.once.Do(func() { close(l.began) })
		<-l.goOn
	}
	return nil
}

type pingedStore struct {
	storage.Store
	pings atomic.Int64
}

func (s *pingedStore) Ping(ctx context.Context) error {
	s.pings.Add(1)
	return s.Store.Ping(ctx)
}

// Whoever pings the storage finds that a change takes too long, and before it has said so, the change is done. Else:
// the member is taken for one whose storage does not respond, and keeps silent for ever.
func TestAStorageThatRespondsAgainAtTheSameMomentDoesNotSilenceItsMember(t *testing.T) {
	var store pingedStore
	log := slowLog{slog.DiscardHandler, new(sync.Once), make(chan struct{}), make(chan struct{})}
	r := newShardRig(t, 1, func(i int) beside {
		b := inMemory(i)
		open := b.open
		b.open = func() (_ storage.Store, err error) {
			store.Store, err = open()
			return &store, err
		}
		b.logger = slog.New(log)
		return b
	})
	sm := r.running[0]
	r.await("somebody to say that it does not respond", func() bool {
		sm.health.mu.Lock()
		sm.health.applying = time.Now().Add(-unresponsiveAfter)
		sm.health.mu.Unlock()
		select {
		case <-log.began:
			return true
		default:
			return false
		}
	})
	sm.health.endTask(nil)
	sm.updateHealth()
	close(log.goOn)
	from := store.pings.Load()
	r.await("the storage to be pinged again", func() bool { return store.pings.Load() >= from+3 })
	sm.host.Inspect(func(m *member.Storage) {
		if m.Status().Impaired {
			t.Error("the storage responds, and the member keeps silent")
		}
	})
}
