package local_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/topology"
)

// A coordinator dies after one ring has a write of its. What follows that write waits in the other rings, and reads
// there, of one key or of several, must not wait with it.
func TestReadsDoNotWaitForAWriteThatADeadCoordinatorHasSentHalfway(t *testing.T) {
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
	await := func(c *redis.Client, key string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); c.Get(ctx, key).Err() != nil; {
			if time.Now().After(deadline) {
				t.Fatalf("%s was not read within a minute", key)
			}
		}
	}
	inject := func(f local.Fault) { t.Helper(); must(d.Inject(ctx, f)) }
	x, y, z := keyOf("us-east-1"), keyOf("us-west-2"), keyOf("us-west-1")

	for ring := range topology.RingID(2) { // all but that of sa-east-1
		owner := topo.Owner(ring, topology.SlotOf(z))
		inject(local.Fault{Kind: "cut", From: "sa-east-1", To: topo.DCs[owner.DC].Name})
	}
	must(open("sa-east-1").Set(ctx, z, 1, 0).Err())
	alice := open("sa-east-1")
	await(alice, z)
	inject(local.Fault{Kind: "crash", DC: "sa-east-1", Part: "coordinator"})
	must(alice.Set(ctx, x, 1, 0).Err()) // through the coordinator of another data center; it follows z
	inject(local.Fault{Kind: "cut", From: "us-east-1", To: "sa-east-1"})
	must(open("us-east-1").Set(ctx, y, 1, 0).Err()) // does not follow x

	bob := open("us-east-1")
	await(bob, y)
	if values, err := bob.MGet(ctx, x, y).Result(); err != nil || fmt.Sprint(values) != "[<nil> 1]" {
		t.Errorf("MGET: %v, %v", values, err)
	}
	if err := bob.Get(ctx, x).Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("GET of what waits: %v", err)
	}
	inject(local.Fault{Kind: "heal"})
	await(bob, x)
}

// keyIn returns a key that the first ring stores in a data center.
func keyIn(topo *topology.Topology, dc string) string {
	for i := 0; ; i++ {
		key := fmt.Sprint("key", i)
		if owner := topo.Owner(0, topology.SlotOf(key)); topo.DCs[owner.DC].Name == dc {
			return key
		}
	}
}

// connect returns a client of a data center, with one connection and so one session.
func connect(t *testing.T, d *local.Deployment, dc string) *redis.Client {
	t.Helper()
	for _, e := range d.Endpoints() {
		if e.Name == dc {
			c := redis.NewClient(&redis.Options{Addr: e.RESP, PoolSize: 1, MaxRetries: -1, ReadTimeout: time.Minute})
			t.Cleanup(func() { c.Close() })
			return c
		}
	}
	t.Fatalf("no data center %s", dc)
	return nil
}
