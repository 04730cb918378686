package conformance

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
)

func fill(s tester, n int) map[string]causal.Record {
	want := make(map[string]causal.Record)
	var writes []storage.Write
	for i := range n {
		key := "key " + strconv.Itoa(i)
		want[key] = record(i, strconv.Itoa(i))
		writes = append(writes, set(key, want[key]))
	}
	s.apply(writes...)
	return want
}

func scan(t *testing.T, p Place) {
	s := open(t, p)
	want := fill(s, 1000)
	want["dead"] = tombstone(7)
	s.apply(set("dead", want["dead"]))
	s.wantContents(want)
}

func scanStops(t *testing.T, p Place) {
	s := open(t, p)
	fill(s, 100)
	stop := errors.New("stop")
	visited := 0
	err := s.Scan(s.ctx, func(string, causal.Record) error {
		if visited++; visited == 3 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || visited != 3 {
		t.Errorf("got %v after %d keys, want the callback's error after 3", err, visited)
	}
}

func scanReenters(t *testing.T, p Place) {
	s := open(t, p)
	want := fill(s, 50)
	err := s.Scan(s.ctx, func(key string, rec causal.Record) error {
		s.wantRecord(key, rec)
		return s.Apply(s.ctx, []storage.Write{{Key: key, Delete: true, KeyExists: true}})
	})
	if err != nil {
		t.Error(err)
	}
	for key := range want {
		s.wantMissing(key)
	}
	s.wantLen(0)
}

func reopening(t *testing.T, p Place) {
	want := make(map[string]causal.Record)
	for round := range 4 {
		s := open(t, p)
		s.wantContents(want)
		s.wantLen(int64(len(want)))
		for i := range 20 {
			key := strconv.Itoa(i * (round + 1))
			want[key] = record(round, key)
			s.apply(set(key, want[key]))
		}
		s.apply(remove("0"))
		delete(want, "0")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, p)
	s.wantContents(want)
	s.wantLen(int64(len(want)))
}

func endedContext(t *testing.T, p Place) {
	s := open(t, p)
	s.apply(set("k", record(1, "v")))
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	for name, err := range everyCall(ctx, s.Store) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want the context's error", name, err)
		}
	}
	s.wantContents(map[string]causal.Record{"k": record(1, "v")})
}

func closed(t *testing.T, p Place) {
	s := open(t, p)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, err := range everyCall(s.ctx, s.Store) {
		if !errors.Is(err, storage.ErrClosed) {
			t.Errorf("%s: got %v, want ErrClosed", name, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("a second close: %v", err)
	}
}

// everyCall calls each method once and returns the errors.
func everyCall(ctx context.Context, s storage.Store) map[string]error {
	errs := make(map[string]error)
	_, _, errs["Get"] = s.Get(ctx, "k")
	_, errs["GetMany"] = s.GetMany(ctx, []string{"k"}, 1<<20)
	errs["Apply"] = s.Apply(ctx, []storage.Write{set("other", record(2, "x"))})
	errs["Clear"] = s.Clear(ctx)
	_, _, errs["Meta"] = s.Meta(ctx, "name")
	errs["SetMeta"] = s.SetMeta(ctx, "name", []byte("x"))
	_, errs["Len"] = s.Len(ctx)
	errs["Scan"] = s.Scan(ctx, func(string, causal.Record) error { return nil })
	errs["Ping"] = s.Ping(ctx)
	return errs
}

func foreign(t *testing.T, p Place) {
	s := open(t, p)
	want := fill(s, 20)
	raw := map[string]string{"foreign": "plain", "empty": "", "\x00odd": "x"}
	for key, value := range raw {
		p.PutRaw(t, key, []byte(value))
	}
	for key, value := range raw {
		_, found, err := s.Get(s.ctx, key)
		var foreign *storage.ForeignError
		if found || !errors.Is(err, storage.ErrForeign) || !errors.As(err, &foreign) || foreign.Key != key ||
			string(foreign.Data) != value {
			t.Errorf("get %q: found %v, %v", key, found, err)
		}
	}
	results, err := s.GetMany(s.ctx, []string{"key 1", "foreign", "key 2"}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if results[0].Err != nil || results[2].Err != nil || !results[2].Found || results[1].Found ||
		!errors.Is(results[1].Err, storage.ErrForeign) {
		t.Errorf("got %+v", results)
	}
	got := make(map[string]bool)
	err = s.Scan(s.ctx, func(key string, _ causal.Record) error {
		got[key] = true
		return nil
	})
	var skipped *storage.SkippedError
	if !errors.Is(err, storage.ErrForeign) || !errors.As(err, &skipped) || skipped.Count != int64(len(raw)) ||
		len(skipped.Keys) != len(raw) {
		t.Errorf("scan: got %v", err)
	}
	for key := range maps.Keys(want) {
		if !got[key] {
			t.Errorf("scan did not visit %q", key)
		}
	}
}

func foreignReplaced(t *testing.T, p Place) {
	s := open(t, p)
	p.PutRaw(t, "a", []byte("x"))
	p.PutRaw(t, "b", []byte("y"))
	s.apply(set("a", record(1, "ours")), remove("b"))
	s.wantRecord("a", record(1, "ours"))
	s.wantMissing("b")
}
