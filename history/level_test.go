package history

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// anything is a level of this test whose reads promise nothing.
const anything causal.Level = 255

type nothing struct{}

func (nothing) addsToPast() bool               { return false }
func (nothing) check(*Checker, int32, *opInfo) {}

func init() { register(nothing{}, anything) }

func TestEveryLevelPromisesSomething(t *testing.T) {
	for _, l := range append(causal.Levels(), causal.DefaultLevel) {
		if promises[l] == nil {
			t.Errorf("no file says what %s promises", l)
		}
	}
}

// at sets the level of some operations.
func at(h History, l causal.Level, ops ...int) History {
	for _, i := range ops {
		h[i].Level = l
	}
	return h
}

func TestAReadIsHeldToThePromiseOfItsLevel(t *testing.T) {
	for what, c := range map[string]struct {
		history string
		weak    []int // operations
		want    Kind  // if these promise causal+
		weakly  Kind  // if they promise nothing
	}{
		"a read that goes back":          {"s1 put x=1@1.1 ; s1 put x=2@2.1 ; s2 get x=2 ; s2 get x=1", []int{3}, MonotonicReads, ""},
		"a read that lacks an own write": {"s1 put x=1@1.1 ; s1 get x=-", []int{1}, ReadYourWrites, ""},
		"two keys of different states": {"s1 put x=1@1.1 ; s1 put x=2@2.1 ; s1 put y=3@3.1 ; s2 mget x=1 y=3", []int{3}, Snapshot,
			""},
		"a read after one that promises nothing": {"s1 put x=1@1.1 ; s1 put x=2@2.1 ; s2 get x=2 ; s2 get x=1", []int{2},
			MonotonicReads, ""},
		"what was read is in the past of what the session writes": {
			"s1 put x=1@1.1 ; s1 put x=2@2.1 ; s2 get x=2 ; s2 put y=3@3.1 ; s3 get y=3 ; s3 get x=1", []int{2}, StaleRead, ""},
		"a read after one that promises nothing, of a write that others have read": {
			"s1 put x=1@1.1 ; s1 put x=2@2.1 ; s2 put z=0@1.2 ; s2 get x=2 ; s3 get x=2 ; s2 get x=1", []int{3}, MonotonicReads, ""},
		"a read of what follows from it": {"s1 get x=1 ; s1 put y=2@2.1 ; s2 get y=2 ; s2 put x=1@3.1", []int{0}, Cycle, ""},
		"a token after a read that promises nothing": {
			"s1 put x=1@1.1 ; s1 put x=2@2.1 ; s2 get x=2 ; s1 token t ; s2 resume t ; s2 get x=1", []int{2}, MonotonicReads,
			StaleRead},
		"a read of what nobody has written": {"s1 put x=1@1.1 ; s2 get x=7", []int{1}, ThinAir, ThinAir},
		"a read that promises causal+ is still held to it": {
			"s1 put x=1@1.1 ; s1 put x=2@2.1 ; s2 get x=2 ; s2 get x=1 ; s2 get x=1", []int{3}, MonotonicReads, MonotonicReads},
	} {
		for _, l := range append(causal.Levels(), causal.DefaultLevel) {
			if promises[l] != promise(causalPlus{}) {
				continue
			}
			if got := Check(at(parse(t, c.history), l, c.weak...), Options{}); !got.Has(c.want) {
				t.Errorf("%s: at %s: %s, want %s", what, l, got, c.want)
			}
		}
		got := Check(at(parse(t, c.history), anything, c.weak...), Options{})
		if got.OK() != (c.weakly == "") || c.weakly != "" && !got.Has(c.weakly) {
			t.Errorf("%s: without a promise: %s, want %q", what, got, c.weakly)
		}
	}
}

func TestALevelThatNobodyKnowsIsMalformed(t *testing.T) {
	if got := Check(at(parse(t, "s1 get x=-"), 99, 0), Options{}); !got.Has(Malformed) {
		t.Error(got)
	}
}
