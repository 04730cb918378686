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
	"github.com/causalstore/causalstore/sidecar/transport/wire"
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
			f.panics = append(f.panics, fmt.Sprintf("%s from %v to %v with another %s: %v\n%+v\n%+v\n%s", m.Kind,
				m.From, m.To, changed, r, m.Fields(), m.Body(), debug.Stack()))
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

// variants returns m once for each value at a bound of each field.
func variants(m *causal.Message) (all []variant) {
	for _, root := range rootsOf(m) {
		b := boundsOf{add: func(path string, change func(v reflect.Value)) {
			v := variant{cloneMessage(m), path}
			root.change(&v.Message, change)
			all = append(all, v)
		}}
		root.change(m, func(v reflect.Value) {
			b.walk(root.name, v, func(v reflect.Value) reflect.Value { return v })
		})
	}
	return all
}

// root is a part of the content of a message.
type root struct {
	name   string
	change func(*causal.Message, func(reflect.Value))
}

// rootsOf returns the shared fields of a message, or each field of its body.
func rootsOf(m *causal.Message) (roots []root) {
	if m.Body() == nil {
		return []root{{"", func(m *causal.Message, change func(reflect.Value)) {
			change(reflect.ValueOf(m.Fields()).Elem())
		}}}
	}
	roots = append(roots, root{"exclusions", func(m *causal.Message, change func(reflect.Value)) {
		change(reflect.ValueOf(&m.Fields().Exclusions).Elem())
	}})
	m.Body().Visit(causal.VisitorFunc(func(f causal.BodyField, _ any) {
		roots = append(roots, root{f.Name, func(m *causal.Message, change func(reflect.Value)) {
			changeField(m.Body(), f.Number, change)
		}})
	}))
	return roots
}

func changeField(b causal.Body, number int32, change func(reflect.Value)) {
	b.Visit(causal.VisitorFunc(func(f causal.BodyField, p any) {
		if f.Number != number {
			return
		}
		switch p := p.(type) {
		case *uint64:
			was := *p
			if change(reflect.ValueOf(p).Elem()); *p > f.Max {
				*p = was // a decoder refuses it
			}
		case causal.BodyParts:
			change(reflect.ValueOf(p.List()).Elem())
		default:
			change(reflect.ValueOf(p).Elem())
		}
	}))
}

// boundsOf adds a change for each value at a bound of a value, and of what it has within.
type boundsOf struct {
	add func(path string, change func(v reflect.Value))
}

func (b boundsOf) walk(path string, t reflect.Value, at func(reflect.Value) reflect.Value) {
	add := func(path string, change func(v reflect.Value)) { b.add(path, func(v reflect.Value) { change(at(v)) }) }
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			b.walk(path+"."+t.Type().Field(i).Name, t.Field(i), func(v reflect.Value) reflect.Value {
				return at(v).Field(i)
			})
		}
	case reflect.Slice:
		if t.Len() == 0 {
			t = reflect.MakeSlice(t.Type(), 1, 1)
		} else {
			add(path+" (none)", reflect.Value.SetZero)
			add(path+" (first twice)", func(v reflect.Value) { v.Set(reflect.Append(v, v.Index(0))) })
		}
		if t.Type().Elem().Kind() == reflect.Uint8 {
			add(path+" (a byte)", func(v reflect.Value) { v.SetBytes([]byte{255}) })
			return
		}
		b.walk(path+"[0]", t.Index(0), func(v reflect.Value) reflect.Value {
			if at(v).Len() == 0 {
				at(v).Set(reflect.MakeSlice(at(v).Type(), 1, 1))
			}
			return at(v).Index(0)
		})
	case reflect.Bool:
		add(path, func(v reflect.Value) { v.SetBool(!v.Bool()) })
	case reflect.String:
		for _, s := range []string{"", "x", "s", strings.Repeat("y", 1<<10)} {
			add(path, func(v reflect.Value) { v.SetString(s) })
		}
	case reflect.Float64:
		for _, x := range []float64{0, -1, math.MaxFloat64, math.Inf(1), math.NaN()} {
			add(path, func(v reflect.Value) { v.SetFloat(x) })
		}
	case reflect.Int64:
		for _, x := range []int64{0, 1, -1, math.MaxInt64, math.MinInt64} {
			add(path, func(v reflect.Value) { v.SetInt(x) })
		}
	default:
		is := t.Uint()
		for _, x := range []uint64{0, 1, 2, is + 1, is - 1, is | 1<<60, 16, 17, topology.Slots - 1, topology.Slots,
			math.MaxUint16, math.MaxUint32, causal.MaxCounter, causal.MaxCounter + 1,
			math.MaxUint64 - 1, math.MaxUint64} {
			if x != is && !t.OverflowUint(x) {
				add(path, func(v reflect.Value) { v.SetUint(x) })
			}
		}
	}
}

// cloneMessage returns m with a body and lists of its own.
func cloneMessage(m *causal.Message) (c causal.Message) {
	if err := wire.Decode(wire.Append(nil, m), &c); err != nil {
		panic(err)
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
const maxForgedSeeds = 40

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
		if k == causal.KindHomeWait || k == causal.KindHomeWake {
			continue // scripts send them only (home_waits.txt)
		}
		t.Errorf("%s was never forged: no profile sends it", k)
	}
}
