package command

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/lab/ports"
)

// twoDataCenters is a topology file.
const twoDataCenters = `
epoch: 1
dataCenters: [{name: here}, {name: there}]
rings: [{name: a, dataCenters: [here]}, {name: b, dataCenters: [there]}]
roundTripMs: {here: {there: 80}}
`

func TestLocalListsTheRedisPortsOfAllSidecars(t *testing.T) {
	dir := t.TempDir()
	ends := filepath.Join(dir, "ends.json")
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(ends); err == nil {
				stop()
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	out, err := executeUntil(ctx, NewLocalCommand(), "--topology", topologyFile(t), "--sidecars", "2", "--port", "0",
		"--admin-port", "0", "--endpoints-file", ends)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b, err := os.ReadFile(ends)
	if err != nil {
		t.Fatal(err)
	}
	var got local.Endpoints
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.DataCenters) != 2 {
		t.Fatalf("%s", b)
	}
	for _, e := range got.DataCenters {
		if len(e.Sidecars) != 2 || e.RESP != e.Sidecars[0] {
			t.Errorf("%s: %v, the first one at %s", e.Name, e.Sidecars, e.RESP)
		}
		wantAll(t, out, e.Sidecars...)
	}
}

func TestLocalRefusesInvalidSidecarsWithAdvice(t *testing.T) {
	for _, n := range []string{"0", "17", "-1"} {
		_, err := execute(t, NewLocalCommand(), "", "--sidecars", n)
		if err == nil || !strings.Contains(err.Error(), "use 1 to 16") {
			t.Errorf("--sidecars %s: %v", n, err)
		}
	}
}

func TestLocalKeepsNearCopiesWithScopeDataCenter(t *testing.T) {
	for args, want := range map[string]int{
		"":                           contract.DefaultNearBytes,
		"--session-scope pod":        0,
		"--session-scope datacenter": contract.DefaultNearBytes,
		"--near-copies 70000":        70000,
		"--session-scope datacenter --cache=false":   0,
		"--session-scope datacenter --near-copies 0": 0,
	} {
		var f localFlags
		cmd := f.command()
		if err := cmd.ParseFlags(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		if o, err := f.options(); err != nil || o.NearBytes != want {
			t.Errorf("%q: %d bytes of near copies, %v; want %d", args, o.NearBytes, err, want)
		}
	}
}

func TestLocalSaysWhichPortIsTaken(t *testing.T) {
	addrs, err := ports.Free(4)
	if err != nil {
		t.Fatal(err)
	}
	_, first, _ := net.SplitHostPort(addrs[0])
	from, _ := strconv.Atoi(first)
	// The second sidecar of the first data center listens after the first ones of both.
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(from+2)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = execute(t, NewLocalCommand(), "", "--topology", topologyFile(t), "--sidecars", "2", "--port", first,
		"--admin-port", "0", "--duration", "30s")
	if err == nil {
		t.Fatal("two programs listen on one port")
	}
	wantAll(t, err.Error(), "of here", l.Addr().String(), "stop what uses that port, or choose another first port")
}

func topologyFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "topology.yaml")
	if err := os.WriteFile(path, []byte(twoDataCenters), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
