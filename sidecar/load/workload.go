package load

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/causalstore/causalstore/sidecar/history"
)

// keyspace numbers the keys: first those that all share, then those of each connection.
type keyspace struct {
	prefix  string
	shared  int
	private int // of each connection
	zipf    *zipfian
}

func newKeyspace(c *Config, connections int) *keyspace {
	k := &keyspace{prefix: c.KeyPrefix, shared: c.Keys, zipf: newZipfian(c.Keys, c.Theta)}
	if c.PrivateKeyShare > 0 {
		k.private = max(1, c.Keys/connections)
	}
	return k
}

func (k *keyspace) name(key int) string { return k.prefix + strconv.Itoa(key) }

// padding follows the unique part of a value. Histories leave it out.
const padding = "."

func unpadded(value string) string { return strings.TrimRight(value, padding) }

// chooser draws the operations of one connection.
type chooser struct {
	config *Config
	keys   *keyspace
	r      *rand.Rand
	name   string // of the connection, unique and stable: values start with it
	number int
	seq    int
	drawn  []int
}

func newChooser(c *Config, keys *keyspace, number int, name string) *chooser {
	return &chooser{config: c, keys: keys, r: rand.New(rand.NewPCG(c.Seed, uint64(number))), name: name, number: number}
}

// next fills in what an operation is to do, and returns the numbers of its keys, valid until the next call.
func (c *chooser) next(op *history.Op) []int {
	c.drawn = c.drawn[:0]
	p := c.r.Float64()
	switch {
	case p < c.config.ReadRatio:
		op.Kind = history.Get
	case p < c.config.ReadRatio+c.config.MGetRatio:
		op.Kind = history.MGet
		c.drawKeys(c.config.MGetKeys)
		for _, k := range c.drawn {
			op.Reads = append(op.Reads, history.Read{Key: c.keys.name(k)})
		}
		return c.drawn
	case p < c.config.ReadRatio+c.config.MGetRatio+c.config.DeleteRatio:
		op.Kind = history.Delete
	default:
		op.Kind = history.Put
		c.seq++
		op.Value = c.name + "-" + strconv.Itoa(c.seq)
	}
	c.drawn = append(c.drawn, c.draw())
	op.Key = c.keys.name(c.drawn[0])
	return c.drawn
}

func (c *chooser) draw() int {
	if c.keys.private > 0 && c.r.Float64() < c.config.PrivateKeyShare {
		return c.keys.shared + c.number*c.keys.private + c.r.IntN(c.keys.private)
	}
	return c.keys.zipf.next(c.r)
}

// drawKeys draws n different keys; should a skewed distribution give the same ones again and again, neighbours are taken.
func (c *chooser) drawKeys(n int) {
	for len(c.drawn) < n {
		k := c.draw()
		for tries := 0; slices.Contains(c.drawn, k); tries++ {
			if k = c.draw(); tries >= 8 {
				for k = c.r.IntN(c.keys.shared); slices.Contains(c.drawn, k); {
					k = (k + 1) % c.keys.shared
				}
			}
		}
		c.drawn = append(c.drawn, k)
	}
}

func (c *chooser) padded(value string) string {
	if n := c.config.ValueBytes - len(value); n > 0 {
		return value + strings.Repeat(padding, n)
	}
	return value
}
