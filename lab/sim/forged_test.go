package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/transport/authorize"
	"github.com/causalstore/causalstore/topology"
)

// Whoever has the certificate of a part can send everything that this part may send. A machine must handle all of that:
// each message here is one that a part has sent, with one field replaced, and passes what a transport checks.

// forger delivers, beside messages that are on their way, forged ones.
type forger struct {
	w         *World
	sometimes *rand.Rand
	// times is how often a kind is forged between two parts.
	times  int
	forges func(causal.Kind) bool
	forged map[route]int
	passed map[causal.Kind]int
	panics []string
}

// route is a kind of message between two parts.
type route struct {
	kind     causal.Kind
	from, to topology.Part
}

func newForger(w *World, seed uint64, times int) *forger {
	f := &forger{w: w, sometimes: rand.New(rand.NewPCG(seed, 7)), times: times, forged: map[route]int{},
		passed: map[causal.Kind]int{}}
	w.delivered = f.forge
	return f
}

// forge delivers what could be made of m.
func (f *forger) forge(m *causal.Message) {
	r := route{m.Kind, m.From.Part, m.To.Part}
	if !f.forges(m.Kind) || f.forged[r] >= f.times || len(f.panics) > 0 || f.sometimes.IntN(1+5*f.forged[r]) > 0 {
		return
	}
	f.forged[r]++
	for _, v := range variants(m) {
		f.deliver(&v.Message, v.changed)
	}
}

// deliver delivers a forged message, unless a transport would refuse it. The node may be down after what came before.
func (f *forger) deliver(m *causal.Message, changed string) {
	n := f.w.process(m.To)
	if authorize.Check(m, f.w.topo) != authorize.Permitted || n == nil || n.m == nil || len(f.panics) > 0 {
		return
	}
	defer func() {
		if r := recover(); r != nil {
			f.panics = append(f.panics, fmt.Sprintf("%s from %v to %v with another %s: %v\n%+v\n%s", m.Kind, m.From,
				m.To, changed, r, m.Fields(), debug.Stack()))
		}
	}()
	f.passed[m.Kind]++
	n.m.Step(f.w.clock(n), m)
	f.w.flush(n)
}

type variant struct {
	causal.Message
	changed string
}

// variants returns m once for each value at a bound of each field. A body is changed in the form that it had in link
// protocol 1, in which all of it can be.
func variants(m *causal.Message) (all []variant) {
	shared := m.WithoutBody()
	add := func(path string, change func(f reflect.Value)) {
		v := variant{cloneMessage(&shared), path}
		change(reflect.ValueOf(v.Fields()).Elem())
		v.MakeBody()
		all = append(all, v)
	}
	var walk func(path string, t reflect.Value, at func(reflect.Value) reflect.Value)
	walk = func(path string, t reflect.Value, at func(reflect.Value) reflect.Value) {
		switch t.Kind() {
		case reflect.Struct:
			for i := range t.NumField() {
				walk(path+"."+t.Type().Field(i).Name, t.Field(i), func(v reflect.Value) reflect.Value {
					return at(v).Field(i)
				})
			}
		case reflect.Slice:
			if t.Len() == 0 {
				t = reflect.MakeSlice(t.Type(), 1, 1)
			} else {
				add(path+" (none)", func(f reflect.Value) { at(f).SetZero() })
				add(path+" (first twice)", func(f reflect.Value) { at(f).Set(reflect.Append(at(f), at(f).Index(0))) })
			}
			if t.Type().Elem().Kind() == reflect.Uint8 {
				add(path+" (a byte)", func(f reflect.Value) { at(f).SetBytes([]byte{255}) })
				return
			}
			walk(path+"[0]", t.Index(0), func(v reflect.Value) reflect.Value {
				if at(v).Len() == 0 {
					at(v).Set(reflect.MakeSlice(at(v).Type(), 1, 1))
				}
				return at(v).Index(0)
			})
		case reflect.Bool:
			add(path, func(f reflect.Value) { at(f).SetBool(!at(f).Bool()) })
		case reflect.String:
			for _, s := range []string{"", "x", "s", strings.Repeat("y", 1<<10)} {
				add(path, func(f reflect.Value) { at(f).SetString(s) })
			}
		case reflect.Float64:
			for _, x := range []float64{0, -1, math.MaxFloat64, math.Inf(1), math.NaN()} {
				add(path, func(f reflect.Value) { at(f).SetFloat(x) })
			}
		case reflect.Int64:
			for _, x := range []int64{0, 1, -1, math.MaxInt64, math.MinInt64} {
				add(path, func(f reflect.Value) { at(f).SetInt(x) })
			}
		default:
			is := t.Uint()
			for _, x := range []uint64{0, 1, 2, is + 1, is - 1, is | 1<<60, 16, 17, topology.Slots - 1, topology.Slots,
				math.MaxUint16, math.MaxUint32, causal.MaxCounter, causal.MaxCounter + 1,
				math.MaxUint64 - 1, math.MaxUint64} {
				if x != is && !t.OverflowUint(x) {
					add(path, func(f reflect.Value) { at(f).SetUint(x) })
				}
			}
		}
	}
	walk("", reflect.ValueOf(shared.Fields()).Elem(), func(v reflect.Value) reflect.Value { return v })
	return all
}

// cloneMessage returns m with lists of its own.
func cloneMessage(m *causal.Message) causal.Message {
	c := *m
	f := c.Fields()
	f.Deps, f.Versions, f.Vectors, f.Moved = slices.Clone(f.Deps), slices.Clone(f.Versions), slices.Clone(f.Vectors),
		slices.Clone(f.Moved)
	f.Latencies, f.Exclusions = slices.Clone(f.Latencies), slices.Clone(f.Exclusions)
	for i := range f.Vectors {
		f.Vectors[i].RV = slices.Clone(f.Vectors[i].RV)
	}
	return c
}

// playForged runs a seed of a profile while a forger is at work.
func playForged(p Profile, seed uint64, times int, forges func(causal.Kind) bool) (f *forger) {
	rng := rand.New(rand.NewPCG(seed, 1))
	pl := p.draw(rng)
	pl.set.Seed = seed
	w := NewWorld(pl.shape.draw(rng), pl.set)
	f = newForger(w, seed, times)
	f.forges = forges
	pl.start(w, rng)
	defer func() {
		if r := recover(); r != nil {
			f.panics = append(f.panics, fmt.Sprintf("some time after a forged message: %v\n%s", r, debug.Stack()))
		}
	}()
	w.Run(pl.length, func() bool { return len(f.panics) > 0 })
	f.panics = append(f.panics, w.checkCounts()...)
	return f
}

// maxForgedSeeds bounds the seeds of each profile that are played until every kind was forged.
const maxForgedSeeds = 10

func TestMachinesHandleEveryFieldAtItsBounds(t *testing.T) {
	if raceDetector {
		t.Skip("one goroutine")
	}
	passed := map[causal.Kind]int{}
	missing := func() (kinds []causal.Kind) {
		for k := causal.KindNone + 1; k < causal.NumKinds; k++ {
			if passed[k] == 0 && k != causal.KindSubscribe { // it has no fields
				kinds = append(kinds, k)
			}
		}
		return kinds
	}
	for seed := range uint64(maxForgedSeeds) {
		for _, p := range Profiles() {
			rare := missing()
			if p.run != nil || seed > 0 && len(rare) == 0 {
				continue
			}
			// What is rare comes from deployments that work, so nothing else is forged there.
			f := playForged(p, seed, 2, func(k causal.Kind) bool { return seed == 0 || slices.Contains(rare, k) })
			for _, what := range f.panics {
				t.Errorf("profile %s, seed %d: %s", p.Name, seed, what)
			}
			for k, n := range f.passed {
				passed[k] += n
			}
		}
	}
	for _, k := range missing() {
		t.Errorf("%s was never forged: no profile sends it", k)
	}
}
