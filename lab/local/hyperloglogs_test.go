package local_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/node"
)

// Two data centers add to a HyperLogLog while they are cut off from each other, and one of them deletes another one.
// Afterwards both have what a single one has that all was added to, and of the deleted one what was added meanwhile.
func TestHyperLogLogsOfTwoDataCentersMerge(t *testing.T) {
	for _, scope := range []node.Scope{node.ScopeDataCenter, node.ScopePod} {
		t.Run(string(scope), func(t *testing.T) {
			d := start(t, local.Options{Scope: scope, Level: causal.Snapshot, Cache: true})
			ctx := t.Context()
			here := oneSession(t, endpoint(t, d, "us-east-1"))
			there := oneSession(t, endpoint(t, d, "ap-southeast-2"))
			awaitCollections(t, here)
			add := func(c *redis.Conn, key string, from, to int) {
				t.Helper()
				for ; from < to; from += 20 {
					args := []any{"PFADD", key}
					for i := range 20 {
						args = append(args, fmt.Sprint("e", from+i))
					}
					if err := c.Do(ctx, args...).Err(); err != nil {
						t.Fatalf("PFADD: %v", err)
					}
				}
			}
			registers := func(c *redis.Conn, key string) string {
				return fmt.Sprint(c.PFCount(ctx, key).Val(), " ", c.Get(ctx, key).Val())
			}
			await := func(c *redis.Conn, key, want string) {
				t.Helper()
				for until := time.Now().Add(time.Minute); registers(c, key) != want; time.Sleep(20 * time.Millisecond) {
					if time.Now().After(until) {
						t.Fatalf("%s is %q, want %q", key, registers(c, key), want)
					}
				}
			}
			add(here, "all", 0, 1200)
			add(here, "visitors", 0, 400)
			add(here, "gone", 0, 400)
			add(here, "late", 2000, 2020)
			awaitAllRings(t, here)
			await(there, "gone", registers(here, "gone"))
			cutAmericaFromAsia(t, d)
			add(here, "visitors", 400, 800)
			add(there, "visitors", 600, 1200)
			if err := here.Del(ctx, "gone").Err(); err != nil {
				t.Fatal(err)
			}
			add(there, "gone", 2000, 2020)
			heal(t, d)
			awaitAllRings(t, here)
			awaitAllRings(t, there)
			for _, c := range []*redis.Conn{here, there} {
				await(c, "visitors", registers(here, "all"))
				await(c, "gone", registers(here, "late"))
			}
		})
	}
}

// Clients at two sidecars of a data center add to a HyperLogLog. What they have added is what one client would have.
func TestHyperLogLogsAreExactInADataCenter(t *testing.T) {
	const clients, each = 4, 60
	d := startExact(t, 2)
	ctx, ports := t.Context(), d.Endpoints()[0].Sidecars
	first := oneSession(t, ports[0])
	awaitCollections(t, first)
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() {
			c := oneSession(t, ports[n%len(ports)])
			for i := range each {
				increment(t, c, "PFADD", "h", fmt.Sprint(n, ":", i))
			}
		})
	}
	all.Wait()
	for n := range clients {
		for i := range each {
			if raised, err := first.PFAdd(ctx, "h", fmt.Sprint(n, ":", i)).Result(); raised != 0 || err != nil {
				t.Errorf("%d:%d was not added: %d, %v", n, i, raised, err)
			}
		}
	}
}
