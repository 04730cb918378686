package local_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/topology"
)

func TestSidecarsOfADataCenterHavePortsAndSessionsOfTheirOwn(t *testing.T) {
	const sidecars = 3
	d := start(t, local.Options{Scope: node.ScopePod, Cache: true, Sidecars: sidecars})
	ctx := t.Context()
	taken := map[string]bool{}
	var clients []*redis.Client
	for _, e := range d.Endpoints() {
		if len(e.Sidecars) != sidecars || e.Sidecars[0] != e.RESP {
			t.Fatalf("%s: sidecars %v, the first one at %s; want %d", e.Name, e.Sidecars, e.RESP, sidecars)
		}
		for _, addr := range e.Sidecars {
			if taken[addr] {
				t.Errorf("two sidecars are at %s", addr)
			}
			taken[addr] = true
			if e.Name == "eu-west-1" {
				c := redis.NewClient(&redis.Options{Addr: addr})
				defer c.Close()
				clients = append(clients, c)
			}
		}
	}
	for i, c := range clients {
		if err := c.Set(ctx, fmt.Sprint("key", i), i, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, dc := range d.State().DataCenters {
		if dc.Name != "eu-west-1" {
			continue
		}
		if dc.Sidecar.Puts != sidecars || dc.Sessions != sidecars || dc.Connected < sidecars {
			t.Errorf("%d puts of %d sessions with %d connections; want %d of each, or more connections",
				dc.Sidecar.Puts, dc.Sessions, dc.Connected, sidecars)
		}
		ids := map[uint64]bool{}
		for _, s := range dc.BoundBy {
			if ids[s.ID] {
				t.Errorf("two sessions of %s are listed as %d", dc.Name, s.ID)
			}
			ids[s.ID] = true
		}
	}
	metrics := scrape(t, d)
	for i := range clients {
		if want := fmt.Sprintf(`causalstore_sidecar_sessions{data_center="eu-west-1",index="%d"`, i); !strings.Contains(metrics, want) {
			t.Errorf("no metrics of sidecar %d", i)
		}
	}
}

// scrape returns the metrics of a deployment.
func scrape(t *testing.T, d *local.Deployment) string {
	t.Helper()
	server := httptest.NewServer(d.Admin())
	defer server.Close()
	r, err := http.Get(server.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var b bytes.Buffer
	if _, err := io.Copy(&b, r.Body); err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v\n%s", r.Status, err, b.String())
	}
	return b.String()
}

func TestTheNumberOfSidecarsAndTheirPortsAreBounded(t *testing.T) {
	for _, c := range []struct {
		sidecars, port int
		says           string
	}{
		{-1, 0, "use 1 to 16"},
		{17, 0, "use 1 to 16"},
		{16, 65500, "use a lower first port"},
	} {
		d, err := local.Start(t.Context(), local.Options{Topology: topology.Default(), Engine: "embedded",
			Host: "127.0.0.1", Sidecars: c.sidecars, Port: c.port, DataDir: t.TempDir()})
		if err == nil {
			d.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%d sidecars from port %d: %v, want %q", c.sidecars, c.port, err, c.says)
		}
	}
}
