package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// renewDamaged renews a store if it is damaged, and checks that the new one has what it says that it has.
func renewDamaged(t testing.TB, fs vfs.FS, want contents, what string) (r Rest, damaged bool) {
	t.Helper()
	opts := Options{FS: fs, Logger: slog.New(slog.DiscardHandler), KeepsRest: true}
	s, err := Open("store", opts)
	if err == nil {
		err = want.check(s)
		_ = s.Close()
	}
	if err == nil {
		return r, false
	}
	s, err = Renew("store", opts, func(_ storage.Store, rest Rest) ([]storage.Meta, error) {
		r = rest
		return mark(nil, rest)
	})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	left := contents{}
	for key, rec := range want {
		if r.Known && !r.Missing.Has(key) {
			left[key] = rec
		}
	}
	if err := left.check(s); err != nil {
		t.Errorf("%s: known %v, without %q: %v", what, r.Known, r.Missing, err)
	}
	if b, found, err := s.Meta(ctx, "name"); r.Known != found || found && string(b) != "value" || err != nil {
		t.Errorf("%s: known %v, and the metadata are %q, %v, %v", what, r.Known, b, found, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if s, err = Open("store", opts); err != nil {
		t.Fatalf("%s: open the new store: %v", what, err)
	}
	if err := errors.Join(left.check(s), s.Close()); err != nil {
		t.Errorf("%s: opened again: %v", what, err)
	}
	return r, true
}

// Of a store in which one block of a table is damaged, everything is there but a range around that. If nothing tells
// what is missing, nothing is there.
func TestARenewedStoreHasEverythingButWhatItNames(t *testing.T) {
	all, want := killed(t)
	known, unknown, lost := 0, 0, 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		content, step := all[name], 2003
		if raceDetector {
			step = 9973
		}
		for at := 3; at < len(content); at += step {
			for how, change := range map[string]func() []byte{
				"a flipped bit": func() []byte { b := bytes.Clone(content); b[at] ^= 1 << (at % 8); return b },
				"zeros": func() []byte {
					b := bytes.Clone(content)
					clear(b[at:min(at+512, len(b))])
					return b
				},
				"its end cut": func() []byte { return content[:at] },
			} {
				r, damaged := renewDamaged(t, all.with(name, change()).disk(t), want,
					fmt.Sprintf("%s with %s at %d", name, how, at))
				isTable := strings.HasSuffix(name, ".sst")
				switch {
				case !damaged:
				case r.Known && !isTable:
					t.Errorf("%s with %s at %d: that tells what is missing: %q", name, how, at, r.Missing)
				case r.Known:
					known++
					for key := range want {
						if r.Missing.Has(key) {
							lost++
						}
					}
				case isTable && how != "its end cut": // Pebble compares the sizes of tables
					unknown++
				}
			}
		}
	}
	if known < 10 || unknown > known/4 || lost == 0 || lost > known*len(want)*2/3 {
		t.Errorf("%d damaged tables, of which %d do not tell what is missing; without %d of %d records", known+unknown,
			unknown, lost, known*len(want))
	}
	t.Logf("%d damaged tables, of which %d do not tell what is missing; without %d of %d records", known+unknown,
		unknown, lost, known*len(want))
}

// Values beside the tables, and records that are not as they were written, are missing alone.
func TestADamagedValueIsMissingAlone(t *testing.T) {
	fs, opts := vfs.NewMem(), Options{Logger: slog.New(slog.DiscardHandler), separateFrom: 1000}
	opts.FS = fs
	s := mustOpen(t, "store", opts)
	want := contents{}
	for i := range 20 {
		want.apply(t, s, storage.Write{Key: fmt.Sprint("key ", i),
			Record: record(i+1, strings.Repeat(fmt.Sprint(i), 3000))})
	}
	damaged := storage.AppendRecord(nil, "key 0", record(1, "v"))
	damaged[len(damaged)-9] ^= 4
	if err := errors.Join(s.SetMeta(ctx, "name", []byte("value")),
		s.db.Set([]byte("\x02kex 7"), storage.AppendRecord(nil, "key 7", want["key 7"]), nil),
		s.db.Set([]byte("\x02key 0"), damaged, nil), s.db.Delete([]byte("\x02key 7"), nil), s.db.Flush(),
		s.Close()); err != nil {
		t.Fatal(err)
	}
	all := readFiles(t, fs, "store")
	for name, b := range all {
		if strings.HasSuffix(name, ".blob") {
			b[len(b)/2] ^= 1
		}
	}
	r, _ := renewDamaged(t, all.disk(t), want, "with a damaged file of values")
	for _, key := range []string{"key 0", "key 7", "kex 7"} {
		if !r.Missing.Has(key) {
			t.Errorf("%q is not missing: %q", key, r.Missing)
		}
	}
	lost := 0
	for key := range want {
		if r.Missing.Has(key) {
			lost++
		}
	}
	if !r.Known || lost < 3 || lost > 12 {
		t.Errorf("known %v (%v), %d are missing: %q", r.Known, r.Why, lost, r.Missing)
	}
}

// Whenever Renew is stopped, the next one finds the same.
func TestACrashInRenewLosesNothingOfWhatIsLeft(t *testing.T) {
	all, want := killed(t)
	for name, b := range all {
		if strings.HasSuffix(name, ".sst") {
			b[len(b)/2] ^= 1
		}
	}
	whole, _ := renewDamaged(t, all.disk(t), want, "without a crash")
	if !whole.Known {
		t.Fatal(whole.Why)
	}
	for stop := int64(0); stop < 400; stop += 1 + stop/20 {
		fs := all.disk(t)
		failing, done := failingAfter(fs, stop)
		s, err := renewUntilFatal(Options{FS: failing, Logger: slog.New(slog.DiscardHandler), KeepsRest: true})
		if err == nil {
			_ = s.Close()
		}
		if done() {
			return
		}
		again := readFiles(t, fs, "store").disk(t)
		if s, err := Open("store", Options{FS: again, Logger: slog.New(slog.DiscardHandler)}); err == nil {
			// it was renewed
			_ = s.Close()
			continue
		}
		r, _ := renewDamaged(t, again, want, fmt.Sprint("stopped at write ", stop))
		if !r.Known || len(r.Missing.Without(whole.Missing)) > 0 {
			t.Errorf("stopped at write %d: known %v (%v), without %q; the first time without %q", stop, r.Known, r.Why,
				r.Missing, whole.Missing)
		}
	}
	t.Error("it never ends")
}

// Whatever is damaged, all but a part of the records is merged, and none is older than what the store has.
func TestWhatIsLeftOfADamagedStoreIsMerged(t *testing.T) {
	all, want := killed(t)
	merged := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		kind := name[max(0, len(name)-4):]
		for how, b := range map[string][]byte{"removed": nil, "with zeros": bytes.Clone(all[name])} {
			clear(b[len(b)/2 : min(len(b), len(b)/2+512)])
			fs, opts := all.with(name, b).disk(t), Options{Logger: slog.New(slog.DiscardHandler)}
			opts.FS = fs
			if _, damaged := renewWithout(t, opts); !damaged {
				continue
			}
			s := mustOpen(t, "store", opts)
			newer := record(5000, "newer")
			if err := s.Apply(ctx, []storage.Write{{Key: "key 1", Record: newer}}); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if _, err := s.MergeDamaged(ctx, opts); err != nil {
					t.Fatalf("%s %s: %v", name, how, err)
				}
			}
			n := 0
			for key, rec := range want {
				got, found, err := s.Get(ctx, key)
				if key != "key 1" && found && got.Version == rec.Version &&
					bytes.Equal(got.Value.Data, rec.Value.Data) {
					n++
				} else if err != nil || key == "key 1" && got.Version != newer.Version {
					t.Errorf("%s %s: %q: %v, %v", name, how, key, got.Version, err)
				}
			}
			if before, seen := merged[kind+how]; !seen || n < before {
				merged[kind+how] = n
			}
			if b, _, err := s.Meta(ctx, "mark"); string(b) != "lost" || err != nil {
				t.Errorf("%s %s: the mark is %q, %v", name, how, b, err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	t.Logf("of %d records at least: %v", len(want), merged)
	for how, n := range merged {
		if n < len(want)/3 {
			t.Errorf("%s: %d of %d records", how, n, len(want))
		}
	}
	if len(merged) < 4 {
		t.Errorf("only these were damaged: %v", merged)
	}
}

// renewWithout renews a store, without what is left, if it is damaged.
func renewWithout(t *testing.T, opts Options) (r Rest, damaged bool) {
	t.Helper()
	s, err := Open("store", opts)
	if err == nil {
		err = s.Scan(ctx, func(string, causal.Record) error { return nil })
		_ = s.Close()
	}
	if err == nil {
		return r, false
	}
	if s, err = Renew("store", opts, mark); err == nil {
		err = s.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return r, true
}
