package value_test

import (
	"iter"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/value"
	"github.com/causalstore/causalstore/sidecar/value/laws"
)

func TestRegistersKeepTheLaws(t *testing.T) {
	laws.Check(t, nil, func(r *rand.Rand, _ causal.Version) causal.Value {
		return causal.Value{Data: []byte{byte(r.IntN(256))}, ExpireAtMs: int64(r.IntN(2))}
	})
}

func TestTheGreaterVersionWinsByteForByte(t *testing.T) {
	at := func(hlc causal.HLC, v causal.Value) causal.Record {
		return causal.Record{Version: causal.Version{HLC: hlc, Origin: 1}, Value: v}
	}
	var types *value.Types
	for _, newer := range []causal.Value{{Data: []byte("b"), ExpireAtMs: 7}, {Data: []byte{}}, {Tombstone: true}} {
		older := at(10, causal.Value{Data: []byte("a"), ExpireAtMs: 9})
		for _, got := range []causal.Record{types.Join(older, at(20, newer)), types.Join(at(20, newer), older)} {
			if got.Version.HLC != 20 || string(got.Value.Data) != string(newer.Data) ||
				(got.Value.Data == nil) != (newer.Data == nil) ||
				got.Value.ExpireAtMs != newer.ExpireAtMs || got.Value.Tombstone != newer.Tombstone {
				t.Errorf("%+v and a write at 20, %+v: %+v", older, newer, got)
			}
		}
	}
	if got := types.Join(at(20, causal.Value{}), causal.Missing(20)); !got.Value.Tombstone {
		t.Errorf("a write at the horizon of a missing key: %+v, want that it is missing", got)
	}
}

func TestJoiningRegistersAllocatesNothing(t *testing.T) {
	a := causal.Record{Version: causal.Version{HLC: 1, Origin: 1}, Value: causal.Value{Data: []byte("a")}}
	b := causal.Record{Version: causal.Version{HLC: 2, Origin: 1}, Value: causal.Value{Data: []byte("b")}}
	var types *value.Types
	if n := testing.AllocsPerRun(100, func() { a = types.Join(a, b) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// nothing is a type whose values are never looked at.
type nothing struct{}

func (nothing) Join(a, _ causal.Record) causal.Record              { return a }
func (nothing) Overwrite(r, _ causal.Record) (causal.Record, bool) { return r, true }
func (nothing) Writes(r causal.Record) iter.Seq[causal.Record] {
	return func(func(causal.Record) bool) {}
}

func TestASecondMergingTypeIsRefused(t *testing.T) {
	var none *value.Types
	if _, err := none.With(causal.Register, nothing{}); err == nil {
		t.Error("a type takes the number of registers")
	}
	one, err := none.With(1, nothing{})
	if err != nil || !one.Knows(1) || !one.Knows(causal.Register) || one.Knows(2) || none.Knows(1) {
		t.Fatalf("%v; types %+v", err, one)
	}
	if _, err := one.With(2, nothing{}); err == nil || !strings.Contains(err.Error(), "lose one of them") {
		t.Errorf("two merging types: %v", err)
	}
}
