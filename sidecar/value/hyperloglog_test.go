package value_test

import (
	"math/rand/v2"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/value"
	"github.com/causalstore/causalstore/sidecar/value/laws"
	"github.com/causalstore/causalstore/topology"
)

// raise makes registers of a change at least a rank.
func raise(c *value.Change, rank byte, registers ...int) (isRaised bool) {
	for _, i := range registers {
		name, at := value.RowOfRegister(i)
		row := [value.RegistersOfRow]byte{}
		row[at] = rank
		isRaised = c.Raise(name, row[:]) || isRaised
	}
	return isRaised
}

// changeRegisters makes random changes of a HyperLogLog, of few registers.
func changeRegisters(r *rand.Rand, c *value.Change) {
	for range 1 + r.IntN(4) {
		switch r.IntN(8) {
		case 0:
			c.Clear()
		case 1:
			if c.Len() == 0 {
				c.AddEmptyHyperLogLog()
			}
		default:
			raise(c, byte(1+r.IntN(6)), r.IntN(4)+r.IntN(2)*value.RegistersOfRow)
		}
	}
}

// registersOf returns the first registers of two rows.
func registersOf(r causal.Record) (all [8]byte) {
	h := value.CollectionOf(r.Value)
	for name, registers := range h.All() {
		if name != "" {
			copy(all[value.FirstOfRow(name)/value.RegistersOfRow*4:][:4], registers)
		}
	}
	return all
}

func TestHyperLogLogsKeepTheLaws(t *testing.T) {
	laws.Check(t, value.Shipped(), func(r *rand.Rand, v causal.Version) causal.Value {
		var seen causal.Record
		for hlc := causal.HLC(1); hlc < v.HLC; hlc++ { // what other writes have raised
			if r.IntN(3) > 0 {
				continue
			}
			c := value.ChangeOf(seen)
			changeRegisters(r, c)
			seen = value.Shipped().Join(seen, at(hlc, topology.Origin(1+16*r.IntN(3)), c))
		}
		c := value.ChangeOf(seen)
		if r.IntN(8) == 0 {
			c.Clear()
			c.Add(value.Hash, "f", "1")
		} else if c.Kind() != value.Hash {
			changeRegisters(r, c)
		}
		if r.IntN(4) == 0 {
			c.ExpireAt(int64(r.IntN(2)) * 1000)
		}
		return c.Value()
	})
}

// TestTheGreatestOfEachRegisterCounts has three data centers that raise registers, and are told of what the others have
// written late, in any order and repeatedly.
func TestTheGreatestOfEachRegisterCounts(t *testing.T) {
	types := value.Shipped()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		ps, all, want := places(), []causal.Record(nil), [8]byte{}
		for i := range 60 {
			p, register, rank := &ps[r.IntN(3)], r.IntN(8), byte(1+r.IntN(9))
			want[register] = max(want[register], rank)
			all = append(all, p.write(types, causal.HLC(10+i), func(c *value.Change) {
				raise(c, rank, register/4*value.RegistersOfRow+register%4)
			}))
			for range r.IntN(4) {
				p := &ps[r.IntN(3)]
				p.has = types.Join(p.has, all[r.IntN(len(all))])
			}
		}
		for i := range ps {
			for _, j := range r.Perm(len(all)) {
				ps[i].has = types.Join(all[j], ps[i].has)
			}
			if got := registersOf(ps[i].has); got != want {
				t.Fatalf("seed %d: place %d has %d, want %d", seed, i, got, want)
			}
		}
	}
}

// TestAHyperLogLogIsTheSameAtEveryShard joins the same writes at two shards, of which one collects what is below what
// both have now and then.
func TestAHyperLogLogIsTheSameAtEveryShard(t *testing.T) {
	types := value.Shipped()
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 8))
		var a, b, late causal.Record
		own := map[topology.Origin]causal.Record{}
		for i := range causal.HLC(16) {
			seen := a
			if r.IntN(3) == 0 {
				seen = late // its session has not seen all
			}
			origin := topology.Origin(1 + 16*r.IntN(3))
			c := value.ChangeOf(types.Join(seen, own[origin])) // but all of its data center
			changeRegisters(r, c)
			w := at(10+i, origin, c)
			if r.IntN(10) == 0 {
				w.Value = causal.Value{Tombstone: true}
			}
			own[origin] = types.Join(w, own[origin])
			older := late
			if r.IntN(2) == 0 {
				late = a
			}
			a, b = types.Join(a, w), types.Join(b, w)
			if r.IntN(3) == 0 && a.Value.Merges() {
				if left, ok := types.Collect(a, 10+i); ok {
					a = left
				} else {
					a = causal.Missing(10 + i)
				}
			}
			if r.IntN(4) == 0 {
				a = types.Join(a, w) // it comes again
			}
			if a.Value.Merges() && b.Value.Merges() && older.Value.Merges() && i%2 == 0 {
				a = types.Join(a, older) // of a shard that has not got what came since
			}
			both := types.Join(a, b)
			if registersOf(a) != registersOf(b) || registersOf(both) != registersOf(b) ||
				value.Exists(a.Value) != value.Exists(b.Value) {
				t.Fatalf("seed %d: after write %d one has %d, the other one %d, joined %d", seed, i, registersOf(a),
					registersOf(b), registersOf(both))
			}
		}
	}
}

func TestWhatIsRaisedWhileAHyperLogLogIsDeletedStays(t *testing.T) {
	types := value.Shipped()
	ps := places()
	first := ps[0].write(types, 10, func(c *value.Change) { raise(c, 5, 0, 1, value.RegistersOfRow) })
	ps[1].has = types.Join(ps[1].has, first)
	w := ps[1].write(types, 20, func(c *value.Change) { raise(c, 6, 2) })
	ps[0].write(types, 30, func(c *value.Change) { c.Clear() })
	if value.Exists(ps[0].has.Value) {
		t.Errorf("it is there after it was deleted: %d", registersOf(ps[0].has))
	}
	both := types.Join(ps[0].has, w)
	if got, want := registersOf(both), [8]byte{2: 6}; got != want {
		t.Errorf("registers %d, want %d", got, want)
	}
	again := types.Join(both, at(40, 1, func() *value.Change {
		c := value.ChangeOf(both)
		raise(c, 1, 0)
		return c
	}()))
	if got, want := registersOf(again), [8]byte{0: 1, 2: 6}; got != want {
		t.Errorf("raised again: %d, want %d", got, want)
	}
}

// TestAHyperLogLogStaysSmall raises all registers of one, each some times by a write of its own.
func TestAHyperLogLogStaysSmall(t *testing.T) {
	types := value.Shipped()
	p := places()[0]
	for i := range 4000 {
		p.write(types, causal.HLC(10+i)<<30, func(c *value.Change) { raise(c, byte(1+i/1000), i*7%1024) })
	}
	const rows = 1024 / value.RegistersOfRow
	if n := len(p.has.Value.Data); n > rows*150 {
		t.Errorf("%d rows take %d bytes", rows, n)
	}
	if raise(value.ChangeOf(p.has), 3, 9) {
		t.Error("a register is raised that is greater")
	}
}

func TestAChangeOfAHyperLogLogReadsWhatItHasChanged(t *testing.T) {
	c := value.ChangeOf(causal.Record{})
	if !raise(c, 3, 1, 2) || raise(c, 3, 1) || !raise(c, 4, 1) || c.Kind() != value.HyperLogLog || c.Len() != 1 {
		t.Error("it does not say what was raised")
	}
	if got, want := registersOf(causal.Record{Value: c.Result()}), [8]byte{1: 4, 2: 3}; got != want {
		t.Errorf("%d, want %d", got, want)
	}
	c.Clear()
	raise(c, 1, 1)
	if got, want := registersOf(causal.Record{Value: c.Result()}), [8]byte{1: 1}; got != want {
		t.Errorf("%d, want %d", got, want)
	}
	types := value.Shipped()
	before := value.ChangeOf(causal.Record{})
	raise(before, 3, 1, 2)
	first := at(10, 1, before)
	again := value.ChangeOf(first)
	again.Clear()
	raise(again, 1, 1)
	if got, want := registersOf(types.Join(first, at(20, 1, again))), [8]byte{1: 1}; got != want {
		t.Errorf("removed and raised: %d, want %d", got, want)
	}
}

func FuzzAHyperLogLog(f *testing.F) {
	c := value.ChangeOf(causal.Record{})
	raise(c, 3, 1, 2, 40)
	whole := at(10, 1, c)
	f.Add(whole.Value.Data)
	f.Add(at(20, 1, value.ChangeOf(whole)).Value.Data)
	f.Fuzz(func(t *testing.T, data []byte) {
		v := causal.Value{Type: causal.Collection, Data: data}
		types := value.Shipped()
		if !types.Accepts(&v) {
			return
		}
		for _, hlc := range []causal.HLC{0, 1, 10, 1 << 60} { // must not panic
			r := types.Join(causal.Record{Version: causal.Version{HLC: hlc, Origin: 17}, Value: v}, whole)
			types.Join(r, whole)
			value.ChangeOf(r).Clear()
		}
	})
}
