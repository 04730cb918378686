package local_test

import (
	"fmt"
	"testing"

	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/node"
)

// After cuts of one direction and of both, also inside a ring, everything is everywhere again.
func TestWritesOfACutAreEverywhereAfterItHasHealed(t *testing.T) {
	d := start(t, local.Options{Scope: node.ScopeConnection, Cache: true})
	c := oneSession(t, endpoint(t, d, "us-east-1"))
	ctx := t.Context()
	for round, f := range []local.Fault{
		{Kind: "cut", From: "eu-west-1", To: "*"}, {Kind: "cut", From: "*", To: "eu-west-1", OneWay: true},
		{Kind: "cut", From: "eu-west-1", To: "us-east-1", OneWay: true},
		{Kind: "cut", From: "us-west-1", To: "us-west-2"},
	} {
		if err := d.Inject(ctx, f); err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			if err := c.Set(ctx, fmt.Sprint("cut:", round, ":", i), i, 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		_ = c.Do(ctx, "CAUSAL", "WAIT", "all", 1500).Err() // it may succeed: the cut need not concern the last write
		if err := d.Inject(ctx, local.Fault{Kind: "heal"}); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Do(ctx, "CAUSAL", "WAIT", "all", 60_000).Int(); err != nil || n != 1 {
			t.Fatalf("after %+v: %d, %v", f, n, err)
		}
	}
}
