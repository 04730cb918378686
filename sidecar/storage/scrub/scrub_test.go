package scrub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// store has keys of which one may be damaged. Each request takes a while.
type store struct {
	storage.Store
	keys    int
	damaged atomic.Int64
	failing atomic.Int64
	reads   []int
	lost    string // a cursor that is not known any more
	took    time.Duration
}

func (s *store) Keys(_ context.Context, after string, limit int) (keys []string, next string, err error) {
	first := 0
	if after != "" {
		if _, err := fmt.Sscan(after, &first); err != nil {
			return nil, "", err
		}
	}
	for i := first; i < min(s.keys, first+limit); i++ {
		keys = append(keys, fmt.Sprint("k", i))
	}
	if first+limit < s.keys {
		next = fmt.Sprint(first + limit)
	}
	return keys, next, nil
}

func (s *store) GetMany(_ context.Context, keys []string, _ int) (results []storage.Result, err error) {
	time.Sleep(5 * time.Millisecond)
	s.took += 5 * time.Millisecond
	if s.failing.Add(-1) >= 0 {
		return nil, storage.ErrRestarted
	}
	for _, key := range keys[:(len(keys)+1)/2] {
		var i int
		if _, err := fmt.Sscanf(key, "k%d", &i); err != nil {
			return nil, err
		}
		if int64(i) == s.damaged.Load() {
			return nil, &storage.DamagedError{Key: key, Reason: "test"}
		}
		s.reads[i]++
		results = append(results, storage.Result{Found: true,
			Record: causal.Record{Value: causal.Value{Data: make([]byte, 1000)}}})
	}
	return results, nil
}

func options() Options {
	o := Defaults(slog.New(slog.DiscardHandler))
	o.First, o.Interval = time.Minute, time.Hour
	return o
}

func TestEachPassReadsEveryRecordWithinItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 1000
		st := &store{keys: keys, reads: make([]int, keys)}
		st.damaged.Store(-1)
		st.failing.Store(3)
		s := New(st, options())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		began := time.Now()
		go func() { s.Run(ctx); close(done) }()
		for s.Progress().Passes < 1 {
			time.Sleep(time.Second)
		}
		if elapsed := time.Since(began) - options().First; st.took*20 > elapsed+time.Second {
			t.Errorf("reading took %v of %v", st.took, elapsed)
		}
		p := s.Progress()
		for ; p.Passes < 2; p = s.Progress() {
			time.Sleep(time.Second)
		}
		cancel()
		<-done
		if elapsed := time.Since(began); elapsed < options().Interval {
			t.Errorf("two passes ended after %v", elapsed)
		}
		for i, n := range st.reads {
			if n != 2 {
				t.Fatalf("key %d was read %d times in two passes", i, n)
			}
		}
		if p.Keys != 2*keys || p.Bytes < 2*keys*1000 || p.Damaged != 0 || p.LastPass.Before(began) {
			t.Errorf("%+v", p)
		}
	})
}

func TestAScrubReadsNoFasterThanItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 5000
		st := &store{keys: keys, reads: make([]int, keys)}
		st.damaged.Store(-1)
		o := options()
		o.First, o.Share, o.BytesPerSecond = 0, 1, 1<<20
		s := New(st, o)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began := time.Now()
		go s.Run(ctx)
		for s.Progress().Passes < 1 {
			time.Sleep(100 * time.Millisecond)
		}
		if least := keys * 1000 * time.Second / (1 << 20); time.Since(began) < least {
			t.Errorf("it took %v, and less than %v", time.Since(began), least)
		}
	})
}

func TestAScrubEndsAtDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &store{keys: 1000, reads: make([]int, 1000)}
		st.damaged.Store(777)
		s := New(st, options())
		s.Run(t.Context())
		if p := s.Progress(); p.Damaged != 1 || p.Passes != 0 || st.reads[776] == 0 || st.reads[778] != 0 {
			t.Errorf("%+v", p)
		}
		if err := s.pass(t.Context()); !errors.Is(err, storage.ErrDataLost) {
			t.Error(err)
		}
	})
}

// forgetful forgets its cursors once.
type forgetful struct {
	store
	forgets int
}

func (s *forgetful) Keys(ctx context.Context, after string, limit int) ([]string, string, error) {
	if after != "" && s.forgets > 0 {
		s.forgets--
		s.lost = after
	}
	if after != "" && after == s.lost {
		return nil, "", storage.ErrCursor
	}
	keys, next, err := s.store.Keys(ctx, strings.TrimPrefix(after, "again "), limit)
	if next != "" && s.lost != "" {
		next = "again " + next
	}
	return keys, next, err
}

func TestAPassBeginsAnewWhenItsCursorIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 1000
		st := &forgetful{store: store{keys: keys, reads: make([]int, keys)}, forgets: 1}
		st.damaged.Store(-1)
		if err := New(st, options()).pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, n := range st.reads {
			if n == 0 {
				t.Fatalf("key %d was not read", i)
			}
		}
	})
}
