package load

import (
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/causalstore/causalstore/history"
)

// generator draws the operations of a Workload for one connection.
type generator struct {
	workload *Workload
	keys     *keyspace
	r        *rand.Rand
	name     string // of the connection; unique and stable, it starts every recorded value
	seq      int
	record   bool // values must identify their writer
	filler   filler
}

func newGenerator(c *Config, keys *keyspace, filler filler, number int, name string) *generator {
	return &generator{workload: c.Workload, keys: keys, r: rand.New(rand.NewPCG(c.Seed, uint64(number))), name: name,
		record: c.Record != nil, filler: filler}
}

func (g *generator) next(r *request) {
	r.verb = g.verb()
	r.op.Kind = r.verb.kind()
	switch r.verb {
	case MGet:
		g.drawKeys(r)
		for _, k := range r.keys {
			r.op.Reads = append(r.op.Reads, history.Read{Key: g.keys.name(k)})
		}
		return
	case Insert:
		key := g.keys.inserts.start()
		r.insert = key
		r.keys = append(r.keys, key%g.keys.limit)
	default:
		r.keys = append(r.keys, g.keys.drawKey(g.workload.Keys.Distribution, g.r))
	}
	g.address(r)
}

// address sets the key of a request and the value that it writes.
func (g *generator) address(r *request) {
	r.op.Key = g.keys.name(r.keys[0])
	switch r.verb {
	case Incr:
		r.op.Key = g.keys.counter(r.keys[0])
	case Set, Add, Insert:
		r.op.Value, r.value = g.value()
		r.ttl = drawTTL(g.workload.TTLs, g.r)
	case ReadModifyWrite:
		r.write = r.op
		r.write.Kind = history.Put
		r.write.Value, r.value = g.value()
		r.ttl = drawTTL(g.workload.TTLs, g.r)
	}
}

// write makes a request the first SET of a key.
func (g *generator) write(r *request, key int) {
	r.verb, r.op.Kind = Set, history.Put
	r.keys = append(r.keys, key)
	g.address(r)
}

func (g *generator) verb() Verb {
	p := g.r.Float64()
	last := Get
	for v, share := range g.workload.shares {
		if share == 0 {
			continue
		}
		if last = Verb(v); p < share {
			break
		}
		p -= share
	}
	return last
}

// value returns the name of a value in the history, and the value to send.
func (g *generator) value() (unique, sent string) {
	n := g.workload.Values.draw(g.r)
	if !g.record {
		return "", g.filler.cut(n, g.r)
	}
	g.seq++
	unique = g.name + "-" + strconv.Itoa(g.seq)
	return unique, padded(unique, n)
}

// drawKeys draws the keys of an MGET, all distinct.
func (g *generator) drawKeys(r *request) {
	m := g.workload.MGet
	n := m.Min + g.r.IntN(m.Max-m.Min+1)
	draw := func() int { return g.keys.drawKey(g.workload.Keys.Distribution, g.r) }
	there := min(g.keys.there(), g.keys.limit)
	if m.Consecutive {
		for first := draw(); len(r.keys) < n; first++ {
			r.keys = append(r.keys, first%there)
		}
		return
	}
	for len(r.keys) < n {
		r.keys = append(r.keys, different(r.keys, there, g.r, draw))
	}
}

// different draws a key that is not among those taken, of which there are fewer than n. If a skewed distribution keeps
// drawing the same keys, it takes a neighbor.
func different(taken []int, n int, r *rand.Rand, draw func() int) int {
	k := draw()
	for tries := 0; slices.Contains(taken, k); tries++ {
		if k = draw(); tries >= 8 {
			for k = r.IntN(n); slices.Contains(taken, k); {
				k = (k + 1) % n
			}
		}
	}
	return k
}
