package local_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/topology"
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

// What the page writes, and what it says that clients read, passes the home of the key.
func TestThePageReadsAtOnceWhatItsDataCenterHasWritten(t *testing.T) {
	d := start(t, local.Options{Scope: node.ScopeDataCenter, Level: causal.Snapshot, Cache: true, WAN: true,
		Topology: twoHomes(t)})
	p := pageClient{t, d.Admin()}
	p.do(http.MethodPost, "/fault", local.Fault{Kind: "cut", From: "there", To: "*"}, nil)
	for i := range 8 { // keys of both homes
		key := fmt.Sprintf("k%d", i)
		p.write("here", key, "x")
		await(t, "a reader of the data center has the value", func() bool {
			return p.view(key).Readers[0].Value == "x"
		})
	}
}

func twoHomes(t *testing.T) *topology.Topology {
	t.Helper()
	two := 2
	topo, err := (&topology.File{Epoch: 1,
		DataCenters: []topology.FileDataCenter{{Name: "here", Coordinators: &two}, {Name: "there"}},
		Rings: []topology.FileRing{{Name: "a", DataCenters: []string{"here"}},
			{Name: "b", DataCenters: []string{"there"}}}}).Topology()
	if err != nil {
		t.Fatal(err)
	}
	return topo
}
