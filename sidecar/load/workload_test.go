package load

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/history"
)

func TestZipfianRanksHaveTheirProbabilities(t *testing.T) {
	const n, draws = 1000, 2_000_000
	for _, theta := range []float64{0.5, 0.99} {
		z := newZipfian(n, theta)
		r := rand.New(rand.NewPCG(1, 2))
		counts := make([]int, n)
		for range draws {
			counts[z.rank(r)]++
		}
		// Gray's method is exact for the first rank and close for the others.
		for rank, tolerance := range map[int]float64{0: 0.02, 1: 0.03, 9: 0.15, 99: 0.15} {
			want := draws / math.Pow(float64(rank+1), theta) / zeta(n, theta)
			if got := float64(counts[rank]); math.Abs(got-want) > tolerance*want {
				t.Errorf("theta %g, rank %d: %g draws, wanted about %g", theta, rank, got, want)
			}
		}
	}
}

func TestScatteredZipfianStaysInRangeAndIsSkewed(t *testing.T) {
	for _, n := range []int{1, 2, 3, 100} {
		for _, theta := range []float64{0, 0.99} {
			z := newZipfian(n, theta)
			r := rand.New(rand.NewPCG(1, 2))
			counts := make([]int, n)
			for range 10000 {
				counts[z.next(r)]++
			}
			top := slices.Max(counts)
			if n == 100 && theta == 0 && top > 200 || n == 100 && theta > 0 && top < 1000 {
				t.Errorf("%d keys, theta %g: the most popular was drawn %d times of 10000", n, theta, top)
			}
		}
	}
}

func TestTheHashIsFNV1a(t *testing.T) {
	// The published vector for eight zero bytes.
	if got := fnv64(0); got != 0xa8c7f832281a39c5 {
		t.Errorf("got %#x", got)
	}
}

func TestOperationsComeInTheRatiosAskedFor(t *testing.T) {
	c, err := Config{Endpoints: []Endpoint{{"a", "b"}}, Ops: 1, Keys: 100, ReadRatio: 0.5, MGetRatio: 0.1, DeleteRatio: 0.05,
		PrivateKeyShare: 0.25, MGetKeys: 5, KeyPrefix: "k"}.withDefaults(time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	keys := newKeyspace(&c, 4)
	choose := newChooser(&c, keys, 3, "s3")
	const n = 100000
	kinds := map[history.OpKind]int{}
	values := map[string]bool{}
	private := 0
	for range n {
		var op history.Op
		drawn := choose.next(&op)
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
	for kind, share := range map[history.OpKind]float64{history.Get: 0.5, history.MGet: 0.1, history.Delete: 0.05, history.Put: 0.35} {
		if got := float64(kinds[kind]) / n; math.Abs(got-share) > 0.01 {
			t.Errorf("share of %s: %g", kind, got)
		}
	}
	if got := float64(private) / n; math.Abs(got-0.25) > 0.01 {
		t.Errorf("share of private keys: %g", got)
	}
}

func TestOneSeedIsOneSequenceOfOperations(t *testing.T) {
	c, err := Config{Endpoints: []Endpoint{{"a", "b"}}, Ops: 1, ReadRatio: 0.5, Theta: 0.9, Seed: 5, KeyPrefix: "k"}.withDefaults(time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	keys := newKeyspace(&c, 2)
	a, b, other := newChooser(&c, keys, 0, "s"), newChooser(&c, keys, 0, "s"), newChooser(&c, keys, 1, "s")
	same := 0
	for range 100 {
		var x, y, z history.Op
		a.next(&x)
		b.next(&y)
		other.next(&z)
		if x.String() != y.String() {
			t.Fatalf("%s, %s", x.String(), y.String())
		}
		if x.String() == z.String() {
			same++
		}
	}
	if same > 50 {
		t.Errorf("two connections do the same in %d of 100 operations", same)
	}
}

func TestValuesLoseTheirPaddingAndNothingElse(t *testing.T) {
	c := chooser{config: &Config{ValueBytes: 20}}
	if v := c.padded("s1-10"); len(v) != 20 || unpadded(v) != "s1-10" {
		t.Errorf("%q", v)
	}
	long := strings.Repeat("x", 30)
	if v := c.padded(long); v != long {
		t.Errorf("%q", v)
	}
}

func TestTheScheduleSpreadsConnectionsAndCatchesUp(t *testing.T) {
	now := time.Duration(0)
	s := newSchedule(100, 1, 4, func() time.Duration { return now }) // 25/s each: one in 40 ms, this one from 10 ms on
	now = time.Second
	for i, want := range []time.Duration{10, 50, 90} {
		if due, ok := s.next(t.Context(), 1); !ok || due != want*time.Millisecond {
			t.Errorf("operation %d was due at %v", i, due)
		}
	}
	if due, _ := s.next(t.Context(), 3); due != 130*time.Millisecond {
		t.Errorf("the batch was due at %v", due)
	}
	if due, _ := s.next(t.Context(), 1); due != 250*time.Millisecond {
		t.Errorf("after a batch of three: %v", due)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok := s.next(ended, 1); ok {
		t.Error("went on after the end")
	}
	if _, ok := (*schedule)(nil).next(t.Context(), 1); !ok {
		t.Error("the closed loop waits")
	}
}
