package value_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/operation"
	"github.com/causalstore/causalstore/sidecar/value"
	"github.com/causalstore/causalstore/topology"
)

// place is a data center that has some of the writes of a key.
type place struct {
	line value.Line
	has  causal.Record
}

func places() (ps [3]place) {
	for i := range ps {
		ps[i].line = value.Line(i + 1)
	}
	return ps
}

// write puts a change that a place has made at a time.
func (p *place) write(types *value.Types, hlc causal.HLC, change func(*value.Change)) causal.Record {
	c := value.ChangeOf(p.has)
	change(c)
	w := at(hlc, topology.Origin(1+16*int(p.line-1)), c)
	p.has = types.Join(p.has, w)
	return w
}

// TestIncrementsAddUp has three data centers that increment a field, and are told of what the others have written late,
// in any order and repeatedly.
func TestIncrementsAddUp(t *testing.T) {
	types := value.Shipped()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 5))
		ps, sum := places(), 0
		var all []causal.Record
		for i := range 60 {
			p, by := &ps[r.IntN(3)], r.IntN(9)-3
			before := fields(p.has)["n"]
			all = append(all, p.write(types, causal.HLC(10+i), func(c *value.Change) { increment(c, "n", by, p.line) }))
			if sum += by; before != "" && fields(p.has)["n"] != fmt.Sprint(mustInt(t, before)+by) {
				t.Fatalf("seed %d: %s and %d are %s", seed, before, by, fields(p.has)["n"])
			}
			for range r.IntN(4) {
				p := &ps[r.IntN(3)]
				p.has = types.Join(p.has, all[r.IntN(len(all))])
			}
		}
		for i := range ps {
			for _, j := range r.Perm(len(all)) {
				ps[i].has = types.Join(all[j], ps[i].has)
			}
			wantFields(t, fmt.Sprintf("seed %d, place %d", seed, i), ps[i].has, map[string]string{"n": fmt.Sprint(sum)})
		}
	}
}

func mustInt(t *testing.T, text string) int {
	t.Helper()
	n, ok := operation.ParseInt([]byte(text))
	if !ok {
		t.Fatalf("%q is no number", text)
	}
	return int(n)
}

// TestWhoSetsANumberStartsItAnew has two data centers: one increments, and the other one sets or removes the field.
func TestWhoSetsANumberStartsItAnew(t *testing.T) {
	types := value.Shipped()
	for _, c := range []struct {
		what         string
		do           func(c *value.Change)
		again, after string // at the same time as the second increment; and after it
	}{
		{"set", func(c *value.Change) { c.Add(value.Hash, "n", "100") }, "100", "101"},
		{"removed", func(c *value.Change) { c.Remove("n") }, "", "1"},
	} {
		ps := places()
		a, b := &ps[0], &ps[1]
		plus1 := func(c *value.Change) { increment(c, "n", 1, 1) }
		b.has = types.Join(b.has, a.write(types, 10, plus1))
		w := b.write(types, 20, c.do)
		a.write(types, 30, plus1)
		if a.has = types.Join(a.has, w); fields(a.has)["n"] != c.again {
			t.Errorf("%s at the same time: %q, want %q", c.what, fields(a.has)["n"], c.again)
		}
		if a.write(types, 40, plus1); fields(a.has)["n"] != c.after {
			t.Errorf("incremented after it was %s: %q, want %q", c.what, fields(a.has)["n"], c.after)
		}
	}
}

// TestANumberThatBeginsAfterItWasSetElsewhereIsAddedToThat has a data center that begins to increment a field without
// knowing that another one has set it.
func TestANumberThatBeginsAfterItWasSetElsewhereIsAddedToThat(t *testing.T) {
	types := value.Shipped()
	ps := places()
	w := ps[0].write(types, 10, func(c *value.Change) { c.Add(value.Hash, "n", "100") })
	ps[1].write(types, 20, func(c *value.Change) { increment(c, "n", 7, 2) })
	wantFields(t, "set and incremented", types.Join(ps[1].has, w), map[string]string{"n": "107"})
}

// TestOneLineSumsAsRedis has one data center that increments fractions: sums are rounded as by its commands one by one.
func TestOneLineSumsAsRedis(t *testing.T) {
	c := value.ChangeOf(at(10, 1, set(causal.Record{}, "n", "0.3")))
	var r causal.Record
	for i := range 7 {
		old, _ := c.Get("n")
		o := operation.Operation{Kind: operation.AddFloat, Data: []byte("0.1")}
		next := o.Apply(causal.Value{Data: []byte(old)}, 0).Next
		c.Increment(value.Hash, "n", string(next.Data), 1)
		if got, _ := c.Get("n"); got != string(next.Data) {
			t.Errorf("%s, want %s", got, next.Data)
		}
		r = value.Shipped().Join(r, at(causal.HLC(20+i), 1, c))
		c = value.ChangeOf(value.Shipped().Join(at(10, 1, set(causal.Record{}, "n", "0.3")), r))
	}
}

func TestScoresAddUp(t *testing.T) {
	types := value.Shipped()
	ps := places()
	first := ps[0].write(types, 10, func(c *value.Change) { c.Add(value.SortedSet, "m", value.ScorePayload(1.5)) })
	ps[1].has = first
	for i, p := range []*place{&ps[0], &ps[1]} {
		p.write(types, causal.HLC(20+i), func(c *value.Change) {
			old, _ := c.Get("m")
			c.Increment(value.SortedSet, "m", value.ScorePayload(value.Score(old)+2), p.line)
		})
	}
	both := types.Join(ps[0].has, ps[1].has)
	h := value.CollectionOf(both.Value)
	if payload, _ := h.Get("m"); value.Score(payload) != 5.5 {
		t.Errorf("the score is %v, want 5.5", value.Score(payload))
	}
}

// TestWhatIsSetAndIncrementedInOneWriteIsOneValue has commands of one pipeline.
func TestWhatIsSetAndIncrementedInOneWriteIsOneValue(t *testing.T) {
	types := value.Shipped()
	first := at(10, 1, set(causal.Record{}, "n", "1"))
	c := value.ChangeOf(first)
	increment(c, "n", 1, 1)
	c.Remove("n")
	increment(c, "n", 5, 1)
	increment(c, "n", 5, 1)
	wantFields(t, "removed and incremented twice", types.Join(first, at(20, 1, c)), map[string]string{"n": "10"})
	c.Add(value.Hash, "n", "20")
	increment(c, "n", 5, 1)
	wantFields(t, "set and incremented", types.Join(first, at(20, 1, c)), map[string]string{"n": "25"})
}

// TestTheCellOfALineCountsOnce increments a field twice in one change: the second time adds digits only.
func TestTheCellOfALineCountsOnce(t *testing.T) {
	c := value.ChangeOf(causal.Record{})
	increment(c, "n", 7, 1)
	before := c.Size()
	increment(c, "n", 100, 1)
	if got, want := c.Size()-before, len("107")-len("7"); got != want {
		t.Errorf("the second increment takes %d bytes, want %d", got, want)
	}
	other := value.ChangeOf(at(10, 1, c))
	before = other.Size()
	increment(other, "n", 1, 2)
	if got := other.Size() - before; got < 10 {
		t.Errorf("the cell of another line takes %d bytes", got)
	}
}
