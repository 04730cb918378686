package processes_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/e2e/cluster/wan"
	labenvoy "github.com/causalstore/causalstore/lab/envoy"
)

// inOwnNetwork says that the test binary runs in a network of its own.
const inOwnNetwork = "CAUSALSTORE_TEST_OWN_NETWORK"

// runInOwnNetwork runs the current test again in a network namespace of its own, where it may delay and drop packets, and reports
// whether this is that run.
func runInOwnNetwork(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inOwnNetwork) != "" {
		if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
			t.Fatalf("ip: %v: %s", err, out)
		}
		return true
	}
	for _, program := range []string{"ip", "iptables"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v", "-test.timeout", "10m")
	cmd.Env = append(os.Environ(), inOwnNetwork+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		t.Skip("a network namespace takes root")
	}
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	return false
}

// path is the WAN between the edges: the packets of the connections to their ingresses, in both directions.
type path []*wan.Queue

// openPath puts packets from and to some addresses on the path.
func openPath(t *testing.T, addrs []string, delay time.Duration) (p path) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	for number := range uint16(2) {
		q, err := wan.Open(ctx, number, wan.Link{Delay: delay})
		must(t, err)
		p = append(p, q)
	}
	for _, a := range addrs {
		_, port, err := net.SplitHostPort(a)
		must(t, err)
		for number, side := range []string{"--dport", "--sport"} {
			rule := []string{"-A", "OUTPUT", "--protocol", "tcp", side, port, "--jump", "NFQUEUE", "--queue-num", strconv.Itoa(number)}
			if out, err := exec.Command("iptables", rule...).CombinedOutput(); err != nil {
				t.Fatalf("iptables: %v: %s", err, out)
			}
		}
	}
	return p
}

func (p path) set(l wan.Link) {
	for _, q := range p {
		q.Set(l)
	}
}

// skipUnlessEdgesRun reports whether this is the run of a test of edges that may delay and drop packets.
func skipUnlessEdgesRun(t *testing.T) bool {
	t.Helper()
	switch {
	case os.Getenv(labenvoy.ProgramVariable) == "":
		t.Skipf("%s names no Envoy; see CONTRIBUTING.md", labenvoy.ProgramVariable)
	case testing.Short():
		t.Skip("it takes half a minute")
	}
	return runInOwnNetwork(t)
}

// What is on its way then is answered late: that is no reason to break a connection, and to send all of it again.
func TestASlowWANBreaksNoConnection(t *testing.T) {
	if !skipUnlessEdgesRun(t) {
		return
	}
	const delay = 40 * time.Millisecond
	d, edges := deployRegions(t)
	p := openPath(t, []string{edges["a"].Ingress, edges["b"].Ingress, edges["c"].Ingress}, delay)
	near, far := d.client("a"), d.client("c")
	p.set(wan.Link{Delay: delay, Rate: 100_000, Queue: 256 << 10})
	value := strings.Repeat("x", 1024)
	for i := range 1200 {
		must(t, near.Set(t.Context(), fmt.Sprintf("slow:%d", i), value, 0).Err())
	}
	must(t, near.Set(t.Context(), "last", "1", 0).Err())
	eventually(t, "the last write in the other region", func() error { return far.Get(t.Context(), "last").Err() })
	for dc, e := range edges {
		if n := e.broken(); n > 0 {
			t.Errorf("%v connections of the edge of %s broke", n, dc)
		}
	}
}

// broken returns how many connections to peers have ended with tunnels in them.
func (e *envoy) broken() (sum float64) {
	e.t.Helper()
	const name = "envoy_cluster_upstream_cx_destroy_with_active_rq{"
	resp, err := http.Get("http://" + e.HTTP + "/stats/prometheus")
	must(e.t, err)
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	must(e.t, err)
	found := false
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, name) || !strings.Contains(line, "peer=") {
			continue
		}
		fields := strings.Fields(line)
		n, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		must(e.t, err)
		sum, found = sum+n, true
	}
	if !found {
		e.t.Fatalf("an edge has no metric %s...}", name)
	}
	return sum
}

// The kernel loses packets here, as a WAN does, so its own back-offs take part.
func TestRegionsFindEachOtherAgainAfterCutsOfTheWAN(t *testing.T) {
	if !skipUnlessEdgesRun(t) {
		return
	}
	const delay = 40 * time.Millisecond
	d, edges := deployRegions(t)
	p := openPath(t, []string{edges["a"].Ingress, edges["b"].Ingress, edges["c"].Ingress}, delay)
	clients := map[string]*goredis.Client{"a": d.client("a"), "c": d.client("c")}
	// The longer one outlasts the heartbeats of parts and edges, the shorter one does not.
	for i, length := range []time.Duration{4 * time.Second, 16 * time.Second} {
		p.set(wan.Link{Delay: delay, Cut: true})
		for dc, client := range clients {
			must(t, client.Set(t.Context(), fmt.Sprintf("cut:%d:%s", i, dc), "1", 0).Err())
		}
		time.Sleep(length) // the length of the cut, not a wait for anything
		p.set(wan.Link{Delay: delay})
		healed := time.Now()
		for dc, other := range map[string]string{"a": "c", "c": "a"} {
			eventually(t, "a write of "+other+" in "+dc, func() error { return clients[dc].Get(t.Context(), fmt.Sprintf("cut:%d:%s", i, other)).Err() })
		}
		t.Logf("writes crossed the WAN %s after a cut of %s", time.Since(healed), length)
	}
	d.awaitPeer("a", "c", "connected")
	d.awaitPeer("c", "b", "connected")
}
