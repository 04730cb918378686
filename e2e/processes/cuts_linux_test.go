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
	"slices"
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

// runInOwnNetwork runs the current test again in a network namespace of its own, where it may delay and drop packets,
// and reports whether this is that run.
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
			// Packets wait where they arrive. Before they leave they would count as not sent, and TCP lets few of those
			// wait.
			rule := []string{"-A", "INPUT", "--protocol", "tcp", side, port, "--jump", "NFQUEUE", "--queue-num",
				strconv.Itoa(number)}
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
	// A machine that is too busy to let an edge run breaks connections too, so only what happens every time counts.
	const attempts = 3
	for attempt := range attempts {
		before := map[string]float64{}
		for dc, e := range edges {
			before[dc] = e.broken()
		}
		for i := range 1200 {
			must(t, near.Set(t.Context(), fmt.Sprintf("slow:%d", i), value, 0).Err())
		}
		last := fmt.Sprintf("last:%d", attempt)
		must(t, near.Set(t.Context(), last, "1", 0).Err())
		eventually(t, "the last write in the other region", func() error { return far.Get(t.Context(), last).Err() })
		broken := 0.
		for dc, e := range edges {
			broken += e.broken() - before[dc]
		}
		if broken == 0 {
			return
		}
		t.Logf("attempt %d: %v connections between edges broke", attempt+1, broken)
	}
	t.Errorf("connections between edges broke each time")
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

// envMeasure makes the test of cuts of the WAN measure many of them, in about six minutes.
const envMeasure = "CAUSALSTORE_E2E_MEASURE"

// cutsOfTheWAN are the lengths of cuts, by the delay of the WAN, one way. Connections outlive the shorter cuts, and
// break in the longer ones.
func cutsOfTheWAN() map[time.Duration][]time.Duration {
	const near, far = 40 * time.Millisecond, 125 * time.Millisecond
	if os.Getenv(envMeasure) == "" {
		return map[time.Duration][]time.Duration{near: {time.Second, 4 * time.Second, 16 * time.Second}}
	}
	cuts := map[time.Duration][]time.Duration{}
	for i := range 20 {
		cuts[near] = append(cuts[near], 3*time.Second+time.Duration(i)*500*time.Millisecond)
	}
	for i := range 10 {
		cuts[far] = append(cuts[far], 3*time.Second+time.Duration(i)*time.Second)
	}
	return cuts
}

// The kernel loses packets here, as a WAN does, so its own back-offs take part.
func TestRegionsFindEachOtherAgainAfterCutsOfTheWAN(t *testing.T) {
	if !skipUnlessEdgesRun(t) {
		return
	}
	d, edges := deployRegions(t)
	p := openPath(t, []string{edges["a"].Ingress, edges["b"].Ingress, edges["c"].Ingress}, 0)
	clients := map[string]*goredis.Client{"a": d.client("a"), "c": d.client("c")}
	for delay, cuts := range cutsOfTheWAN() {
		p.set(wan.Link{Delay: delay})
		var took []time.Duration
		for _, length := range cuts {
			took = append(took, d.cutAndHeal(p, clients, delay, length))
			t.Logf("all writes crossed the WAN %s after a cut of %s, with a delay of %s", took[len(took)-1],
				length, delay)
		}
		slices.Sort(took)
		t.Logf("after %d cuts, with a delay of %s: median %s, worst %s", len(took), delay, took[len(took)/2],
			took[len(took)-1])
	}
	d.awaitPeer("a", "c", "connected")
	d.awaitPeer("c", "b", "connected")
}

// cutAndHeal cuts the WAN, writes in both regions, and returns how long after the heal all of that is seen in the other
// region.
func (d *deployment) cutAndHeal(p path, clients map[string]*goredis.Client, delay, length time.Duration) time.Duration {
	d.t.Helper()
	p.set(wan.Link{Delay: delay, Cut: true})
	end := time.After(length)
	var keys []string
	for i := range 20 {
		keys = append(keys, fmt.Sprintf("cut:%s:%s:%d", delay, length, i))
	}
	for dc, client := range clients {
		for _, key := range keys {
			must(d.t, client.Set(d.t.Context(), key+":"+dc, "1", 0).Err())
		}
	}
	<-end // the length of the cut, not a wait for anything
	p.set(wan.Link{Delay: delay})
	healed := time.Now()
	for dc, other := range map[string]string{"a": "c", "c": "a"} {
		for _, key := range keys {
			eventually(d.t, "a write of "+other+" in "+dc, func() error {
				return clients[dc].Get(d.t.Context(), key+":"+other).Err()
			})
		}
	}
	return time.Since(healed)
}
