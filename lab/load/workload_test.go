package load

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/history"
)

func TestOperationsHaveTheConfiguredRatios(t *testing.T) {
	c, err := Config{Endpoints: []Endpoint{{Name: "a", Addr: "b"}}, Ops: 1, Keys: 100, ReadRatio: 0.5, MGetRatio: 0.1,
		DeleteRatio:     0.05,
		PrivateKeyShare: 0.25, MGetKeys: 5, KeyPrefix: "k"}.withDefaults(time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	keys := newKeyspace(&c, 4, &manual{})
	choose := newMixGenerator(&c, keys, 3, "s3")
	const n = 100000
	kinds := map[history.OpKind]int{}
	values := map[string]bool{}
	private := 0
	for range n {
		var r request
		choose.next(&r)
		op, drawn := r.op, r.keys
		kinds[op.Kind]++
		sorted := slices.Sorted(slices.Values(drawn))
		if len(slices.Compact(sorted)) != len(drawn) || op.Kind == history.MGet && len(op.Reads) != 5 {
			t.Fatalf("keys %v", drawn)
		}
		if drawn[0] >= 100 {
			private++
			if drawn[0] < 100+3*25 || drawn[0] >= 100+4*25 {
				t.Fatalf("key %d is another connection's", drawn[0])
			}
		}
		if op.Kind == history.Put {
			if values[op.Value] || !strings.HasPrefix(op.Value, "s3-") || !strings.HasPrefix(op.Key, "k") {
				t.Fatalf("put %s=%s", op.Key, op.Value)
			}
			values[op.Value] = true
		}
	}
	for kind, share := range map[history.OpKind]float64{history.Get: 0.5, history.MGet: 0.1, history.Delete: 0.05,
		history.Put: 0.35} {
		if got := float64(kinds[kind]) / n; math.Abs(got-share) > 0.01 {
			t.Errorf("share of %s: %g", kind, got)
		}
	}
	if got := float64(private) / n; math.Abs(got-0.25) > 0.01 {
		t.Errorf("share of private keys: %g", got)
	}
}

func TestSeedDeterminesTheOperations(t *testing.T) {
	c, err := Config{Endpoints: []Endpoint{{Name: "a", Addr: "b"}}, Ops: 1, ReadRatio: 0.5, Theta: 0.9, Seed: 5,
		KeyPrefix: "k"}.withDefaults(time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	keys := newKeyspace(&c, 2, &manual{})
	a, b, other := newMixGenerator(&c, keys, 0, "s"), newMixGenerator(&c, keys, 0, "s"),
		newMixGenerator(&c, keys, 1, "s")
	same := 0
	for range 100 {
		var x, y, z request
		a.next(&x)
		b.next(&y)
		other.next(&z)
		if x.op.String() != y.op.String() {
			t.Fatalf("%s, %s", x.op.String(), y.op.String())
		}
		if x.op.String() == z.op.String() {
			same++
		}
	}
	if same > 50 {
		t.Errorf("two connections do the same in %d of 100 operations", same)
	}
}

func TestUnpaddedRemovesOnlyThePadding(t *testing.T) {
	if v := padded("s1-10", 20); len(v) != 20 || unpadded(v) != "s1-10" {
		t.Errorf("%q", v)
	}
	long := strings.Repeat("x", 30)
	if v := padded(long, 20); v != long {
		t.Errorf("%q", v)
	}
}
