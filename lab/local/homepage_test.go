package local_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/node"
)

// The page shows reads that the home of the key has answered, at whatever sidecar, and what the homes keep.
func TestThePageShowsWhatIsReadAtTheHome(t *testing.T) {
	d := start(t, local.Options{Scope: node.ScopeDataCenter, Level: causal.Snapshot, Cache: true, WAN: true,
		Sidecars: 2})
	p := pageClient{t, d.Admin()}
	var clients []*redis.Client
	for _, addr := range d.Endpoints()[0].Sidecars {
		c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
		defer c.Close()
		clients = append(clients, c)
	}
	await(t, "reads at the home to be shown", func() bool {
		for range 20 {
			if err := clients[0].Set(t.Context(), "k", "v", 0).Err(); err != nil {
				t.Fatal(err)
			}
			if err := clients[1].Get(t.Context(), "k").Err(); err != nil {
				t.Fatal(err)
			}
		}
		dc := p.snapshot().DataCenters[0]
		return dc.Rates != nil && dc.Rates.Home > 0 && dc.Rates.Home <= dc.Rates.Reads() && dc.Homes != nil &&
			dc.Homes.Keys > 0
	})
}
