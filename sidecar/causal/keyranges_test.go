package causal

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Ranges over few names, so that they meet.
func randomRanges(rng *rand.Rand) (rs KeyRanges) {
	names := []string{"", "a", "a\x00", "ab", "b", "c", "d"}
	for range rng.IntN(4) {
		rs = rs.With(KeyRange{names[rng.IntN(len(names))], names[rng.IntN(len(names))]})
	}
	return rs
}

func TestRangesAreSetsOfKeys(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	keys := []string{"", "\x00", "a", "a\x00", "a\x00\x00", "aa", "ab", "b", "bz", "c", "d", "e"}
	for range 5000 {
		a, b := randomRanges(rng), randomRanges(rng)
		both, rest, all := a.Overlap(b), a.Without(b), a
		for _, r := range b {
			all = all.With(r)
		}
		for _, key := range keys {
			switch {
			case both.Has(key) != (a.Has(key) && b.Has(key)):
				t.Fatalf("%q in the overlap %q of %q and %q", key, both, a, b)
			case rest.Has(key) != (a.Has(key) && !b.Has(key)):
				t.Fatalf("%q in %q, which is %q without %q", key, rest, a, b)
			case all.Has(key) != (a.Has(key) || b.Has(key)):
				t.Fatalf("%q in %q, which is %q with %q", key, all, a, b)
			}
		}
		if read, err := ParseKeyRanges(a.Encode()); err != nil || !slices.Equal(read, a) {
			t.Fatalf("%q is read as %q, %v", a, read, err)
		}
	}
	if !AllKeys().Has("") || !AllKeys().Has("x") || !(KeyRanges{OneKey("x")}).Has("x") ||
		(KeyRanges{OneKey("x")}).Has("x\x00") {
		t.Error("all keys, or one")
	}
}

// What cannot be read is taken for all keys: who lacks them gives nothing, and who wants them gets nothing from one
// that lacks any.
func TestRangesThatCannotBeReadAreAllKeys(t *testing.T) {
	many := KeyRanges{}
	for i := range MaxKeyRanges + 1 {
		many = append(many, OneKey(string(rune('a'+i))))
	}
	for _, b := range [][]byte{{1}, {9, 'a'}, {0x80}, {1, 'a'}, many.Encode()} {
		if rs := rangesOf(Record{Value: Value{Data: b}}); !slices.Equal(rs, AllKeys()) {
			t.Errorf("%x is read as %q", b, rs)
		}
	}
	if rs := rangesOf(Record{}); rs != nil {
		t.Errorf("nothing is read as %q", rs)
	}
}
