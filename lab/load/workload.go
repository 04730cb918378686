package load

import (
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/causalstore/causalstore/history"
)

// padding follows the unique part of a value. Histories omit it.
const padding = "."

func unpadded(value string) string { return strings.TrimRight(value, padding) }

func padded(value string, bytes int) string {
	return value + strings.Repeat(padding, max(0, bytes-len(value)))
}

// mixGenerator draws the operations of one connection if there is no Workload: a mix that is made to check causality.
type mixGenerator struct {
	config *Config
	keys   *keyspace
	r      *rand.Rand
	name   string // of the connection; unique and stable, it starts every value
	number int
	seq    int
}

func newMixGenerator(c *Config, keys *keyspace, number int, name string) *mixGenerator {
	return &mixGenerator{config: c, keys: keys, r: rand.New(rand.NewPCG(c.Seed, uint64(number))), name: name,
		number: number}
}

func (c *mixGenerator) next(r *request) {
	p := c.r.Float64()
	switch {
	case p < c.config.ReadRatio:
		r.verb = Get
	case p < c.config.ReadRatio+c.config.MGetRatio:
		r.verb = MGet
		for range c.config.MGetKeys {
			r.keys = append(r.keys, different(r.keys, c.keys.shared, c.r, c.draw))
		}
		for _, k := range r.keys {
			r.op.Reads = append(r.op.Reads, history.Read{Key: c.keys.name(k)})
		}
	case p < c.config.ReadRatio+c.config.MGetRatio+c.config.DeleteRatio:
		r.verb = Del
	default:
		r.verb = Set
		c.seq++
		r.op.Value = c.name + "-" + strconv.Itoa(c.seq)
		r.value = padded(r.op.Value, c.config.ValueBytes)
	}
	r.op.Kind = r.verb.kind()
	if r.verb != MGet {
		r.keys = append(r.keys, c.draw())
		r.op.Key = c.keys.name(r.keys[0])
	}
}

func (c *mixGenerator) draw() int {
	if c.keys.private > 0 && c.r.Float64() < c.config.PrivateKeyShare {
		return c.keys.shared + c.number*c.keys.private + c.r.IntN(c.keys.private)
	}
	if key, ok := c.keys.hot.draw(c.r); ok {
		return key
	}
	return c.keys.zipf.next(c.r)
}
