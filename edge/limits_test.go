package edge_test

import (
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/edge"
)

// startLimited starts the edge of a region with a limit of its bootstrap lowered, which is too high to reach in a test.
func startLimited(t *testing.T, r *region, limit, lowered string) {
	t.Helper()
	files := configured(t, r.input)
	if !strings.Contains(files[edge.BootstrapFile], limit) {
		t.Fatalf("no %s in\n%s", limit, files[edge.BootstrapFile])
	}
	files[edge.BootstrapFile] = strings.Replace(files[edge.BootstrapFile], limit, lowered, 1)
	for name, text := range files {
		files[name] = r.edge.moved(t, text)
	}
	r.edge.config.write(t, files)
	r.edge.start(t)
}

func TestConnectionsBeyondTheLimitOfAListenerAreRefused(t *testing.T) {
	us, eu := newRegion(t, "us"), newRegion(t, "eu")
	us.input.Peers = []edge.Peer{eu.peer()}
	startLimited(t, us, "listener.egress.connection_limit: 16384", "listener.egress.connection_limit: 3")
	for range 3 {
		conn, err := net.Dial("tcp", us.edge.at.Egress)
		must(t, err)
		defer conn.Close()
	}
	eventually(t, "further connections are refused", func() bool {
		conn, err := net.Dial("tcp", us.edge.at.Egress)
		must(t, err)
		defer conn.Close()
		return us.edge.metric(t, "envoy_listener_downstream_cx_overflow", `envoy_listener_address="egress"`) > 0
	})
	client := eu.issue(t, contract.RoleEdge, "0")
	if status, err := tunnel(t, us, outerConfig(eu, us, &client), http.MethodConnect, us.part(0)+":7400"); err != nil || status != http.StatusOK {
		t.Errorf("the limit of the egress holds up the ingress: %d %v", status, err)
	}
}

func TestAnEdgeWithoutMemoryAcceptsProbesOnly(t *testing.T) {
	us, eu := newRegion(t, "us"), newRegion(t, "eu")
	us.input.Peers = []edge.Peer{eu.peer()}
	startLimited(t, us, `max_heap_size_bytes: "805306368"`, `max_heap_size_bytes: "1000000"`)
	for _, action := range []string{"stop_accepting_connections", "stop_accepting_requests", "shrink_heap", "reset_high_memory_stream"} {
		eventually(t, action+" is active", func() bool {
			return us.edge.metric(t, "envoy_overload_envoy_overload_actions_"+action+"_scale_percent") == 100
		})
	}
	http.DefaultClient.CloseIdleConnections()
	if status, body := us.edge.get("/ready"); status != http.StatusOK {
		t.Errorf("a probe is answered %d %s", status, body)
	}
}

func TestFailuresAreLoggedRarely(t *testing.T) {
	us, eu := newRegion(t, "us"), newRegion(t, "eu")
	us.input.Peers = []edge.Peer{eu.peer()}
	us.edge.configure(t, us.input)
	us.edge.start(t)
	const failures = 300
	for range failures {
		conn, err := tls.Dial("tcp", us.edge.at.Egress, &tls.Config{ServerName: "elsewhere.example.com", InsecureSkipVerify: true})
		if err == nil {
			conn.Close()
			t.Fatal("it accepted a name that nobody has")
		}
	}
	eventually(t, "all are counted", func() bool {
		return us.edge.metric(t, "envoy_listener_no_filter_chain_match", `envoy_listener_address="egress"`) >= failures
	})
	us.edge.stop()
	if n := strings.Count(us.edge.log.String(), `"serverName":"elsewhere.example.com"`); n == 0 || n > failures/2 {
		t.Errorf("%d of %d failures are logged, want some, and at most 60 a minute", n, failures)
	}
}
