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

// change is a change of a file that an edge is configured with: of the first text of that kind after another one.
type change struct{ file, after, old, now string }

// startChanged starts the edge of a region with some of its files changed: its limits are too high to reach in a test.
func startChanged(t *testing.T, r *region, changes ...change) {
	t.Helper()
	files := configured(t, r.input)
	for _, c := range changes {
		before, after, found := strings.Cut(files[c.file], c.after)
		if !found || !strings.Contains(after, c.old) {
			t.Fatalf("no %s after %q in\n%s", c.old, c.after, files[c.file])
		}
		files[c.file] = before + c.after + strings.Replace(after, c.old, c.now, 1)
	}
	for name, text := range files {
		files[name] = r.edge.moved(t, text)
	}
	r.edge.config.write(t, files)
	r.edge.start(t)
}

// limited returns a change of a limit in the bootstrap.
func limited(limit, lowered string) change { return change{edge.BootstrapFile, "", limit, lowered} }

func TestConnectionsBeyondTheLimitOfAListenerAreRefused(t *testing.T) {
	us, eu := newRegion(t, "us"), newRegion(t, "eu")
	us.input.Peers = []edge.Peer{eu.peer()}
	startChanged(t, us, limited("listener.egress.connection_limit: 16384", "listener.egress.connection_limit: 3"))
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
	if status, err := tunnel(t, us, outerConfig(eu, us, &client), http.MethodConnect, us.part(0)+":7400"); err != nil ||
		status != http.StatusOK {
		t.Errorf("the limit of the egress holds up the ingress: %d %v", status, err)
	}
}

// noMemory leaves an edge less memory than it needs to start.
var noMemory = limited(`max_heap_size_bytes: "805306368"`, `max_heap_size_bytes: "1000000"`)

func TestAnEdgeWithoutMemoryAnswersProbes(t *testing.T) {
	us, eu := newRegion(t, "us"), newRegion(t, "eu")
	us.input.Peers = []edge.Peer{eu.peer()}
	startChanged(t, us, noMemory)
	for _, action := range []string{"stop_accepting_connections", "stop_accepting_requests", "shrink_heap",
		"reset_high_memory_stream"} {
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
		conn, err := tls.Dial("tcp", us.edge.at.Egress,
			&tls.Config{ServerName: "elsewhere.example.com", InsecureSkipVerify: true})
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
