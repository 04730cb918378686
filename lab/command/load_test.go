package command

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/lab/load"
	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/lab/ports"
	"github.com/causalstore/causalstore/sidecar/command"
)

// startRedis starts a stock redis-server and returns its address.
func startRedis(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed; on Debian: apt-get install redis-server")
	}
	addr := ports.ForTest(t)
	server := exec.Command(path, "--port", fmt.Sprint(netip.MustParseAddrPort(addr).Port()), "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no")
	log, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(log)
	t.Cleanup(func() {
		_ = server.Process.Kill()
		for lines.Scan() { // Wait needs the pipe read to its end
		}
		_ = server.Wait()
	})
	for lines.Scan() {
		if strings.Contains(lines.Text(), "Ready to accept connections") {
			return addr
		}
	}
	t.Fatal("redis-server did not become ready")
	return ""
}

func TestLoadMeasuresRecordsAndChecksOneRedis(t *testing.T) {
	dir := t.TempDir()
	ends := filepath.Join(dir, "ends.json")
	b, err := json.Marshal(local.Endpoints{Admin: "127.0.0.1:1",
		DataCenters: []local.Endpoint{{Name: "here", Ring: "one", RESP: startRedis(t)}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ends, b, 0o644); err != nil {
		t.Fatal(err)
	}
	record := filepath.Join(dir, "history.jsonl")
	out, err := execute(t, NewLoadCommand(), "", "--endpoints-file", ends, "--ops", "2000", "--sessions", "4",
		"--record", record, "--check")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wantAll(t, out, "2000 operations in", "p50", "p95", "p99", "max", "GET", "SET", "MGET", "DEL",
		"final reads of", "causal+")
	if out, err = execute(t, NewCheckCommand(), "", record); err != nil {
		t.Errorf("the recorded history does not check: %v\n%s", err, out)
	}
}

func TestLoadMeasuresAWorkloadAtOneRedis(t *testing.T) {
	dir := t.TempDir()
	result, series, file := filepath.Join(dir, "result.json"), filepath.Join(dir, "series.csv"),
		filepath.Join(dir, "w.yaml")
	if err := os.WriteFile(file,
		[]byte("operations: {get: 0.6, rmw: 0.2, incr: 0.1, del: 0.1}\nvalues: {bytes: 100}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	redis := startRedis(t)
	for _, workload := range []string{"ycsb-e", "twitter-52", "twitter-23", file} {
		out, err := execute(t, NewLoadCommand(), "", "--endpoint", redis, "--workload", workload, "--ops", "2000",
			"--keys", "300", "--rate", "100000",
			"--arrivals", "poisson", "--pipeline", "4", "--hot-keys", "2", "--hot-share", "0.2", "--json", result,
			"--series", series)
		if err != nil {
			t.Fatalf("%s: %v\n%s", workload, err, out)
		}
		wantAll(t, out, "300 keys preloaded in", "2000 operations in", "0 failed, 0 of unknown outcome", "p99.9",
			"keys read:")
		if strings.Contains(out, "errors:") {
			t.Errorf("%s:\n%s", workload, out)
		}
		b, err := os.ReadFile(result)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Workload string
			Ops      int
			Arrivals string
		}
		if err := json.Unmarshal(b, &got); err != nil || got.Workload != workload || got.Ops != 2000 ||
			got.Arrivals != "poisson" {
			t.Errorf("%v: %s", err, b)
		}
		if b, err = os.ReadFile(series); err != nil || !strings.HasPrefix(string(b), "second,ops,") {
			t.Errorf("%v: %s", err, b)
		}
	}
}

func TestLoadChecksAWorkload(t *testing.T) {
	out, err := execute(t, NewLoadCommand(), "", "--endpoint", startRedis(t), "--workload", "ycsb-f", "--keys", "200",
		"--ops", "2000", "--sessions", "4", "--check")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wantAll(t, out, "200 keys preloaded in", "RMW", "final reads of 200 keys", "causal+")
}

func TestLoadDetectsThatUnconnectedRedisServersDiverge(t *testing.T) {
	out, err := execute(t, NewLoadCommand(), "", "--endpoint", "a="+startRedis(t), "--endpoint", "b="+startRedis(t),
		"--ops", "500", "--sessions", "4", "--keys", "5", "--check", "--final-timeout", "1s")
	if !errors.Is(err, command.ErrSilent) {
		t.Fatalf("two stores that never talk passed for one: %v\n%s", err, out)
	}
	wantAll(t, out, "violations of causal+", "diverged", "of the keys of the first one", "the history is in ")
	_, path, _ := strings.Cut(out, "the history is in ")
	if err := os.Remove(strings.TrimSpace(path)); err != nil {
		t.Error(err)
	}
}

func TestLoadUsesAllSidecarsOfADataCenter(t *testing.T) {
	ends := filepath.Join(t.TempDir(), "ends.json")
	b, err := json.Marshal(local.Endpoints{DataCenters: []local.Endpoint{
		{Name: "a", RESP: "h:1", Sidecars: []string{"h:1", "h:2"}}, {Name: "b", RESP: "h:3"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ends, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f := loadFlags{endpointsFile: ends, endpoints: []string{"b=h:4"}}
	all := []load.Endpoint{{Name: "a", Addr: "h:1", DataCenter: "a"}, {Name: "a/2", Addr: "h:2", DataCenter: "a"},
		{Name: "b", Addr: "h:3", DataCenter: "b"}, {Name: "b/2", Addr: "h:4", DataCenter: "b"}}
	if got, err := f.targets(); err != nil || !slices.Equal(got, all) {
		t.Errorf("%v, %v", got, err)
	}
	f.only = []string{"a"}
	if got, err := f.targets(); err != nil || !slices.Equal(got, all[:2]) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestLoadChecksThatADataCenterIsOneRedis(t *testing.T) {
	redis := startRedis(t)
	record := filepath.Join(t.TempDir(), "history.jsonl")
	out, err := execute(t, NewLoadCommand(), "", "--endpoint", "a="+redis, "--endpoint", "a="+redis, "--endpoint",
		"b="+redis, "--endpoint", "b="+redis, "--ops", "4000", "--sessions", "8", "--check", "--promise", "datacenter",
		"--record", record)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wantAll(t, out, "of which 0 (0.0 %) returned something old", "causal+", "keys of 2 data centers",
		"local visibility:", "exact commands:", "0 keys violate it, 0 keys not decided")
	if out, err = execute(t, NewCheckCommand(), "", "--promise", "datacenter", record); err != nil {
		t.Errorf("the recorded history does not check: %v\n%s", err, out)
	}
	wantAll(t, out, "exact commands:")
}

func TestLoadDetectsTwoRedisServersInOneDataCenter(t *testing.T) {
	record := filepath.Join(t.TempDir(), "history.jsonl")
	out, err := execute(t, NewLoadCommand(), "", "--endpoint", "a="+startRedis(t), "--endpoint", "a="+startRedis(t),
		"--ops", "2000", "--sessions", "4", "--check", "--promise", "datacenter", "--final-timeout", "1ms", "--record",
		record)
	if !errors.Is(err, command.ErrSilent) {
		t.Fatalf("two stores passed for one: %v\n%s", err, out)
	}
	wantAll(t, out, "(100.0 %) returned something old", "keys violate it", "not-one-redis: ", "INCR")
	out, err = execute(t, NewCheckCommand(), "", "--promise", "datacenter", record)
	if !errors.Is(err, command.ErrSilent) {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestLoadRefusesInvalidFlagsWithAdvice(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "--endpoints-file"},
		{[]string{"--endpoint", "nowhere"}, "name=host:port"},
		{[]string{"--endpoint", "a=127.0.0.1"}, "name=host:port"},
		{[]string{"--endpoint", "a=127.0.0.1:1", "--only", "b"}, `unknown endpoint "b"`},
		{[]string{"--endpoint", "a=127.0.0.1:1", "--promise", "datacenter"}, "add --check"},
		{[]string{"--endpoint", "a=127.0.0.1:1", "--check", "--promise", "linear"}, "it must be one of [causal datacenter]"},
		{[]string{"--endpoint", "a=127.0.0.1:1", "--check", "--promise", "datacenter", "--workload", "ycsb-a"},
			"--workload cannot be combined"},
		{[]string{"--endpoint", "a=127.0.0.1:1", "--check", "--promise", "datacenter", "--read-ratio", "0.5"},
			"--read-ratio cannot be combined"},
		{[]string{"--endpoint", "a=127.0.0.1:1", "--check", "--record", "-"}, "--record"},
		{[]string{"--endpoint", "a=127.0.0.1:1", "--theta", "2"}, "theta"},
		{[]string{"--endpoint", "127.0.0.1:1", "--workload", "ycsb-z"}, "ycsb-a, ycsb-b"},
		{[]string{"--endpoint", "127.0.0.1:1", "--workload", "missing.yaml"}, "no such file"},
		{[]string{"--endpoint", "127.0.0.1:1", "--workload", "ycsb-a", "--read-ratio", "0.5"}, "write a workload file"},
		{[]string{"--endpoint", "127.0.0.1:1", "--workload", "ycsb-a", "--keys", "0"}, "at least 1"},
		{[]string{"--endpoint", "127.0.0.1:1", "--workload", "ycsb-a", "--load-keys", "-5"}, "0 preloads none"},
		{[]string{"--endpoint", "127.0.0.1:1", "--workload", "ycsb-a", "--load-keys", "20000"},
			"only 10000 keys exist"},
		{[]string{"--endpoint", "127.0.0.1:1", "--workload", "ycsb-a", "--max-gib", "0.001"}, "use fewer keys"},
		{[]string{"--endpoint", "127.0.0.1:1", "--workload", "twitter-23", "--check"}, "a history cannot express incr"},
		{[]string{"--endpoint", "127.0.0.1:1", "--load-keys", "5"}, "requires --workload"},
		{[]string{"--endpoint", "127.0.0.1:1", "--arrivals", "poisson"}, "need a rate"},
		{[]string{"--endpoint", "127.0.0.1:1", "--rate", "5", "--burst-factor", "2"},
			"a length above 0 and a pause above 0"},
		{[]string{"--endpoint", "127.0.0.1:1", "--hot-keys", "2"}, "a share above 0"},
		{[]string{"--endpoint", "127.0.0.1:1"}, "start the store, or name a Redis port of it"},
	} {
		if _, err := execute(t, NewLoadCommand(), "", c.args...); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v", c.args, err)
		}
	}
}
