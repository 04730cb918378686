package local_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/node"
)

// The connections to a sidecar share one session. Their pipelines of updates are executed at the homes of the keys, and
// what one of them does is no reason to refuse a command of another one.
func TestPipelinedUpdatesOfManyConnectionsAreExact(t *testing.T) {
	const connections, pipelines, length, keys = 8, 30, 16, 40
	d := start(t, local.Options{Scope: node.ScopeDataCenter, Level: causal.Snapshot, Cache: true, Sidecars: 2})
	var all sync.WaitGroup
	for i, addr := range d.Endpoints()[0].Sidecars {
		for n := range connections {
			all.Go(func() {
				c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, PoolSize: 1})
				defer c.Close()
				rng := rand.New(rand.NewPCG(uint64(i), uint64(n)))
				for range pipelines {
					p := c.Pipeline()
					for range length {
						p.Incr(t.Context(), fmt.Sprint("n:", rng.IntN(keys)))
					}
					replies, _ := p.Exec(t.Context())
					for _, r := range replies {
						if r.Err() != nil {
							t.Errorf("%v: %v", r.Args(), r.Err())
						}
					}
				}
			})
		}
	}
	all.Wait()
	c := redis.NewClient(&redis.Options{Addr: d.Endpoints()[0].Sidecars[0], MaxRetries: -1})
	defer c.Close()
	sum := 0
	for k := range keys {
		n, err := c.Get(t.Context(), fmt.Sprint("n:", k)).Int()
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	if want := len(d.Endpoints()[0].Sidecars) * connections * pipelines * length; sum != want {
		t.Errorf("the counters have %d, after %d increments", sum, want)
	}
}
