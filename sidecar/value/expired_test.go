package value_test

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/value"
)

// One shard has dropped an expired hash, and one has not yet. What is written next is in both the same, whichever of
// them its client has read (PROTOCOL VAL-17).
func TestAWriteOfAnExpiredCollectionIsTheSameWhetherItWasDropped(t *testing.T) {
	types := value.Shipped()
	made := set(causal.Record{}, "a", "1")
	made.ExpireAt(1)
	expired := at(10, 1, made)
	lasting := at(10, 1, set(causal.Record{}, "a", "1"))
	deleted := types.Join(lasting, at(11, 1, remove(lasting, "a")))
	dropped := causal.Missing(15)
	for name, kept := range map[string]causal.Record{"expired": expired, "deleted": deleted} {

		readDropped := set(dropped, "c", "1")
		readDropped.ExpireAt(7)
		readKept := value.ChangeOf(kept)
		readKept.Clear() // as commands do with what has expired
		readKept.Add(value.Hash, "c", "1")
		readKept.ExpireAt(7)
		for read, c := range map[string]*value.Change{"dropped": readDropped, "kept": readKept} {
			write := at(20, 2, c)
			for storage, base := range map[string]causal.Record{"dropped": dropped, "kept": kept} {
				got := types.Join(base, write)
				wantFields(t, name+": read "+read+", written to "+storage, got, map[string]string{"c": "1"})
				if got.Value.ExpireAtMs != 7 {
					t.Errorf("%s: read %s, written to %s: it expires at %d", name, read, storage, got.Value.ExpireAtMs)
				}
			}
		}
	}
}

// A log that is given up gets its writes back one by one.
func TestEachWriteRemembersTheHorizonThatHasOverwrittenItsKey(t *testing.T) {
	types := value.Shipped()
	kept := at(10, 1, set(causal.Record{}, "a", "1"))
	first := types.Join(causal.Missing(15), at(20, 2, set(causal.Missing(15), "c", "1")))
	both := types.Join(first, at(21, 2, set(first, "d", "1")))
	got := kept
	for w := range types.Writes(both) {
		got = types.Join(got, w)
	}
	wantFields(t, "writes of a key that was dropped", got, map[string]string{"c": "1", "d": "1"})
}
