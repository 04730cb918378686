package local_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/topology"
)

// A data center dies after one ring has a write of its. Who has read that write may read in that ring only, of which a
// shard has died with the data center, until others have put the write in the other rings.
func TestWritesOfADeadDataCenterAreAdopted(t *testing.T) {
	d := start(t, local.Options{Scope: node.ScopeConnection})
	ctx := t.Context()
	topo := topology.Default()
	keyOf := func(dc string) string { return keyIn(topo, dc) }
	open := func(dc string) *redis.Client { return connect(t, d, dc) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	await := func(c *redis.Client, key, value string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; {
			got, err := c.Get(ctx, key).Result()
			if err == nil && got == value {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s was not read as %s within a minute: %q, %v", key, value, got, err)
			}
		}
	}
	inject := func(f local.Fault) { t.Helper(); must(d.Inject(ctx, f)) }
	const dead, alive = "us-west-1", "us-east-1"
	x, k := keyOf(alive), keyOf(dead)

	alice := open(dead)
	must(alice.Set(ctx, k, 1, 0).Err())
	must(alice.Do(ctx, "CAUSAL", "WAIT", "ALL", "30000").Err())
	for ring := topology.RingID(1); ring <= 2; ring++ {
		owner := topo.Owner(ring, topology.SlotOf(x))
		inject(local.Fault{Kind: "cut", From: dead, To: topo.DCs[owner.DC].Name})
	}
	must(alice.Set(ctx, x, 2, 0).Err())
	bob := open(alive)
	await(bob, x, "2")
	inject(local.Fault{Kind: "crash", DC: dead, Part: "coordinator"})
	inject(local.Fault{Kind: "crash", DC: dead, Part: "middleman"})
	began := time.Now()
	await(bob, k, "1")
	t.Logf("a session that has read the write reads the slots of the dead shard after %s",
		time.Since(began).Round(time.Millisecond))
	far := open("sa-east-1")
	await(far, x, "2")
	must(bob.MGet(ctx, x, k).Err())

	inject(local.Fault{Kind: "heal"})
	inject(local.Fault{Kind: "restart", DC: dead, Part: "middleman"})
	inject(local.Fault{Kind: "restart", DC: dead, Part: "coordinator"})
	must(bob.Set(ctx, x, 3, 0).Err())
	must(bob.Do(ctx, "CAUSAL", "WAIT", "ALL", "60000").Err())
	await(open(dead), x, "3")
}
