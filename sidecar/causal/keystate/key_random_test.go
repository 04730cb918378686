package keystate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/value"
)

// A key that is written often is what its writes are, at every cut that can be asked for, whatever was read of it
// before.
func TestABusyKeyIsWhatItsWritesAre(t *testing.T) {
	types := value.Shipped()
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 7))
		k, all := &Key{}, []causal.Record{member(1)}
		stored, folded := all[0], causal.HLC(1)
		for i := range 120 {
			hlc := causal.HLC(2 + 10*i)
			if r.IntN(6) == 0 {
				hlc = folded + 1 + causal.HLC(r.IntN(int(hlc-folded)))
			}
			if slices.ContainsFunc(all, func(w causal.Record) bool { return w.Version.HLC == hlc }) {
				continue
			}
			w := member(hlc)
			k.Merge(types, stored, w)
			all, stored = append(all, w), types.Join(stored, w)
			for range r.IntN(3) {
				assertAt(t, types, k, all, folded+causal.HLC(r.IntN(int(stored.Version.HLC-folded)+1)))
			}
			if r.IntN(20) == 0 && stored.Version.HLC > folded+100 {
				folded += causal.HLC(r.IntN(int(stored.Version.HLC - folded - 50)))
				k.Fold(types, folded)
			}
		}
	}
}

// member is a write that adds a member to a set.
func member(hlc causal.HLC) causal.Record {
	c := value.ChangeOf(causal.Missing(0))
	c.Add(value.Set, fmt.Sprint(hlc), "")
	return causal.Record{Value: c.Value(), Version: causal.Version{HLC: hlc, Origin: 1}}
}

func assertAt(t *testing.T, types *value.Types, k *Key, all []causal.Record, cut causal.HLC) {
	t.Helper()
	got, _, ok := k.At(types, cut)
	if !ok {
		return // it is not kept
	}
	want := all[0]
	for _, w := range all[1:] {
		if w.Version.HLC <= cut {
			want = types.Join(want, w)
		}
	}
	if !Same(&got, &want) {
		t.Fatalf("at %d it is of version %v and has %d bytes, not %v and %d", cut, got.Version, len(got.Value.Data),
			want.Version, len(want.Value.Data))
	}
}
