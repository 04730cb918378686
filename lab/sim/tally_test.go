package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/value/laws"
)

func TestTalliesKeepTheLaws(t *testing.T) {
	laws.Check(t, tallyTypes(0, causal.Mutations{}, nil), func(r *rand.Rand, _ causal.Version) causal.Value {
		return increment(fmt.Sprint(r.IntN(3)))
	})
}
