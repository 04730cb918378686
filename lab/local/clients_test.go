package local_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/node"
)

// pythonEnv names a Python interpreter that has redis-py; default: python3.
const pythonEnv = "CAUSALSTORE_PYTHON"

// program looks up an external program, or skips the test with a hint.
func program(t *testing.T, name, hint string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed; %s", name, hint)
	}
	return path
}

// output runs a program with a time limit and an input, and returns its output.
func output(t *testing.T, input, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// clients starts a deployment for unmodified clients, and returns the ports of its data centers.
func clients(t *testing.T) map[string]string {
	t.Helper()
	d := start(t, local.Options{Scope: node.ScopePod, Cache: true})
	ports := map[string]string{}
	for _, e := range d.Endpoints() {
		_, ports[e.Name], _ = net.SplitHostPort(e.RESP)
	}
	return ports
}

func TestGoRedisReadsItsWritesInAnotherDataCenter(t *testing.T) {
	ports := clients(t)
	open := func(dc string) *redis.Client {
		c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + ports[dc], ReadTimeout: 30 * time.Second})
		t.Cleanup(func() { c.Close() })
		return c
	}
	ctx := t.Context()
	here, there := open("us-east-1"), open("ap-southeast-2")
	if _, err := here.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range 50 {
			p.Set(ctx, fmt.Sprint("key", i), i, time.Hour)
		}
		p.Incr(ctx, "key0")
		p.Del(ctx, "key1")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	token, err := here.Do(ctx, "CAUSAL", "TOKEN").Text()
	if err != nil {
		t.Fatal(err)
	}
	if err := there.Do(ctx, "CAUSAL", "RESUME", token).Err(); err != nil {
		t.Fatal(err)
	}
	values, err := there.MGet(ctx, "key0", "key1", "key2", "key49").Result()
	if err != nil || fmt.Sprint(values) != "[1 <nil> 2 49]" {
		t.Errorf("read %v, %v", values, err)
	}
	if left, err := there.TTL(ctx, "key2").Result(); err != nil || left < 59*time.Minute || left > time.Hour {
		t.Errorf("time to live of a key: %v, %v; want about an hour", left, err)
	}
}

// tookLong is the line that redis-cli prints after a command that took more than half a second.
var tookLong = regexp.MustCompile(`(?m)^\(\d+\.\d+s\)\n`)

func TestRedisCLIScriptWorksAcrossDataCenters(t *testing.T) {
	cli := program(t, "redis-cli", "apt-get install redis-tools")
	ports := clients(t)
	run := func(dc, script string) string {
		out := output(t, script, cli, "-p", ports[dc], "--no-raw")
		return strings.TrimSpace(tookLong.ReplaceAllString(out, ""))
	}
	got := run("us-east-1", "SET greeting hello\nAPPEND greeting \" world\"\nMSET a 1 b 2\nINCRBY a 41\nDEL b\nCAUSAL WAIT all 20000\n")
	if want := "OK\n(integer) 11\nOK\n(integer) 42\n(integer) 1\n(integer) 1"; got != want {
		t.Errorf("writing printed\n%s\nwant\n%s", got, want)
	}
	got = run("sa-east-1", "GET greeting\nMGET a b\nEXISTS a b greeting\nTYPE a\n")
	if want := "\"hello world\"\n1) \"42\"\n2) (nil)\n(integer) 2\nstring"; got != want {
		t.Errorf("reading printed\n%s\nwant\n%s", got, want)
	}
}

func TestRedisBenchmarkRuns(t *testing.T) {
	benchmark := program(t, "redis-benchmark", "apt-get install redis-tools")
	ports := clients(t)
	out := output(t, "", benchmark, "-p", ports["us-east-1"], "-n", "1000", "-c", "20", "-P", "8", "-r", "500", "-t", "set,get,incr,mset", "--csv")
	for _, name := range []string{"SET", "GET", "INCR", "MSET (10 keys)"} {
		rate := 0.0
		for line := range strings.Lines(out) {
			if fields := strings.Split(strings.TrimSpace(line), `","`); fields[0] == `"`+name && len(fields) > 1 {
				rate, _ = strconv.ParseFloat(fields[1], 64)
			}
		}
		if rate <= 0 {
			t.Errorf("%s: no rate in\n%s", name, out)
		}
	}
}

// pythonScript is a session of redis-py in two data centers.
const pythonScript = `
import sys, redis
here, there = (redis.Redis(port=int(p), decode_responses=True, protocol=int(sys.argv[1])) for p in sys.argv[2:4])
assert here.set("py:a", "1", ex=3600)
assert here.incrby("py:a", 41) == 42
with here.pipeline(transaction=False) as p:
    for i in range(100):
        p.set(f"py:{i}", i)
    p.delete("py:7")
    p.execute()
assert here.execute_command("CAUSAL", "WAIT", "all", 4000) == 1
assert there.get("py:a") == "42"
assert there.mget("py:0", "py:7", "py:99") == ["0", None, "99"]
assert 3590 <= there.ttl("py:a") <= 3600
assert there.set("py:b", "x", nx=True) and not there.set("py:b", "y", nx=True)
assert there.getdel("py:b") == "x" and there.get("py:b") is None
try:
    there.lpush("py:list", 1)
    raise SystemExit("LPUSH is not supported, but was answered")
except redis.ResponseError as e:
    assert "unknown command" in str(e).lower(), e
print("ok")
`

func TestRedisPyWorksUnmodified(t *testing.T) {
	name := os.Getenv(pythonEnv)
	if name == "" {
		name = "python3"
	}
	python := program(t, name, "apt-get install python3 python3-redis")
	if err := exec.Command(python, "-c", "import redis").Run(); err != nil {
		t.Skipf("%s has no redis-py; apt-get install python3-redis, or pip install redis and %s=<that python>", name, pythonEnv)
	}
	ports := clients(t)
	for _, protocol := range []string{"2", "3"} {
		if out := output(t, pythonScript, python, "-", protocol, ports["us-west-2"], ports["eu-west-1"]); strings.TrimSpace(out) != "ok" {
			t.Errorf("RESP%s: %s", protocol, out)
		}
	}
}
