// Package laws checks that a type of values keeps the laws that make shards converge: whatever writes a shard has
// received, in whichever order and however often, and whichever of them were joined elsewhere before, it has the same
// value.
package laws

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/value"
	"github.com/causalstore/causalstore/topology"
)

// Check checks the laws of Join with random writes of a key. write draws what a put brings, for a version; registers,
// tombstones and missing keys are mixed in.
func Check(t *testing.T, types *value.Types, write func(*rand.Rand, causal.Version) causal.Value) {
	t.Helper()
	for seed := range uint64(2000) {
		c := checker{t: t, types: types, r: rand.New(rand.NewPCG(seed, 3)), write: write}
		writes := c.draw()
		a, b, x := c.some(writes), c.some(writes), c.some(writes)
		c.same("a + a is a", types.Join(a, a), a)
		c.same("a + b is b + a", types.Join(a, b), types.Join(b, a))
		c.same("(a + b) + c is a + (b + c)", types.Join(types.Join(a, b), x), types.Join(a, types.Join(b, x)))
		c.same("all writes in one order, and in another", c.all(writes), c.all(writes))
		c.parts(a)
	}
}

type checker struct {
	t     *testing.T
	types *value.Types
	r     *rand.Rand
	write func(*rand.Rand, causal.Version) causal.Value
}

// draw returns writes with different versions, each as its put brings it.
func (c *checker) draw() (writes []causal.Record) {
	versions := map[causal.Version]bool{}
	for range 1 + c.r.IntN(6) {
		v := causal.Version{HLC: causal.HLC(1 + c.r.IntN(8)), Origin: topology.Origin(1 + 16*c.r.IntN(3))}
		rec := causal.Record{Version: v, Value: c.write(c.r, v)}
		switch c.r.IntN(6) {
		case 0:
			rec.Value = causal.Value{Tombstone: true}
		case 1:
			rec.Value = causal.Value{Data: []byte{byte(c.r.IntN(256))}}
		case 2:
			rec = causal.Missing(v.HLC)
		}
		if !versions[rec.Version] {
			versions[rec.Version] = true
			writes = append(writes, rec)
		}
	}
	return writes
}

// some returns the value of some of the writes, at least one.
func (c *checker) some(writes []causal.Record) causal.Record {
	rec := writes[c.r.IntN(len(writes))]
	for range c.r.IntN(4) {
		rec = c.types.Join(rec, writes[c.r.IntN(len(writes))])
	}
	return rec
}

// all returns the value of all writes, in a random order, with some of them twice.
func (c *checker) all(writes []causal.Record) causal.Record {
	order := c.r.Perm(len(writes))
	rec := writes[order[0]]
	for _, i := range order[1:] {
		rec = c.types.Join(rec, writes[i])
		if c.r.IntN(3) == 0 {
			rec = c.types.Join(c.some(writes), rec)
		}
	}
	return rec
}

// parts checks that a record is its newest write, and that its writes do not change it.
func (c *checker) parts(rec causal.Record) {
	last := causal.Version{}
	for w := range c.types.Writes(rec) {
		if !last.Less(w.Version) && !last.IsZero() {
			c.t.Fatalf("writes of %+v: %v comes after %v", rec, w.Version, last)
		}
		last = w.Version
		c.same("a + a write of a is a", c.types.Join(rec, w), rec)
	}
	if last != rec.Version {
		c.t.Fatalf("the newest write of %+v is %v", rec, last)
	}
}

func (c *checker) same(law string, a, b causal.Record) {
	c.t.Helper()
	if a.Version != b.Version || a.Value.Type != b.Value.Type || a.Value.Tombstone != b.Value.Tombstone ||
		a.Value.ExpireAtMs != b.Value.ExpireAtMs ||
		!bytes.Equal(a.Value.Data, b.Value.Data) {
		c.t.Fatalf("%s: no: %+v and %+v", law, a, b)
	}
}
