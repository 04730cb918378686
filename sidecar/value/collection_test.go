package value_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/value"
	"github.com/causalstore/causalstore/sidecar/value/laws"
	"github.com/causalstore/causalstore/topology"
)

func TestCollectionsKeepTheLaws(t *testing.T) {
	laws.Check(t, value.Shipped(), func(r *rand.Rand, v causal.Version) causal.Value {
		var seen causal.Record
		if r.IntN(2) == 0 && v.HLC > 1 { // it removes elements that another write has added
			c, kind := value.ChangeOf(seen), kinds[r.IntN(2)]
			c.Add(kind, "a", "1")
			if c.Add(kind, "b", "1"); kind == value.Hash && r.IntN(2) == 0 {
				c.Remove("a")
				increment(c, "a", 1, value.Line(1+r.IntN(3)))
			}
			seen = causal.Record{Value: c.Value(),
				Version: causal.Version{HLC: causal.HLC(1 + r.IntN(int(v.HLC)-1)), Origin: topology.Origin(1 + 16*r.IntN(3))}}
		}
		c := value.ChangeOf(seen)
		if r.IntN(8) == 0 {
			c.Clear()
		}
		kind := c.Kind()
		if kind == value.None {
			kind = kinds[r.IntN(2)]
		}
		for _, name := range []string{"a", "b", "c"} {
			switch r.IntN(4) {
			case 0:
				c.Add(kind, name, fmt.Sprint(r.IntN(3)))
			case 1:
				if kind == value.Hash {
					increment(c, name, 1+r.IntN(3), value.Line(1+v.Origin/16))
				}
			case 2:
				if c.Remove(name); c.Kind() == value.None {
					kind = kinds[r.IntN(2)]
				}
			}
		}
		if r.IntN(4) == 0 {
			c.ExpireAt(int64(r.IntN(2)) * 1000)
		}
		return c.Value()
	})
}

func increment(c *value.Change, name string, by int, line value.Line) {
	old, _ := c.Get(name)
	n, _ := strconv.Atoi(old)
	c.Increment(value.Hash, name, strconv.Itoa(n+by), line)
}

var kinds = [...]value.Kind{value.Hash, value.Set}

// at returns the record of a change that was accepted at a time.
func at(hlc causal.HLC, origin topology.Origin, c *value.Change) causal.Record {
	return causal.Record{Version: causal.Version{HLC: hlc, Origin: origin}, Value: c.Value()}
}

func set(seen causal.Record, fields ...string) *value.Change {
	c := value.ChangeOf(seen)
	for i := 0; i < len(fields); i += 2 {
		c.Add(value.Hash, fields[i], fields[i+1])
	}
	return c
}

func remove(seen causal.Record, fields ...string) *value.Change {
	c := value.ChangeOf(seen)
	for _, field := range fields {
		c.Remove(field)
	}
	return c
}

func fields(r causal.Record) map[string]string {
	h := value.CollectionOf(r.Value)
	return maps.Collect(h.All())
}

func wantFields(t *testing.T, what string, r causal.Record, want map[string]string) {
	t.Helper()
	if got := fields(r); !maps.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestAddsWinOverRemovalsThatHaveNotSeenThem(t *testing.T) {
	types := value.Shipped()
	first := at(10, 1, set(causal.Record{}, "f", "old", "g", "1"))
	removed := at(30, 1, remove(first, "f"))
	concurrent := at(20, 17, set(causal.Record{}, "f", "new"))
	both := types.Join(types.Join(first, removed), concurrent)
	wantFields(t, "a removal that has not seen the newer field", both, map[string]string{"f": "new", "g": "1"})
	seen := types.Join(first, concurrent)
	wantFields(t, "one that has", types.Join(seen, at(40, 1, remove(seen, "f"))), map[string]string{"g": "1"})
}

func TestARegisterReplacesOlderFields(t *testing.T) {
	types := value.Shipped()
	older, newer := at(10, 1, set(causal.Record{}, "f", "1")), at(30, 1, set(causal.Record{}, "g", "1"))
	register := causal.Record{Version: causal.Version{HLC: 20, Origin: 17}, Value: causal.Value{Data: []byte("s")}}
	wantFields(t, "a register between two writes", types.Join(types.Join(older, newer), register),
		map[string]string{"g": "1"})
	if got := types.Join(older, register); got.Value.Merges() || string(got.Value.Data) != "s" {
		t.Errorf("a register above a hash: %+v", got)
	}
}

func TestTheLatestDeadlineCounts(t *testing.T) {
	types := value.Shipped()
	first := at(10, 1, set(causal.Record{}, "f", "1"))
	expires := value.ChangeOf(first)
	expires.ExpireAt(5000)
	r := types.Join(first, at(20, 1, expires))
	persists := value.ChangeOf(r)
	persists.ExpireAt(0)
	if r.Value.ExpireAtMs != 5000 {
		t.Errorf("it expires at %d", r.Value.ExpireAtMs)
	}
	if r = types.Join(at(30, 1, persists), r); r.Value.ExpireAtMs != 0 {
		t.Errorf("after PERSIST it expires at %d", r.Value.ExpireAtMs)
	}
}

// TestWhatWasRemovedIsCollected joins the same writes at two shards, of which one collects what is below what both have
// now and then. They show the same, and nothing that was removed stays.
func TestWhatWasRemovedIsCollected(t *testing.T) {
	types := value.Shipped()
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		var a, b, late causal.Record
		own := map[topology.Origin]causal.Record{}
		for i := range causal.HLC(12) {
			seen := a
			if r.IntN(3) == 0 {
				seen = late // its session has not seen all
			}
			origin := topology.Origin(1 + 16*r.IntN(2))
			c := value.ChangeOf(types.Join(seen, own[origin])) // but all of its data center
			for _, f := range []string{"a", "b", "c"} {
				switch r.IntN(5) {
				case 0:
					c.Add(value.Hash, f, fmt.Sprint(i))
				case 1, 2:
					c.Remove(f)
				case 3:
					increment(c, f, 1, value.Line(1+origin/16))
				}
			}
			w := at(10+i, origin, c)
			if r.IntN(8) == 0 {
				w.Value = causal.Value{Tombstone: true}
			}
			own[origin] = types.Join(w, own[origin])
			late = a
			a, b = types.Join(a, w), types.Join(b, w)
			if r.IntN(3) == 0 && a.Value.Merges() {
				if left, ok := types.Collect(a, 10+i); ok {
					a = left
				} else {
					a = causal.Missing(10 + i)
				}
				if types.Knows(a.Value.Type) && a.Value.Merges() && types.HasDead(&a) {
					t.Fatalf("seed %d: %+v has dead rows below the horizon", seed, a)
				}
			}
			if r.IntN(4) == 0 {
				a = types.Join(a, w) // it comes again
			}
			if !maps.Equal(fields(a), fields(b)) || !maps.Equal(fields(types.Join(a, b)), fields(b)) {
				t.Fatalf("seed %d: after write %d one has %v, the other one %v, joined %v", seed, i, fields(a),
					fields(b), fields(types.Join(a, b)))
			}
		}
	}
}

func TestACollectionWithoutElementsIsRemovedBelowTheHorizon(t *testing.T) {
	types := value.Shipped()
	first := at(10, 1, set(causal.Record{}, "f", "1"))
	empty := types.Join(first, at(20, 1, remove(first, "f")))
	if value.Exists(empty.Value) || !types.HasDead(&empty) {
		t.Fatalf("%v", fields(empty))
	}
	if _, ok := types.Collect(empty, 19); !ok {
		t.Error("it is removed above the horizon")
	}
	if _, ok := types.Collect(empty, 20); ok {
		t.Error("it is not removed below the horizon")
	}
}

func TestADamagedCollectionIsRefused(t *testing.T) {
	types := value.Shipped()
	whole := at(10, 1, set(causal.Record{}, "f", "1", "g", "2"))
	for n := range whole.Value.Data {
		v := whole.Value
		v.Data = v.Data[:n]
		if types.Accepts(&v) {
			types.Join(causal.Record{Version: whole.Version, Value: v}, whole) // must not panic
		}
	}
	if v := (causal.Value{Type: 9}); types.Accepts(&v) {
		t.Error("an unknown type is accepted")
	}
}

// TestADeadlineOfADeletedCollectionDoesNotEndTheNextOne has two data centers: one sets a deadline, while the other one
// deletes the collection and makes a new one.
func TestADeadlineOfADeletedCollectionDoesNotEndTheNextOne(t *testing.T) {
	types := value.Shipped()
	first := at(10, 1, set(causal.Record{}, "f", "1"))
	expires := value.ChangeOf(first)
	expires.ExpireAt(5000)
	again := value.ChangeOf(first)
	again.Clear()
	again.Add(value.Hash, "g", "2")
	both := types.Join(types.Join(first, at(15, 17, again)), at(20, 1, expires))
	wantFields(t, "the new one", both, map[string]string{"g": "2"})
	if ms := both.Value.ExpireAtMs; ms != 0 {
		t.Errorf("it expires at %d", ms)
	}
	longer, shorter := value.ChangeOf(first), value.ChangeOf(first)
	longer.ExpireAt(9000)
	shorter.ExpireAt(7000)
	if r := types.Join(at(20, 1, longer), types.Join(first, at(30, 17, shorter))); r.Value.ExpireAtMs != 9000 {
		t.Errorf("of two deadlines at the same time it expires at %d", r.Value.ExpireAtMs)
	}
}

// TestTheKindOfTheNewestElementShows has two data centers that make a hash and a set of one key.
func TestTheKindOfTheNewestElementShows(t *testing.T) {
	types := value.Shipped()
	hash := at(10, 1, set(causal.Record{}, "f", "1"))
	c := value.ChangeOf(causal.Record{})
	c.Add(value.Set, "m", "")
	both := types.Join(hash, at(20, 17, c))
	if kind := value.KindOf(both.Value); kind != value.Set {
		t.Fatalf("it is of kind %d", kind)
	}
	next := value.ChangeOf(both)
	next.Add(value.Set, "n", "")
	next.Remove("m")
	next.Remove("n")
	if left := types.Join(both, at(30, 17, next)); value.Exists(left.Value) {
		t.Errorf("what was hidden is there again: %v", fields(left))
	}
}

func TestAChangeReadsWhatItHasChanged(t *testing.T) {
	first := at(10, 1, set(causal.Record{}, "f", "1", "g", "1"))
	c := value.ChangeOf(first)
	if c.Add(value.Hash, "f", "2") || !c.Add(value.Hash, "h", "3") || !c.Remove("g") || c.Remove("g") {
		t.Error("it does not say what was there")
	}
	h := value.CollectionOf(c.Result())
	if got, want := maps.Collect(c.All()), (map[string]string{"f": "2", "h": "3"}); !maps.Equal(got, want) ||
		!maps.Equal(maps.Collect(h.All()), want) || c.Len() != 2 || h.Len() != 2 {
		t.Errorf("%v, its result %v, of %d", got, maps.Collect(h.All()), c.Len())
	}
	wantFields(t, "joined", value.Shipped().Join(first, at(20, 1, c)), map[string]string{"f": "2", "h": "3"})
}
