package edge_test

import (
	"testing"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/edge"
)

// TestSidecarsCannotTakeTheWayOfParts: whatever bound of the edges the connections of sidecars have reached, here or in
// the other region, the store's own parts reach each other.
func TestSidecarsCannotTakeTheWayOfParts(t *testing.T) {
	const clusters = "clusters.yaml"
	for about, c := range map[string]struct {
		here, there []change
	}{
		"connections to the egress": {
			here: []change{limited("listener.egress.connection_limit: 16384", "listener.egress.connection_limit: 3")},
		},
		"tunnels to a peer": {
			here: []change{{clusters, "", "max_requests: 16384", "max_requests: 3"}},
		},
		"tunnels that wait for a connection to a peer": {
			here: []change{{clusters, "", "max_pending_requests: 16384", "max_pending_requests: 0"}},
		},
		"connections to a part": {
			there: []change{{clusters, "cluster_name: edge_us-1_parts", "max_connections: 16384", "max_connections: 3"},
				{clusters, "cluster_name: edge_us-1_parts", "max_pending_requests: 16384", "max_pending_requests: 0"}}},
	} {
		t.Run(about, func(t *testing.T) {
			us, eu := newRegion(t, "us"), newRegion(t, "eu")
			us.input.Peers, eu.input.Peers = []edge.Peer{eu.peer()}, []edge.Peer{us.peer()}
			startChanged(t, us, c.here...)
			startChanged(t, eu, c.there...)
			for range 3 {
				begin(t, us.edge.at.Egress, eu.part(0))
			}
			client := us.issue(t, contract.RoleCoordinator, "0")
			eventually(t, "sidecars are refused", func() bool {
				conn, err := us.dialThrough(us.edge.at.Egress, client, eu, eu.part(0))
				if err == nil {
					conn.Close()
				}
				return err != nil
			})
			joinAsPart(t, us, eu)
		})
	}
}

// TestSidecarsCannotTakeTheMemoryThatPartsConnectWith: an edge that accepts nothing more from sidecars does so from
// parts.
func TestSidecarsCannotTakeTheMemoryThatPartsConnectWith(t *testing.T) {
	us, eu := newRegion(t, "us"), newRegion(t, "eu")
	us.input.Peers, eu.input.Peers = []edge.Peer{eu.peer()}, []edge.Peer{us.peer()}
	startChanged(t, us, noMemory)
	startChanged(t, eu)
	eventually(t, "it has no memory", func() bool {
		return us.edge.metric(t,
			"envoy_overload_envoy_overload_actions_stop_accepting_connections_scale_percent") == 100
	})
	begin(t, us.edge.at.Egress, eu.part(0))
	joinAsPart(t, us, eu)
	if n := us.edge.metric(t, "envoy_listener_downstream_cx_total", `envoy_listener_address="egress"`); n > 0 {
		t.Errorf("it has accepted %v connections of sidecars", n)
	}
}

// joinAsPart speaks to a part of another region through the egress for parts, over several tunnels at a time.
func joinAsPart(t *testing.T, from, to *region) {
	t.Helper()
	client := from.issue(t, contract.RoleCoordinator, "0")
	for range 4 {
		conn, err := from.dial(client, to, to.part(0))
		must(t, err)
		defer conn.Close()
		must(t, speak(conn, "hello from a part\n"))
	}
}
