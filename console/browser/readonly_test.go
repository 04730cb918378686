package browser

import (
	"context"
	"time"

	"github.com/causalstore/causalstore/console"
)

// readOnly is a store as an operator shows it: without faults, clients and coordinates, and with a data center in
// another region. One of its caches is down.
type readOnly struct{}

func ptr[T any](v T) *T { return &v }

func (readOnly) Layout(context.Context) (console.Layout, error) {
	site := func(name, ring, region string) console.LayoutSite {
		return console.LayoutSite{Name: name, Ring: ring, Region: region}
	}
	return console.Layout{Title: "store shop/orders, region us", Version: "v1", Rings: []string{"america", "europe"},
		NoClient: "The operator is no client of the store.",
		DataCenters: []console.LayoutSite{site("virginia", "america", "us"), site("oregon", "america", "us"),
			site("paris", "europe", "eu")},
		RunbookBase: console.Runbooks, FactsAgeMs: 2000}, nil
}

func (readOnly) Take(context.Context) console.Snapshot {
	part := func(kind string, state console.PartState) console.Part {
		return console.Part{Name: kind + " 0", Kind: kind, State: state, Version: "v1"}
	}
	dc := func(name string, bound int, cache console.PartState) console.DataCenter {
		return console.DataCenter{Name: name, Rates: &console.Rates{Own: 3, Cache: 410, Local: 160, Remote: 25,
			Writes: 42}, Connections: ptr(12), Sessions: ptr(12), Bound: &bound,
			InFlight: ptr(9), BufferBytes: ptr[int64](9 << 10), BufferLimitBytes: ptr[int64](256 << 20),
			SVLagMs: ptr[int64](190), CutAgeMs: ptr[int64](240),
			RingLagMs:    map[string]*int64{"america": ptr[int64](70), "europe": ptr[int64](190)},
			CacheEntries: ptr(1200), CacheBytes: ptr[int64](96 << 10),
			Parts: []console.Part{part("coordinator", console.PartServing), part("middleman", console.PartServing),
				part("cache", cache)}}
	}
	s := console.Snapshot{AtMs: time.Now().UnixMilli(), Epoch: 4,
		DataCenters: []console.DataCenter{dc("virginia", 3, console.PartServing), dc("oregon", 0, console.PartDown),
			console.UnknownDataCenter("paris", "It runs in region eu, and the operator of us does not ask its parts.")},
		Links: []console.Link{{A: "virginia", B: "oregon", RoundTripMs: ptr(62.0), BytesPerSecond: ptr(7300.0)},
			{A: "virginia", B: "paris", RoundTripMs: ptr(81.5), BytesPerSecond: ptr(9100.0)},
			{A: "oregon", B: "paris", CutAB: true}}}
	s.Problems = append(console.PartProblems(&s.DataCenters[1]),
		console.Problem{Severity: console.Critical, DataCenter: "paris", Text: "paris gives no answer to oregon.",
			Runbook: "CausalStorePeersDisconnected"})
	console.SortProblems(s.Problems)
	return s
}
