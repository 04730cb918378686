package hyperloglog_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/causalstore/causalstore/sidecar/hyperloglog"
)

// The estimates are those of Redis 7.0.15.
func TestEstimates(t *testing.T) {
	r := hyperloglog.Registers{}
	n := 0
	for _, want := range []struct {
		added    int
		estimate uint64
	}{{0, 0}, {1, 1}, {100, 100}, {1000, 1008}, {10_000, 9973}, {100_000, 100_853}} {
		for ; n < want.added; n++ {
			register, rank := hyperloglog.Place(fmt.Appendf(nil, "e%d", n))
			r[register] = max(r[register], rank)
		}
		if got := r.Estimate(); got != want.estimate {
			t.Errorf("%d elements are estimated as %d, want %d", n, got, want.estimate)
		}
	}
}

func TestRegistersSurviveBeingAString(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 10, 500, 3000, 16_384} {
		for _, most := range []int{1, 8, 32, 33, 63} {
			r := hyperloglog.Registers{}
			for range n {
				i, rank := random.IntN(hyperloglog.Count), byte(1+random.IntN(most))
				for ; i < hyperloglog.Count && random.IntN(3) > 0; i++ {
					r[i] = rank
				}
			}
			got, err := hyperloglog.Parse(r.Bytes())
			if err != nil || *got != r {
				t.Errorf("%d registers of up to %d: %v", n, most, err)
			}
		}
	}
}

func TestADamagedStringIsRefused(t *testing.T) {
	r := hyperloglog.Registers{7: 3, 9000: 2}
	whole := string(r.Bytes())
	for n := range len(whole) {
		_, err := hyperloglog.Parse([]byte(whole[:n]))
		if want := map[bool]error{true: hyperloglog.ErrNone, false: hyperloglog.ErrCorrupt}[n < 16]; !errors.Is(err, want) {
			t.Errorf("the first %d bytes: %v, want %v", n, err, want)
		}
	}
	if _, err := hyperloglog.Parse([]byte(whole + "\x00")); !errors.Is(err, hyperloglog.ErrCorrupt) {
		t.Errorf("a byte more: %v", err)
	}
	for i := range hyperloglog.Count {
		r[i] = byte(1 + i%40)
	}
	dense := r.Bytes()
	if _, err := hyperloglog.Parse(dense[1:]); !errors.Is(err, hyperloglog.ErrNone) {
		t.Errorf("a dense one without its first byte: %v", err)
	}
	if _, err := hyperloglog.Parse(dense[:len(dense)-1]); !errors.Is(err, hyperloglog.ErrNone) {
		t.Errorf("a dense one without its last byte: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add((&hyperloglog.Registers{}).Bytes())
	f.Add((&hyperloglog.Registers{1: 3, 2: 3, 5: 40}).Bytes())
	f.Fuzz(func(t *testing.T, s []byte) {
		r, err := hyperloglog.Parse(s)
		if err != nil {
			return
		}
		if again, err := hyperloglog.Parse(r.Bytes()); err != nil || *again != *r {
			t.Errorf("what was parsed is written as another one: %v", err)
		}
		r.Estimate()
	})
}
