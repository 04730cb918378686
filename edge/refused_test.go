package edge_test

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/edge"
)

// TestEnvoyCountsWhatItRefusesWhereTheAlertLooks: an alert on a metric that Envoy does not have never fires.
func TestEnvoyCountsWhatItRefusesWhereTheAlertLooks(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "charts", "causalstore", "files", "alerts.yaml"))
	must(t, err)
	names := slices.Compact(slices.Sorted(slices.Values(regexp.MustCompile(`envoy_\w+`).FindAllString(string(b), -1))))
	if len(names) != 2 {
		t.Fatalf("alerts use %v; refuse something for each", names)
	}
	us, eu := newRegion(t, "us"), newRegion(t, "eu")
	us.input.Peers = []edge.Peer{eu.peer()}
	us.edge.configure(t, us.input)
	us.edge.start(t)
	for _, name := range names {
		if _, body := us.edge.get("/stats/prometheus"); !strings.Contains(body, "\n"+name+"{} 0\n") {
			t.Errorf("an edge whose files are accepted does not have %s, which must be there to increase", name)
		}
	}
	files := map[string]string{}
	for name, text := range configured(t, us.input) {
		files[name] = us.edge.moved(t, text)
	}
	wrong := maps.Clone(files)
	for file, change := range map[string][2]string{"listeners.yaml": {"address: 127.0.0.1", "address: nowhere"},
		"clusters.yaml": {"connect_timeout: 5s", "connect_timeout: 0s"}} {
		if wrong[file] = strings.ReplaceAll(files[file], change[0], change[1]); wrong[file] == files[file] {
			t.Fatalf("nothing of %s was changed", file)
		}
	}
	refuses := func(e *envoy) func() bool {
		return func() bool {
			return !slices.ContainsFunc(names, func(name string) bool { return e.metric(t, name) == 0 })
		}
	}
	us.edge.config.write(t, wrong)
	eventually(t, "all are counted", refuses(us.edge))

	// One that starts with them is ready, and has counted them before anybody looks.
	us.edge.stop()
	http.DefaultClient.CloseIdleConnections()
	us.edge.start(t)
	eventually(t, "all are counted after a start", refuses(us.edge))
}

// TestAnEgressLogsThatThePeerHasNoAddress: docs/regions.md says what to look for.
func TestAnEgressLogsThatThePeerHasNoAddress(t *testing.T) {
	us, eu := newRegion(t, "us"), newRegion(t, "eu")
	peer := eu.peer()
	peer.Address = "edge.eu.invalid:15443"
	us.input.Peers = []edge.Peer{peer}
	us.edge.configure(t, us.input)
	us.edge.start(t)
	client := us.issue(t, contract.RoleCoordinator, "0")
	eventually(t, "the failure is logged", func() bool {
		if conn, err := us.dial(client, eu, eu.part(0)); err == nil {
			conn.Close()
			t.Fatal("it was connected")
		}
		log := us.edge.log.String()
		return strings.Contains(log, `"flags":"NoHealthyUpstream"`) && strings.Contains(log, eu.part(0))
	})
}
