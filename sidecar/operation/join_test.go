package operation

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// Joined operations leave the value that they leave one after the other, and tell what each of them has left.
func TestJoinedOperationsDoWhatTheyDoOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old := causal.Value{Data: []byte(rapid.SampledFrom([]string{"5", "-7", "word", "9223372036854775800"}).Draw(t, "old")),
			ExpireAtMs: rapid.SampledFrom([]int64{0, 10, 1000}).Draw(t, "expires")}
		ops := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Operation {
			return Operation{Kind: rapid.SampledFrom([]Kind{Add, Append, Delete}).Draw(t, "kind"), Limit: 12,
				Number: rapid.SampledFrom([]int64{0, 1, 3, -2, math.MaxInt64}).Draw(t, "number"),
				Data:   []byte(rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 0, 5, -1).Draw(t, "data"))}
		}), 1, 5).Draw(t, "ops")
		joined, n := ops[0], 1
		for ; n < len(ops); n++ {
			next, ok := joined.Join(&ops[n])
			if !ok {
				break
			}
			joined = next
		}
		got := joined.Apply(old, 100)
		value, each := old, make([]Outcome, n)
		for i := range each {
			if each[i] = ops[i].Apply(value, 100); each[i].Err != nil {
				if n > 1 && got.Err == nil {
					t.Fatalf("operation %d of %+v fails with %v, and joined they do not", i, ops[:n], each[i].Err)
				}
				return
			}
			value = each[i].Next
		}
		if got.Err != nil {
			t.Fatalf("%+v joined fail with %v", ops[:n], got.Err)
		}
		for i := n - 1; i >= 0; i-- {
			if diff := cmp.Diff(each[i].Next, got.Next); diff != "" {
				t.Fatalf("operation %d of %+v on %+v: %s", i, ops[:n], old, diff)
			}
			got = ops[i].Undo(got)
		}
	})
}

func TestAnOperationIsReadBackAsItWasSent(t *testing.T) {
	o := Operation{Kind: Set, Conditions: IfMissing, Number: -3, Data: []byte("x"), ExpireAtMs: 7, KeepExpireTime: true,
		Joined: true, Sums: true, Limit: 9}
	v := o.Value(true)
	got, follows, ok := Parse(v)
	if diff := cmp.Diff(o, got); diff != "" || !follows || !ok || !Follows(v) {
		t.Errorf("follows %v, known %v: %s", follows, ok, diff)
	}
	alone := Alone(v)
	if got, follows, ok = Parse(alone); follows || !ok || !cmp.Equal(o, got) || !Follows(v) {
		t.Errorf("alone it is %+v, follows %v, known %v", got, follows, ok)
	}
	v.Data[0] = byte(lastKind) + 1
	if _, _, ok = Parse(v); ok {
		t.Error("an operation that is not known is taken for one")
	}
}
