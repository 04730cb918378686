package conformance

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// oddKeys are keys that an engine might confuse with its own data.
var oddKeys = []string{
	"", " ", "plain", "\x00", "\x00\x00", "\x00k", "\x00kk", "\x00m", "\x00meta", "\x00fence", "\x01", "\x02", "\x02a",
	"\xff", "\xff\xff",
	"a\x00b", "line\r\nbreak", "*1\r\n$4\r\nPING\r\n", "ключ", "{tag}:1", "count", "meta", strings.Repeat("long", 5000),
}

func missing(t *testing.T, p Place) {
	s := open(t, p)
	for _, key := range oddKeys {
		s.wantMissing(key)
	}
	s.wantLen(0)
	s.wantContents(nil)
	if _, found, err := s.Meta(s.ctx, "never set"); found || err != nil {
		t.Errorf("meta: found %v, %v", found, err)
	}
}

func binarySafe(t *testing.T, p Place) {
	s := open(t, p)
	want := make(map[string]causal.Record)
	for i, key := range oddKeys {
		want[key] = record(i, key+"\x00\r\n\xff")
		s.apply(set(key, want[key]))
	}
	for key, rec := range want {
		s.wantRecord(key, rec)
	}
	s.wantLen(int64(len(oddKeys)))
	s.wantContents(want)
	for i, key := range oddKeys {
		s.apply(remove(key))
		delete(want, key)
		s.wantLen(int64(len(oddKeys) - 1 - i))
	}
	s.wantContents(nil)
}

func emptyMissingTombstone(t *testing.T, p Place) {
	s := open(t, p)
	s.apply(set("empty", record(1, "")), set("tombstone", tombstone(2)))
	s.wantRecord("empty", record(1, ""))
	s.wantRecord("tombstone", tombstone(2))
	s.wantMissing("missing")
	s.wantLen(2)
	s.wantContents(map[string]causal.Record{"empty": record(1, ""), "tombstone": tombstone(2)})
}

func versionsAndDeadlines(t *testing.T, p Place) {
	s := open(t, p)
	for i, version := range []causal.Version{{}, {HLC: 1, Origin: 1}, {HLC: math.MaxUint64, Origin: math.MaxUint32}} {
		for j, deadline := range []int64{0, 1, 1_700_000_000_123, math.MaxInt64} {
			key := strconv.Itoa(i) + "/" + strconv.Itoa(j)
			rec := causal.Record{Version: version, Value: causal.Value{Data: []byte("v"), ExpireAtMs: deadline}}
			s.apply(set(key, rec))
			// Whether a deadline has passed is for the middleman to judge: the store never drops a record by itself.
			s.wantRecord(key, rec)
		}
	}
}

func bigValue(t *testing.T, p Place) {
	s := open(t, p)
	rec := record(1, strings.Repeat("0123456789abcdef", 1<<20))
	s.apply(set("big", rec), set("small", record(2, "beside it")))
	s.wantRecord("big", rec)
	s.wantRecord("small", record(2, "beside it"))
}

func overwrite(t *testing.T, p Place) {
	s := open(t, p)
	for i, data := range []string{"first", "", "a longer one than before", "x"} {
		s.apply(set("k", record(i, data)))
		s.wantRecord("k", record(i, data))
		s.wantLen(1)
	}
	// The store does not compare versions: a smaller one replaces a greater one if the caller says so.
	s.apply(set("k", record(-5, "older")))
	s.wantRecord("k", record(-5, "older"))
}

func deletion(t *testing.T, p Place) {
	s := open(t, p)
	s.apply(set("a", record(1, "1")), set("b", record(2, "2")))
	s.apply(remove("a"))
	s.wantMissing("a")
	s.wantRecord("b", record(2, "2"))
	s.wantLen(1)
	s.apply(remove("a"), remove("never there"))
	s.wantLen(1)
	s.apply(set("a", record(3, "again")))
	s.wantRecord("a", record(3, "again"))
	s.wantLen(2)
}

func batchOrder(t *testing.T, p Place) {
	s := open(t, p)
	s.apply(
		set("twice", record(1, "first")), set("twice", record(2, "second")),
		set("set then removed", record(3, "x")), remove("set then removed"),
		remove("removed then set"), set("removed then set", record(4, "y")),
	)
	s.wantContents(map[string]causal.Record{"twice": record(2, "second"), "removed then set": record(4, "y")})
	s.wantLen(2)
	s.apply()
	s.apply(remove("twice"), remove("twice"))
	s.wantLen(1)
}

func bigBatch(t *testing.T, p Place) {
	s := open(t, p)
	want := make(map[string]causal.Record)
	var writes []storage.Write
	for i := range 2000 {
		key := "key " + strconv.Itoa(i)
		want[key] = record(i, strings.Repeat("v", i%300))
		writes = append(writes, set(key, want[key]))
	}
	s.apply(writes...)
	s.wantLen(int64(len(want)))
	s.wantContents(want)
}

func getMany(t *testing.T, p Place) {
	s := open(t, p)
	s.apply(set("a", record(1, "1")), set("", record(2, "2")), set("dead", tombstone(3)))
	keys := []string{"a", "missing", "", "a", "dead"}
	got, err := s.GetMany(s.ctx, keys, 1<<20)
	if err != nil || len(got) != len(keys) {
		t.Fatalf("got %d results, %v", len(got), err)
	}
	for i, want := range []storage.Result{
		{Record: record(1, "1"), Found: true}, {}, {Record: record(2, "2"), Found: true},
		{Record: record(1, "1"), Found: true}, {Record: tombstone(3), Found: true},
	} {
		if got[i].Err != nil || got[i].Found != want.Found || !same(got[i].Record, want.Record) {
			t.Errorf("key %q: got %+v, want %+v", keys[i], got[i], want)
		}
	}
	if none, err := s.GetMany(s.ctx, nil, 1<<20); err != nil || len(none) != 0 {
		t.Errorf("get many without keys: got %v, %v", none, err)
	}
}

func ownedData(t *testing.T, p Place) {
	s := open(t, p)
	s.apply(set("k", record(1, "before")))
	rec, _, err := s.Get(s.ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	data := []byte("after!")
	s.apply(storage.Write{Key: "k", Record: causal.Record{Value: causal.Value{Data: data}}})
	copy(data, "changed by its owner")
	if !bytes.Equal(rec.Value.Data, []byte("before")) {
		t.Errorf("data read before a write changed to %q", rec.Value.Data)
	}
	s.wantRecord("k", causal.Record{Value: causal.Value{Data: []byte("after!")}})
	rec, _, err = s.Get(s.ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	copy(rec.Value.Data, "XXXXXX")
	s.wantRecord("k", causal.Record{Value: causal.Value{Data: []byte("after!")}})
}

// getManyBounded reads values of two sizes, which an engine may treat differently, and again after the store was opened
// again.
func getManyBounded(t *testing.T, p Place) {
	s := open(t, p)
	var keys []string
	want := make(map[string]causal.Record)
	for i := range 40 {
		key := "key " + strconv.Itoa(i)
		size := 10 << 10
		if i%4 == 0 {
			size = 200 << 10
		}
		keys, want[key] = append(keys, key), record(i+1, strings.Repeat("v", size))
		s.apply(set(key, want[key]))
	}
	for _, maxBytes := range []int{1, 100 << 10, 500 << 10, 100 << 20} {
		for _, reopened := range []bool{false, true} {
			for rest, most := keys, 0; len(rest) > 0; {
				results, err := s.GetMany(s.ctx, rest, maxBytes)
				if err != nil || len(results) == 0 || len(results) > len(rest) {
					t.Fatalf("at most %d bytes of %d keys: %d results, %v", maxBytes, len(rest), len(results), err)
				}
				bytes := 0
				for i, r := range results {
					if bytes >= maxBytes {
						t.Errorf("the first %d values have %d bytes, and %d follow; the bound is %d", i, bytes,
							len(results)-i, maxBytes)
						break
					}
					if !r.Found || !same(r.Record, want[rest[i]]) {
						t.Errorf("%q: %v, %d bytes", rest[i], r.Record.Version, len(r.Record.Value.Data))
					}
					bytes += len(r.Record.Value.Data)
				}
				rest, most = rest[len(results):], max(most, len(results))
				if maxBytes == 100<<20 && most == 1 {
					t.Error("values that fit are not read together")
				}
			}
			if !reopened {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = open(t, p)
			}
		}
	}
}
