package resp

import (
	"fmt"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/operation"
)

func TestUpdatesOfOneKeyAreSentAsOneAndAnsweredEach(t *testing.T) {
	add := func(n int64) operation.Operation { return operation.Operation{Kind: operation.Add, Number: n} }
	text := func(s string) operation.Operation {
		return operation.Operation{Kind: operation.Append, Data: []byte(s), Limit: 100}
	}
	us := []update{{name: "a", operation: add(1)}, {name: "a", operation: add(2)}, {name: "b", operation: text("x")},
		{name: "b", operation: text("yz")}, {name: "a", operation: add(-1)}, {name: "a", operation: add(1)},
		{name: "a", operation: operation.Operation{Kind: operation.Delete, ReturnsOld: true}},
		{name: "c", operation: add(1)}}
	values := map[string]causal.Value{"a": {Data: []byte("5"), ExpireAtMs: 9}, "b": {Data: []byte("w")}}
	sent := joinUpdates(nil, us)
	for i := range sent {
		s := &sent[i]
		outcome := s.operation.Apply(values[s.updates[0].name], 1)
		values[s.updates[0].name] = outcome.Next
		s.settle(operation.Outcome{Next: outcome.Next, Writes: true}, nil)
	}
	got := fmt.Sprint(len(sent))
	for i := range us {
		got += fmt.Sprintf(" %s", us[i].outcome.Next.Data)
	}
	if want := "4 6 8 wx wxyz 7 8  "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if us[0].outcome.Next.ExpireAtMs != 9 {
		t.Error("the expire time is lost")
	}
}

func TestAtMostSoManyUpdatesAreSentTogether(t *testing.T) {
	var us []update
	for i := range 2 * maxShipped {
		us = append(us, update{name: fmt.Sprint("k", i), operation: operation.Operation{Kind: operation.Add, Number: 1}})
	}
	if n := len(joinUpdates(nil, us)); n != maxShipped {
		t.Errorf("%d are sent together", n)
	}
	for i := range us {
		us[i].name = "k"
	}
	if sent := joinUpdates(nil, us); len(sent) != 1 || len(sent[0].updates) != len(us) {
		t.Errorf("those of one key are sent as %d", len(sent))
	}
}
