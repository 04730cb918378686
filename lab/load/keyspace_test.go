package load

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// manual is a clock that moves when it is told to, or when somebody waits.
type manual struct {
	mu  sync.Mutex
	now time.Duration
}

func (m *manual) since() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

func (m *manual) advance(d time.Duration) {
	m.mu.Lock()
	m.now += max(0, d)
	m.mu.Unlock()
}

func (m *manual) pause(ctx context.Context, d time.Duration) bool {
	m.advance(d)
	return ctx.Err() == nil
}

// keyspaceOf is the keyspace of a workload after defaults.
func keyspaceOf(t testing.TB, w Workload, clock clock) *keyspace {
	t.Helper()
	if w.Operations == nil {
		w.Operations = map[string]float64{"get": 1}
	}
	c, err := Config{Endpoints: []Endpoint{{Name: "a", Addr: "b"}}, Ops: 1, Workload: &w}.withDefaults(time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return newKeyspace(&c, 1, clock)
}

func countKeys(k *keyspace, d Distribution, draws, n int) []int {
	r := rand.New(rand.NewPCG(1, 2))
	counts := make([]int, n)
	for range draws {
		counts[k.drawKey(d, r)]++
	}
	return counts
}

func TestDistributionsDrawKeysWithTheirProbabilities(t *testing.T) {
	const n, draws = 200, 300_000
	t.Run("uniform", func(t *testing.T) {
		k := keyspaceOf(t, Workload{Keys: Keys{Count: n}}, &manual{})
		fits(t, "uniform", countKeys(k, Even, draws, n), zipfProbabilities(n, 0))
	})
	t.Run("zipfian", func(t *testing.T) {
		k := keyspaceOf(t, Workload{Keys: Keys{Count: n, Distribution: Zipfian, Exponent: 1.3}}, &manual{})
		scattered := make([]float64, n)
		for rank, p := range zipfProbabilities(n, 1.3) {
			scattered[scatter(rank, n)] = p
		}
		fits(t, "zipfian", countKeys(k, Zipfian, draws, n), scattered)
	})
	t.Run("scrambled", func(t *testing.T) {
		k := keyspaceOf(t, Workload{Keys: Keys{Count: n, Distribution: Scrambled}}, &manual{})
		// The sum up to ten thousand million cannot be had term by term: YCSB has it as a constant.
		const zetan = 26.46902820178302
		scrambled, exact := make([]float64, n), 0.0
		for i := uint64(0); i < 1_000_000; i++ {
			p := math.Pow(float64(i+1), -0.99) / zetan
			scrambled[fnv64(i)%n] += p
			exact += p
		}
		for i := range scrambled { // the ranks that are left fall on all keys alike
			scrambled[i] += (1 - exact) / n
		}
		fits(t, "scrambled", countKeys(k, Scrambled, draws, n), scrambled)
	})
	t.Run("scrambled with inserts", func(t *testing.T) {
		w := Workload{Operations: map[string]float64{"get": 0.9, "insert": 0.1},
			Keys: Keys{Count: 50, Max: n, Distribution: Scrambled, Exponent: 0.5}}
		k := keyspaceOf(t, w, &manual{})
		// So flat that all keys are nearly alike; those that are not there yet are never drawn.
		fits(t, "scrambled with inserts", countKeys(k, Scrambled, 20_000, n),
			append(zipfProbabilities(50, 0), make([]float64, n-50)...))
	})
	t.Run("latest", func(t *testing.T) {
		k := keyspaceOf(t, Workload{Operations: map[string]float64{"get": 0.9, "insert": 0.1},
			Keys: Keys{Count: n, Distribution: Latest}}, &manual{})
		const inserted = 50
		for range inserted {
			k.inserts.finish(k.inserts.start())
		}
		probabilities := zipfProbabilities(n+inserted, ycsbExponent)
		slices.Reverse(probabilities) // the newest key, with the greatest number, is the most popular
		fits(t, "latest", countKeys(k, Latest, draws, n+inserted), probabilities)
	})
}

func TestInsertedKeysAreReadOnlyAfterTheirInsertsFinish(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		i := newInsertions(10)
		open := map[int]bool{}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			if len(open) == 0 || rapid.Bool().Draw(t, "start") {
				open[i.start()] = true
			} else {
				key := rapid.SampledFrom(slices.Collect(func(yield func(int) bool) {
					for k := 10; k < i.next; k++ {
						if open[k] && !yield(k) {
							return
						}
					}
				})).Draw(t, "finish")
				delete(open, key)
				i.finish(key)
			}
			want := i.next
			for k := range open {
				want = min(want, k)
			}
			if i.finished() != want || len(i.early) > i.next-want {
				t.Fatalf("keys up to %d are read; open are %v", i.finished(), open)
			}
		}
	})
}

func TestInsertsBeyondTheLimitReplaceTheOldestKey(t *testing.T) {
	w := Workload{Operations: map[string]float64{"get": 0.5, "insert": 0.5},
		Keys: Keys{Count: 10, Max: 15, Distribution: Latest}}
	k := keyspaceOf(t, w, &manual{})
	for range 1007 - 10 {
		k.inserts.finish(k.inserts.start())
	}
	counts := countKeys(k, Latest, 10000, 15)
	if top := slices.Index(counts, slices.Max(counts)); top != 1006%15 {
		t.Errorf("key %d is the most popular of %v", top, counts)
	}
	if slices.Min(counts) == 0 {
		t.Errorf("a key is never read: %v", counts)
	}
}

func TestHotSetGetsItsShareAndMoves(t *testing.T) {
	const n, draws = 1000, 50_000
	clock := &manual{}
	k := keyspaceOf(t, Workload{Keys: Keys{Count: n}, Hot: Hot{Keys: 5, Share: 0.4, Move: Duration(time.Second)}},
		clock)
	hottest := func() []int {
		counts := countKeys(k, Even, draws, n)
		var hot []int
		sum := 0
		for key, c := range counts {
			if c > draws/50 {
				hot = append(hot, key)
				sum += c
			}
		}
		want := draws * (0.4 + 0.6*5/n)
		if len(hot) != 5 || math.Abs(float64(sum)-want) > 4*math.Sqrt(want) {
			t.Errorf("%d hot keys with %d of %d draws, wanted 5 with %.0f", len(hot), sum, draws, want)
		}
		return hot
	}
	first := hottest()
	clock.advance(999 * time.Millisecond)
	if second := hottest(); !slices.Equal(first, second) {
		t.Errorf("the hot set moved early: %v, %v", first, second)
	}
	clock.advance(time.Millisecond)
	for _, key := range hottest() {
		if slices.Contains(first, key) {
			t.Errorf("key %d is still hot", key)
		}
	}
}

func TestScatterIsAPermutation(t *testing.T) {
	for _, n := range []int{1, 2, 3, 10, 1000, 65536} {
		seen := make([]bool, n)
		for i := range n {
			seen[scatter(i, n)] = true
		}
		if slices.Contains(seen, false) {
			t.Errorf("of %d keys, some are never reached", n)
		}
	}
}

func TestKeysHaveTheConfiguredLength(t *testing.T) {
	k := keyspaceOf(t, Workload{Keys: Keys{Count: 10, Bytes: 23}}, &manual{})
	if k.name(7) != "load:000000000000000007" || k.counter(7) != "load:c00000000000000007" {
		t.Errorf("%q, %q", k.name(7), k.counter(7))
	}
}
