package load

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/causalstore/causalstore/history"
)

// Promise is what a load without a workload is made to check.
type Promise string

// The promises.
const (
	// Causal: causal+ of all endpoints together.
	Causal Promise = "causal"
	// DataCenter: the clients of each data center find one Redis there, whichever of its endpoints they use.
	DataCenter Promise = "datacenter"
)

// Promises are all of them.
var Promises = []Promise{Causal, DataCenter}

// operationsPerKey is how many operations a shared key gets before the next one takes its place: a search for an order
// of more takes long.
const operationsPerKey = 1000

// everywhere is the scope of keys that the clients of all data centers use.
const everywhere = "all"

// everywhereShare is the share of operations on them.
const everywhereShare = 0.3

// The kinds of shared keys that get updates. Plain keys get GET, MGET and SET, so that causal+ is checked of them, too.
const (
	counterKey  = "n"
	lockKey     = "l"
	registerKey = "r"
	// textKey is used by one data center only: what others have appended to is not known, and so explains everything.
	textKey = "t"
)

// sharedKeys are the keys of a load that checks data centers. Those of one data center are used by all its clients.
type sharedKeys struct {
	prefix  string
	perKind int
	scopes  []string // everywhere, then the data centers

	mu       sync.Mutex
	drawn    map[string]int             // operations, by kind, scope and place
	updated  map[string]map[string]bool // keys with updates, by data center that used them
	counters map[string]*counter        // of keys that one data center uses
}

// counter is what was added to a key.
type counter struct{ acknowledged, unknown int64 }

func newSharedKeys(c *Config) *sharedKeys {
	k := &sharedKeys{prefix: c.KeyPrefix, perKind: c.Keys, scopes: []string{everywhere}, drawn: map[string]int{},
		updated: map[string]map[string]bool{}, counters: map[string]*counter{}}
	for _, e := range c.Endpoints {
		if !slices.Contains(k.scopes, e.DataCenter) {
			k.scopes = append(k.scopes, e.DataCenter)
		}
	}
	return k
}

// draw draws one of the keys of a kind. It returns its scope and place, and how many were in that place before.
func (k *sharedKeys) draw(kind, dc string, r *rand.Rand) (scope string, place, generation int) {
	if scope = dc; kind != textKey && r.Float64() < everywhereShare {
		scope = everywhere
	}
	place = r.IntN(k.perKind)
	k.mu.Lock()
	defer k.mu.Unlock()
	at := kind + scope + strconv.Itoa(place)
	k.drawn[at]++
	return scope, place, k.drawn[at] / operationsPerKey
}

// plain draws the number of a plain key.
func (k *sharedKeys) plain(dc string, r *rand.Rand) int {
	scope, place, generation := k.draw("", dc, r)
	return (generation*k.perKind+place)*len(k.scopes) + slices.Index(k.scopes, scope)
}

// name draws the name of a key that gets updates.
func (k *sharedKeys) name(kind, dc string, r *rand.Rand) string {
	scope, place, generation := k.draw(kind, dc, r)
	name := fmt.Sprintf("%s%s:%s:%d:%d", k.prefix, kind, scope, place, generation)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.updated[dc] == nil {
		k.updated[dc] = map[string]bool{}
	}
	if k.updated[dc][name] = true; kind == counterKey && scope != everywhere && k.counters[name] == nil {
		k.counters[name] = &counter{}
	}
	return name
}

// isForAll reports whether a key of a kind is one that clients of all data centers use.
func (k *sharedKeys) isForAll(kind, name string) bool {
	return strings.HasPrefix(name, k.prefix+kind+":"+everywhere+":")
}

// take notes what an operation has added to a counter.
func (k *sharedKeys) take(op *history.Op) {
	if op.Kind != history.Update || !op.OK && !op.Unknown {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.counters[op.Key]
	if c == nil {
		return
	}
	n := int64(1)
	if op.Command[0] == "INCRBY" {
		n, _ = strconv.ParseInt(op.Command[1], 10, 64) // as drawn
	}
	if op.OK {
		c.acknowledged += n
	} else {
		c.unknown += n
	}
}

// sharedGenerator draws the operations of one connection on shared keys.
type sharedGenerator struct {
	keys  *sharedKeys
	names *keyspace
	dc    string
	r     *rand.Rand
	name  string // of the connection; unique and stable, it starts every value
	seq   int
}

// sharedMix is what clients do to shared keys: shares, kinds of keys, and commands, in which a value is written as $.
// Plain keys have no kind.
var sharedMix = []struct {
	share   float64
	kind    string
	verb    Verb
	command string
}{
	{0.25, "", Get, ""}, {0.20, "", Set, ""}, {0.05, "", MGet, ""},
	{0.14, counterKey, Incr, "INCR"}, {0.04, counterKey, Incr, "INCRBY 3"}, {0.06, counterKey, Get, ""},
	{0.07, lockKey, Add, "SET $ NX"}, {0.02, lockKey, Add, "SETNX $"}, {0.04, lockKey, Update, "GETDEL"},
	{0.03, lockKey, Get, ""},
	{0.02, registerKey, Update, "SET $"}, {0.02, registerKey, Update, "GETSET $"},
	{0.02, registerKey, Update, "SET $ XX GET"}, {0.01, registerKey, Del, "DEL"},
	{0.01, registerKey, Update, "EXPIRE 100000"},
	{0.02, textKey, Update, "APPEND $"}, {0.01, textKey, Update, "GETDEL"},
}

func (g *sharedGenerator) next(r *request) {
	p := g.r.Float64()
	for _, m := range sharedMix {
		if p -= m.share; p < 0 {
			g.fill(r, m.kind, m.verb, m.command)
			return
		}
	}
	g.fill(r, registerKey, Get, "")
}

// sharedMGetKeys is how many keys an MGET has.
const sharedMGetKeys = 3

func (g *sharedGenerator) fill(r *request, kind string, verb Verb, command string) {
	r.verb, r.op.Kind = verb, verb.kind()
	switch {
	case verb == MGet:
		for range sharedMGetKeys {
			if k := g.keys.plain(g.dc, g.r); !slices.Contains(r.keys, k) {
				r.keys = append(r.keys, k)
				r.op.Reads = append(r.op.Reads, history.Read{Key: g.names.name(k)})
			}
		}
	case kind == "":
		r.keys = append(r.keys, g.keys.plain(g.dc, g.r))
		if r.op.Key = g.names.name(r.keys[0]); verb == Set {
			r.op.Value = g.value()
			r.value = r.op.Value
		}
	default:
		r.op.Key = g.keys.name(kind, g.dc, g.r)
		if strings.HasPrefix(command, "EXPIRE") && g.keys.isForAll(registerKey, r.op.Key) {
			command = "GETSET $" // what an EXPIRE of another data center writes, no reply tells
		}
		if command == "" {
			return
		}
		r.op.Kind, r.op.Command = history.Update, strings.Fields(command)
		if i := slices.Index(r.op.Command, "$"); i >= 0 {
			r.op.Command[i] = g.value()
		}
	}
}

func (g *sharedGenerator) value() string {
	g.seq++
	return g.name + "-" + strconv.Itoa(g.seq)
}
