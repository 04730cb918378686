package edge_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/edge"
)

func TestEnvoyAcceptsTheGoldenConfigurations(t *testing.T) {
	envoyProgram(t)
	r := newRegion(t, "us")
	for name, in := range goldenInputs(t) {
		t.Run(name, func(t *testing.T) {
			e := newEnvoy(t)
			e.certificate.write(t, r.issue(t, contract.RoleEdge, "0").files())
			e.configure(t, in)
			e.start(t)
			if refused := e.rejected(t); refused != 0 {
				t.Errorf("it refused %v files", refused)
			}
			if lds, cds := e.metric(t, "envoy_listener_manager_lds_update_success"),
				e.metric(t, "envoy_cluster_manager_cds_update_success"); lds < 1 || cds < 1 {
				t.Errorf("read listeners %v times, clusters %v times", lds, cds)
			}
			listeners := 1.0
			if len(in.Peers) > 0 {
				listeners = 4
			}
			eventually(t, "all listeners are active", func() bool {
				return e.metric(t, "envoy_listener_manager_total_listeners_active") == listeners
			})
			if got, want := e.metric(t, "envoy_cluster_manager_active_clusters"),
				float64(1+2*len(in.Peers)+len(in.Parts)); got != want {
				t.Errorf("%v clusters, want %v", got, want)
			}
			if strings.Contains(e.log.String(), "deprecated") {
				t.Errorf("the configuration uses deprecated fields:\n%s", e.log.String())
			}
		})
	}
}

func TestAPartReachesAPartOfAnotherRegionThroughTheirEdges(t *testing.T) {
	us, eu := newRegion(t, "us"), newRegion(t, "eu")
	trust(t, us, eu)
	client := us.issue(t, contract.RoleCoordinator, "0")
	conn, err := us.dial(client, eu, eu.part(0))
	must(t, err)
	defer conn.Close()
	must(t, speak(conn, "hello from us\n"))
	if seen := <-eu.seen; !bytes.Equal(seen.Raw, client.tls.Certificate[0]) {
		t.Errorf("the part saw the certificate of %v, want that of its client", seen.URIs)
	}
	if server := conn.ConnectionState().PeerCertificates[0].URIs[0].String(); !strings.HasSuffix(server,
		"/dc/eu-1/middleman/0") {
		t.Errorf("the client saw the certificate of %s, want that of the part", server)
	}
	large := strings.Repeat("x", 3<<20) + "\n" // more than the buffers of both edges
	done := make(chan error, 1)
	go func() { done <- speak(conn, large) }()
	must(t, <-done)

	// A name that no filter chain has, one that the other edge does not know, and none.
	for about, name := range map[string]string{"of another store": "middleman-0.eu-1.another-store",
		"of no part": eu.part(7), "of the own region": us.part(0), "": ""} {
		if conn, err := us.dial(client, eu, name); err == nil {
			conn.Close()
			t.Errorf("the name %s %q was accepted", about, name)
		}
	}
	eventually(t, "the failures are logged", func() bool {
		return strings.Contains(us.edge.log.String(), eu.part(7)) &&
			strings.Contains(eu.edge.log.String(), eu.part(7)+":7400") &&
			strings.Contains(us.edge.log.String(), "another-store")
	})
	if log := us.edge.log.String(); strings.Contains(log, eu.part(0)) {
		t.Errorf("it also logs what went well:\n%s", log)
	}
}

func TestManyTunnelsShareFewConnections(t *testing.T) {
	us, eu := newRegion(t, "us"), newRegion(t, "eu")
	trust(t, us, eu)
	client := us.issue(t, contract.RoleCoordinator, "0")
	const tunnels = 300
	var all sync.WaitGroup
	conns, failed := make([]*tls.Conn, tunnels), make([]error, tunnels)
	for i := range tunnels {
		all.Go(func() {
			if conns[i], failed[i] = us.dial(client, eu, eu.part(0)); failed[i] == nil {
				failed[i] = speak(conns[i], fmt.Sprintf("tunnel %d\n", i))
			}
		})
	}
	all.Wait()
	for i := range tunnels {
		must(t, failed[i])
		defer conns[i].Close()
	}
	if outer := us.edge.metric(t, "envoy_cluster_upstream_cx_active", `peer="eu-1"`); outer < 3 || outer > 6 {
		t.Errorf(
			"%d tunnels use %v connections between the edges, want one for 128 tunnels, and at most one more for "+
				"each worker", tunnels, outer)
	}
	if n := us.edge.metric(t, "envoy_cluster_upstream_rq_active", `peer="eu-1"`); n != tunnels {
		t.Errorf("%v tunnels are counted, want %d", n, tunnels)
	}
	if n := eu.edge.metric(t, "envoy_cluster_upstream_cx_active", `part="middleman-0"`); n != tunnels {
		t.Errorf("%v connections to the part are counted, want %d", n, tunnels)
	}
	if n := eu.edge.metric(t, "envoy_http_downstream_rq_active", `peer="us-1"`); n != tunnels {
		t.Errorf("%v tunnels from us-1 are counted, want %d", n, tunnels)
	}
}

// TestATunnelWhoseReceiverDoesNotReadHoldsUpNoOther: the window of a connection covers those of all its tunnels.
func TestATunnelWhoseReceiverDoesNotReadHoldsUpNoOther(t *testing.T) {
	us, eu := newRegion(t, "us"), newRegion(t, "eu")
	stuck := listen(t)
	eu.input.Parts = append(eu.input.Parts, edge.Part{Name: eu.part(1), Address: stuck.Addr().String()})
	trust(t, us, eu)
	const tunnels, window = 8, 4 << 20
	for range tunnels {
		fill(t, us, eu.part(1))
	}
	eventually(t, "all windows are full", func() bool {
		return us.edge.metric(t, "envoy_cluster_upstream_cx_tx_bytes_total", `peer="eu-1"`) >= tunnels*window
	})
	client := us.issue(t, contract.RoleCoordinator, "0")
	conn, err := us.dial(client, eu, eu.part(0))
	must(t, err)
	defer conn.Close()
	must(t, speak(conn, strings.Repeat("y", 1<<20)))
	if outer := us.edge.metric(t, "envoy_cluster_upstream_cx_active", `peer="eu-1"`); outer != 1 {
		t.Errorf("%v connections between the edges, want one that all share", outer)
	}
}

func TestTheHTTPPortServesReadinessAndMetricsOnly(t *testing.T) {
	e, r := newEnvoy(t), newRegion(t, "us")
	e.certificate.write(t, r.issue(t, contract.RoleEdge, "0").files())
	e.configure(t, r.input)
	e.start(t)
	if status, body := e.get("/stats/prometheus"); status != http.StatusOK ||
		!strings.Contains(body, "envoy_server_live") {
		t.Errorf("metrics: %d %s", status, body)
	}
	for _, c := range []struct{ method, path string }{
		{"POST", "/quitquitquit"}, {"GET", "/quitquitquit"}, {"POST", "/ready/../quitquitquit"},
		{"POST", "/ready%2f..%2fquitquitquit"}, {"POST", "/ready"},
		{"GET", "/config_dump"}, {"GET", "/stats"}, {"GET", "/"}, {"GET", "/ready/"}, {"GET", "/certs"},
		{"POST", "/stats/prometheus"}, {"POST", "/drain_listeners"},
	} {
		if status, body := ask(c.method, "http://"+e.at.HTTP+c.path); status != http.StatusNotFound {
			t.Errorf("%s %s: %d %s", c.method, c.path, status, body)
		}
	}
	if status, _ := e.get("/ready"); status != http.StatusOK {
		t.Errorf("it is not ready any more: %d", status)
	}
}
