package conformance

import (
	"fmt"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
)

func metadata(t *testing.T, p Place) {
	s := open(t, p)
	names := oddKeys
	for i, name := range names {
		if err := s.SetMeta(s.ctx, name, []byte("old")); err != nil {
			t.Fatal(err)
		}
		if err := s.SetMeta(s.ctx, name, []byte{byte(i), 0, '\n'}); err != nil {
			t.Fatal(err)
		}
		s.wantMissing(name)
	}
	if err := s.SetMeta(s.ctx, "empty", nil); err != nil {
		t.Fatal(err)
	}
	s.wantLen(0)
	s.wantContents(nil)
	want := make(map[string]causal.Record)
	for i, name := range names {
		want[name] = record(i, "a key of the same name")
		s.apply(set(name, want[name]))
	}
	s.wantContents(want)
	check := func(s tester) {
		for i, name := range names {
			if b, found, err := s.Meta(s.ctx, name); err != nil || !found ||
				string(b) != string([]byte{byte(i), 0, '\n'}) {
				t.Errorf("meta %.40q: got %q, %v, %v", name, b, found, err)
			}
		}
		if b, found, err := s.Meta(s.ctx, "empty"); err != nil || !found || len(b) != 0 {
			t.Errorf("empty meta: got %q, %v, %v", b, found, err)
		}
	}
	check(s)
	before := s.Position()
	for _, name := range names {
		s.apply(remove(name))
	}
	after := s.Position()
	if after.Storage != before.Storage || after.Changes < before.Changes+uint64(len(names)) {
		t.Errorf("%d changes bring it from %+v to %+v", len(names), before, after)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, p)
	if at := s.Position(); at.Storage != after.Storage || at.Changes < after.Changes {
		t.Errorf("opened again it is at %+v, and was at %+v", at, after)
	}
	check(s)
	s.wantLen(0)
}

func (s tester) wantMeta(name, want string) {
	s.Helper()
	if b, found, err := s.Meta(s.ctx, name); err != nil || !found || string(b) != want {
		s.Errorf("meta %.40q: got %q, %v, %v; want %q", name, b, found, err, want)
	}
}

func (s tester) wantNoMeta(name string) {
	s.Helper()
	if b, found, err := s.Meta(s.ctx, name); err != nil || found {
		s.Errorf("meta %.40q: got %q, %v, %v; want none", name, b, found, err)
	}
}

func batchMetadata(t *testing.T, p Place) {
	s := open(t, p)
	apply := func(writes []storage.Write, meta ...storage.Meta) {
		t.Helper()
		if err := s.Apply(s.ctx, writes, meta...); err != nil {
			t.Fatal(err)
		}
	}
	apply(nil)
	apply([]storage.Write{set("k", record(1, "v"))}, storage.Meta{Name: "n", Value: []byte("1")},
		storage.Meta{Name: "k", Value: []byte("meta")})
	apply(nil, storage.Meta{Name: "n", Value: []byte("2")}, storage.Meta{Name: "gone", Value: []byte("x")})
	apply([]storage.Write{{Key: "k", Record: record(2, "w"), KeyExists: true}},
		storage.Meta{Name: "gone", Delete: true}, storage.Meta{Name: "never", Delete: true})
	for range 2 {
		s.wantContents(map[string]causal.Record{"k": record(2, "w")})
		s.wantLen(1)
		s.wantMeta("n", "2")
		s.wantMeta("k", "meta")
		s.wantNoMeta("gone")
		s.wantNoMeta("never")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, p)
	}
}

func clearing(t *testing.T, p Place) {
	s := open(t, p)
	fill(s, 2500) // more than one call to a server removes
	for i, key := range oddKeys {
		s.apply(set(key, record(i, "v")))
	}
	p.PutRaw(t, "foreign", []byte("x"))
	for _, name := range append([]string{"kept", "dropped"}, oddKeys...) {
		if err := s.SetMeta(s.ctx, name, []byte("old")); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Clear(s.ctx, storage.Meta{Name: "dropped", Delete: true},
		storage.Meta{Name: "new", Value: []byte("v")}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s.wantContents(nil)
		s.wantLen(0)
		s.wantMissing("foreign")
		s.wantNoMeta("dropped")
		s.wantMeta("new", "v")
		for _, name := range append([]string{"kept"}, oddKeys...) {
			s.wantMeta(name, "old")
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, p)
	}
	want := map[string]causal.Record{}
	for i := range 3 {
		if err := s.Clear(s.ctx); err != nil { // of few keys, or none
			t.Fatal(err)
		}
		key := fmt.Sprint("again ", i)
		want = map[string]causal.Record{key: record(i, "v")}
		s.apply(set(key, want[key]))
	}
	s.wantContents(want)
	s.wantLen(1)
}
