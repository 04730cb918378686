package processes_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
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

// The kernel loses packets here, as a WAN does, so its own back-offs take part.
func TestRegionsFindEachOtherAgainAfterCutsOfTheWAN(t *testing.T) {
	switch {
	case os.Getenv(labenvoy.ProgramVariable) == "":
		t.Skipf("%s names no Envoy; see CONTRIBUTING.md", labenvoy.ProgramVariable)
	case testing.Short():
		t.Skip("cuts take half a minute")
	case !runInOwnNetwork(t):
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
