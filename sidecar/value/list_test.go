package value_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/value"
	"github.com/causalstore/causalstore/sidecar/value/laws"
	"github.com/causalstore/causalstore/topology"
)

// changeList makes random changes of a list, with texts that no other write has.
func changeList(r *rand.Rand, c *value.Change, v causal.Version) {
	for i := range 1 + r.IntN(4) {
		text, n := fmt.Sprint(v, i), c.Len()
		if n == 0 {
			c.Push(r.IntN(2) == 0, text)
			continue
		}
		switch at := r.IntN(n); r.IntN(6) {
		case 0, 1:
			c.Push(r.IntN(2) == 0, text)
		case 2:
			c.Insert(at, r.IntN(2) == 0, text)
		case 3:
			c.SetItem(at, text)
		case 4:
			c.RemoveItems(at, at+1+r.IntN(n-at))
		case 5:
			if r.IntN(4) == 0 {
				c.Clear()
			}
		}
	}
}

func TestListsKeepTheLaws(t *testing.T) {
	laws.Check(t, value.Shipped(), func(r *rand.Rand, v causal.Version) causal.Value {
		var seen causal.Record
		for hlc := causal.HLC(1); hlc < v.HLC; hlc++ { // what other writes have added
			if r.IntN(3) > 0 {
				continue
			}
			c := value.ChangeOf(seen)
			if c.Kind() != value.Hash {
				c.Push(r.IntN(2) == 0, "other")
				c.Push(r.IntN(2) == 0, "other")
			}
			seen = value.Shipped().Join(seen, at(hlc, topology.Origin(1+16*r.IntN(3)), c))
		}
		c := value.ChangeOf(seen)
		if r.IntN(8) == 0 {
			c.Clear()
			c.Add(value.Hash, "f", "1")
		} else {
			changeList(r, c, v)
		}
		if r.IntN(4) == 0 {
			c.ExpireAt(int64(r.IntN(2)) * 1000)
		}
		return c.Value()
	})
}

func texts(r causal.Record) []string {
	h := value.CollectionOf(r.Value)
	return h.Texts()
}

func wantTexts(t *testing.T, what string, r causal.Record, want string) {
	t.Helper()
	if got := strings.Join(texts(r), " "); got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// push returns a change that adds texts to the end of a list, or to its front.
func push(seen causal.Record, isFront bool, texts ...string) *value.Change {
	c := value.ChangeOf(seen)
	for _, text := range texts {
		c.Push(isFront, text)
	}
	return c
}

// TestPushesAreInTheOrderOfTime has two data centers that push to both ends of a list at the same time.
func TestPushesAreInTheOrderOfTime(t *testing.T) {
	types := value.Shipped()
	list := at(10, 1, push(causal.Record{}, false, "x"))
	for _, w := range []causal.Record{at(40, 17, push(list, false, "r5", "r6")), at(20, 17, push(list, false, "r1", "r2")),
		at(30, 1, push(list, false, "r3", "r4")), at(40, 1, push(list, true, "l3", "l4")),
		at(30, 17, push(list, true, "l1", "l2"))} {
		list = types.Join(list, w)
	}
	wantTexts(t, "all", list, "l4 l3 l2 l1 x r1 r2 r3 r4 r5 r6")
}

// TestInsertedElementsStayBesideTheirPivot has two data centers that insert beside the same element, which is removed.
func TestInsertedElementsStayBesideTheirPivot(t *testing.T) {
	types := value.Shipped()
	first := at(10, 1, push(causal.Record{}, false, "a", "p", "z"))
	insert := func(hlc causal.HLC, origin topology.Origin, isAfter bool, texts ...string) causal.Record {
		c := value.ChangeOf(first)
		for _, text := range texts {
			i := slices.IndexFunc(c.Items(), func(item value.Item) bool { return item.Text == "p" })
			if !c.Insert(i, isAfter, text) {
				t.Fatal("it is too deep")
			}
		}
		return at(hlc, origin, c)
	}
	list := types.Join(types.Join(first, insert(30, 1, false, "b3", "b4")), insert(20, 17, false, "b1", "b2"))
	list = types.Join(list, insert(50, 17, true, "c1", "c2"))
	list = types.Join(types.Join(list, insert(40, 1, true, "c3", "c4")), at(60, 1, push(first, false, "end")))
	wantTexts(t, "all", list, "a b1 b2 b3 b4 p c2 c1 c4 c3 z end")
	c := value.ChangeOf(list)
	c.RemoveItems(5, 6)
	wantTexts(t, "without the pivot", types.Join(list, at(70, 1, c)), "a b1 b2 b3 b4 c2 c1 c4 c3 z end")
}

// TestARemovedElementOfAListDoesNotComeBack has one data center that removes an element, while another one gives it
// another text later.
func TestARemovedElementOfAListDoesNotComeBack(t *testing.T) {
	types := value.Shipped()
	first := at(10, 1, push(causal.Record{}, false, "a", "b"))
	removes, sets := value.ChangeOf(first), value.ChangeOf(first)
	removes.RemoveItems(0, 1)
	sets.SetItem(0, "A")
	wantTexts(t, "set", types.Join(at(30, 17, sets), first), "A b")
	both := types.Join(types.Join(first, at(20, 1, removes)), at(30, 17, sets))
	wantTexts(t, "set and removed", both, "b")
	register := causal.Record{Version: causal.Version{HLC: 15, Origin: 17}, Value: causal.Value{Tombstone: true}}
	if got := types.Join(types.Join(first, register), at(30, 17, sets)); value.Exists(got.Value) {
		t.Errorf("set, and overwritten before that: %q", texts(got))
	}
	left, ok := types.Collect(types.Join(first, at(20, 1, removes)), 25)
	if !ok {
		t.Fatal("nothing is left")
	}
	wantTexts(t, "set after the removal was collected", types.Join(left, at(30, 17, sets)), "b")
}

// TestAListIsTheSameAtEveryShard joins the same writes, of sessions that have not seen all, in two orders and with
// repetitions; one of the shards collects what is below what it has. They show the same, no element is twice, what was
// removed does not come back, and two elements are in the same order wherever they are seen.
func TestAListIsTheSameAtEveryShard(t *testing.T) {
	types := value.Shipped()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		var collecting, late causal.Record
		var writes []causal.Record
		order := map[[2]string]bool{}
		for i := range causal.HLC(12) {
			seen := collecting
			if r.IntN(3) == 0 {
				seen = late
			}
			v := causal.Version{HLC: 10 + i, Origin: topology.Origin(1 + 16*r.IntN(2))}
			c := value.ChangeOf(seen)
			changeList(r, c, v)
			w := at(v.HLC, v.Origin, c)
			if r.IntN(12) == 0 {
				w.Value = causal.Value{Tombstone: true}
			}
			writes, late = append(writes, w), collecting
			collecting = types.Join(collecting, w)
			noteOrder(t, seed, order, texts(collecting))
			if r.IntN(3) == 0 && collecting.Value.Merges() {
				if left, ok := types.Collect(collecting, v.HLC); ok {
					collecting = left
				} else {
					collecting = causal.Missing(v.HLC)
				}
			}
			other := writes[r.IntN(len(writes))]
			for _, n := range r.Perm(len(writes)) {
				other = types.Join(other, writes[n])
				noteOrder(t, seed, order, texts(other))
			}
			if a, b := texts(collecting), texts(other); !slices.Equal(a, b) ||
				!slices.Equal(texts(types.Join(other, collecting)), a) {
				t.Fatalf("seed %d: after write %d one has %v, the other one %v", seed, i, a, b)
			}
		}
	}
}

// noteOrder notes which elements of a list come before which.
func noteOrder(t *testing.T, seed uint64, order map[[2]string]bool, list []string) {
	t.Helper()
	for i, a := range list {
		for _, b := range list[i+1:] {
			if order[[2]string{a, b}] = true; order[[2]string{b, a}] {
				t.Fatalf("seed %d: %s and %s are in both orders, or twice", seed, a, b)
			}
		}
	}
}

func TestAChangeOfAListReadsWhatItHasChanged(t *testing.T) {
	types := value.Shipped()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 4))
		seen := at(10, 1, push(causal.Record{}, false, "a", "b", "c"))
		for hlc := range causal.HLC(4) {
			c := value.ChangeOf(seen)
			model := slices.Clone(texts(seen))
			for i := range 6 {
				text, n := fmt.Sprint(hlc, i), len(model)
				switch k := r.IntN(5); {
				case k < 2 || n == 0:
					if c.Push(k == 0, text); k == 0 {
						model = slices.Insert(model, 0, text)
					} else {
						model = append(model, text)
					}
				case k == 2:
					at, isAfter := r.IntN(n), r.IntN(2)
					c.Insert(at, isAfter == 1, text)
					model = slices.Insert(model, at+isAfter, text)
				case k == 3:
					at := r.IntN(n)
					c.SetItem(at, text)
					model[at] = text
				default:
					from := r.IntN(n)
					to := from + r.IntN(n-from+1)
					c.RemoveItems(from, to)
					model = slices.Delete(model, from, to)
				}
				var got []string
				if r.IntN(2) == 0 {
					for _, item := range c.Items() {
						got = append(got, item.Text)
					}
				} else {
					for _, text := range c.All() {
						got = append(got, text)
					}
				}
				if !slices.Equal(got, model) || c.Len() != len(model) {
					t.Fatalf("seed %d: it reads %q of %d, want %q", seed, got, c.Len(), model)
				}
			}
			result := causal.Record{Value: c.Result()}
			seen = types.Join(seen, at(20+hlc, 1, c))
			if !slices.Equal(texts(seen), model) || !slices.Equal(texts(result), model) {
				t.Fatalf("seed %d: put %q, result %q, want %q", seed, texts(seen), texts(result), model)
			}
		}
	}
}

func TestPositionsBesideEachOtherAreBounded(t *testing.T) {
	c := push(causal.Record{}, false, "a", "b")
	n := 0
	for c.Insert(n, true, fmt.Sprint(n)) {
		if n++; n > 1000 {
			t.Fatal("they are not bounded")
		}
	}
	list := at(10, 1, c)
	if v := list.Value; n != 63 || !value.Shipped().Accepts(&v) || len(texts(list)) != 65 {
		t.Errorf("%d, and %d elements", n, len(texts(list)))
	}
	if !c.Insert(64, false, "before b") {
		t.Error("nothing can be inserted beside another one")
	}
}

// TestOddVersionsOfAListBreakNothing has puts that were accepted with a version that is not above what they have seen.
func TestOddVersionsOfAListBreakNothing(t *testing.T) {
	types := value.Shipped()
	first := at(50, 1, push(causal.Record{}, false, "a", "b"))
	c := value.ChangeOf(first)
	c.RemoveItems(0, 1)
	c.Push(false, "x")
	if v := c.Value(); !types.Accepts(&v) {
		t.Fatal("it is refused")
	}
	wantTexts(t, "a version below", types.Join(first, at(20, 1, c)), "x b")
	wantTexts(t, "the same, where x is the position that was removed", types.Join(first, at(50, 1, c)), "b")
}

// FuzzAList takes any bytes for a list that came from elsewhere. What is accepted without a version is a collection
// with any.
func FuzzAList(f *testing.F) {
	types := value.Shipped()
	list := at(10, 1, push(causal.Record{}, false, "a", "b"))
	c := value.ChangeOf(list)
	c.Insert(1, true, "c")
	c.SetItem(0, "d")
	c.RemoveItems(1, 2)
	for _, v := range []causal.Value{list.Value, c.Value(), types.Join(list, at(20, 17, c)).Value} {
		f.Add(v.Data, uint64(15), uint32(1))
	}
	f.Fuzz(func(t *testing.T, data []byte, hlc uint64, origin uint32) {
		v := causal.Value{Type: causal.Collection, Data: data}
		if !types.Accepts(&v) || hlc == 0 {
			return
		}
		w := causal.Record{Version: causal.Version{HLC: causal.HLC(hlc), Origin: topology.Origin(origin)}, Value: v}
		both := types.Join(w, list)
		if !types.Accepts(&both.Value) {
			t.Fatalf("%q", both.Value.Data)
		}
		for part := range types.Writes(both) {
			types.Join(part, both)
		}
		types.Collect(both, 5)
		c := value.ChangeOf(w)
		if c.Kind() == value.List {
			c.Push(true, "x")
			c.RemoveItems(0, c.Len())
		}
		types.Join(w, at(1<<40, 1, c))
	})
}
