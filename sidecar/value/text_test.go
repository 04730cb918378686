package value_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/operation"
	"github.com/causalstore/causalstore/sidecar/value"
	"github.com/causalstore/causalstore/sidecar/value/laws"
	"github.com/causalstore/causalstore/topology"
)

func setText(text string) causal.Value { return causal.Value{Data: []byte(text)} }

// execute returns what an operation puts on a value.
func execute(t *testing.T, on causal.Record, o operation.Operation, line value.Line) causal.Value {
	t.Helper()
	r := value.Shipped().Execute(&o, on, 0, line)
	if r.Err != nil || !r.Writes {
		t.Fatalf("%+v on %+v: %+v", o, on, r)
	}
	return r.Next
}

func incr(by int64) operation.Operation { return operation.Operation{Kind: operation.Add, Number: by} }

func TestStringsKeepTheLaws(t *testing.T) {
	laws.Check(t, value.Shipped(), func(r *rand.Rand, v causal.Version) causal.Value {
		on := causal.Missing(0)
		if v.HLC > 1 && r.IntN(3) > 0 {
			on = causal.Record{Value: setText(strconv.Itoa(r.IntN(9))),
				Version: causal.Version{HLC: causal.HLC(1 + r.IntN(int(v.HLC)-1)), Origin: topology.Origin(1 + 16*r.IntN(3))}}
		}
		line := value.Line(1 + v.Origin/16)
		for range r.IntN(3) * int(min(on.Version.HLC, 1)) {
			put := execute(t, on, incr(int64(1+r.IntN(3))), line)
			on = value.Shipped().Join(on, causal.Record{Value: put, Version: causal.Version{HLC: on.Version.HLC,
				Origin: on.Version.Origin + 1}})
		}
		switch r.IntN(6) {
		case 0:
			c := value.ChangeOf(on)
			c.Clear()
			c.Add(value.Hash, "f", "1")
			return c.Value()
		case 1:
			if on.Value.Merges() {
				return execute(t, on, operation.Operation{Kind: operation.Expire, ExpireAtMs: 1000}, line)
			}
		case 2:
			return setText("text")
		}
		return execute(t, on, incr(1), line)
	})
}

// counter is a key in several data centers.
type counter struct {
	t      *testing.T
	places []place
}

func (c *counter) do(at int, hlc causal.HLC, o operation.Operation) causal.Record {
	p := &c.places[at]
	w := causal.Record{Value: execute(c.t, p.has, o, value.Line(at+1)),
		Version: causal.Version{HLC: hlc, Origin: topology.Origin(1 + 16*at)}}
	p.has = value.Shipped().Join(p.has, w)
	return w
}

// meet makes all data centers have all writes, and returns the string.
func (c *counter) meet(writes []causal.Record) string {
	for i := range c.places {
		p := &c.places[i]
		for _, j := range rand.Perm(len(writes)) {
			p.has = value.Shipped().Join(p.has, writes[j])
		}
	}
	got := string(value.TextOf(c.places[0].has.Value).Data)
	for i := range c.places {
		if other := string(value.TextOf(c.places[i].has.Value).Data); other != got {
			c.t.Errorf("%q in one data center, %q in another", got, other)
		}
	}
	return got
}

func TestIncrementsOfAStringAddUp(t *testing.T) {
	for _, begin := range []causal.Record{causal.Missing(0),
		{Value: setText("5"), Version: causal.Version{HLC: 1, Origin: 1}}} {
		c := counter{t, make([]place, 3)}
		want, _ := strconv.Atoi(string(begin.Value.Data))
		for i := range c.places {
			c.places[i].has = begin
		}
		for round := range 4 {
			var writes []causal.Record
			for n := range 30 {
				by := 1 + n%7
				writes = append(writes, c.do(n%3, causal.HLC(10+40*round+n), incr(int64(by))))
				want += by
			}
			if got := c.meet(writes); got != strconv.Itoa(want) {
				t.Errorf("%s and not %d", got, want)
			}
		}
	}
}

func TestASetWinsOverIncrementsThatItHasNotSeen(t *testing.T) {
	set := func(text string) operation.Operation {
		return operation.Operation{Kind: operation.Set, Data: []byte(text)}
	}
	for _, x := range []struct {
		name string
		do   func(c *counter) []causal.Record
		want string
	}{
		{"before it", func(c *counter) []causal.Record {
			return []causal.Record{c.do(0, 10, incr(1)), c.do(1, 20, set("100"))}
		}, "100"},
		{"begun before it, and gone on after it", func(c *counter) []causal.Record {
			return []causal.Record{c.do(0, 10, incr(1)), c.do(1, 20, set("100")), c.do(0, 30, incr(1))}
		}, "100"},
		{"begun after it", func(c *counter) []causal.Record {
			return []causal.Record{c.do(1, 20, set("100")), c.do(0, 30, incr(7))}
		}, "107"},
		{"a delete", func(c *counter) []causal.Record {
			return []causal.Record{c.do(0, 10, incr(1)), c.do(1, 15, incr(1)),
				c.do(1, 20, operation.Operation{Kind: operation.Delete})}
		}, ""},
		{"no number", func(c *counter) []causal.Record {
			return []causal.Record{c.do(1, 20, set("text")), c.do(0, 30, incr(7))}
		}, "text"},
	} {
		c := &counter{t, make([]place, 2)}
		if got := c.meet(x.do(c)); got != x.want {
			t.Errorf("%s: %q and not %q", x.name, got, x.want)
		}
	}
}

func TestAnExpireTimeLeavesIncrementsOfOthers(t *testing.T) {
	c := &counter{t, make([]place, 2)}
	if got := c.meet([]causal.Record{c.do(0, 10, incr(1))}); got != "1" {
		t.Fatal(got)
	}
	expire := operation.Operation{Kind: operation.Expire, ExpireAtMs: 1000}
	if got := c.meet([]causal.Record{c.do(0, 20, expire), c.do(1, 21, incr(1))}); got != "2" {
		t.Errorf("%s", got)
	}
	if ms := c.places[0].has.Value.ExpireAtMs; ms != 1000 {
		t.Errorf("expires at %d", ms)
	}
}

func TestAStringUnderAHashIsRemovedWithTheNextWrite(t *testing.T) {
	types := value.Shipped()
	h := value.ChangeOf(causal.Missing(0))
	h.Add(value.Hash, "f", "1")
	both := types.Join(causal.Record{Value: setText("hidden"), Version: causal.Version{HLC: 10, Origin: 1}},
		causal.Record{Value: h.Value(), Version: causal.Version{HLC: 20, Origin: 17}})
	if value.KindOf(both.Value) != value.Hash {
		t.Fatal("the hash is later")
	}
	next := value.ChangeOf(both)
	next.Remove("f")
	all := types.Join(both, causal.Record{Value: next.Value(), Version: causal.Version{HLC: 30, Origin: 1}})
	if value.Exists(all.Value) {
		t.Errorf("what is left is of kind %d", value.KindOf(all.Value))
	}
}

func TestARegisterIsWhatItWasPutAs(t *testing.T) {
	types := value.Shipped()
	v := causal.Version{HLC: 10, Origin: 1}
	for _, set := range []causal.Value{setText("12"), setText("5"), {Data: []byte("5"), ExpireAtMs: 7}} {
		r := causal.Record{Value: set, Version: v}
		joined := types.Join(r, causal.Record{Value: execute(t, r, incr(1), 2),
			Version: causal.Version{HLC: 20, Origin: 17}})
		first := true
		for w := range types.Writes(joined) {
			if first && (fmt.Sprint(w.Value) != fmt.Sprint(set) || w.Version != v) {
				t.Errorf("%v was put, and %v is written", set, w)
			}
			first = false
		}
	}
}

// A string that the store has not written has no version to add to.
func TestANumberWithoutAVersionIsIncremented(t *testing.T) {
	if put := execute(t, causal.Record{Value: setText("5")}, incr(1), 1); put.Merges() || string(put.Data) != "6" {
		t.Errorf("%+v", put)
	}
}
