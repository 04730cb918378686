package local_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
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
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
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

// Each transaction adds to two counters, some in the way of TxPipelined, some with WATCH. None is lost, and nobody on
// the sidecar sees the counters differ.
func TestGoRedisTransactionsAreExactOnOneSidecar(t *testing.T) {
	ports := clients(t)
	ctx := t.Context()
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + ports["us-east-1"], ReadTimeout: time.Minute,
		MaxRetries: -1, DB: 7})
	defer c.Close()
	pipelined := func() error {
		_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Incr(ctx, "left")
			p.Incr(ctx, "right")
			return nil
		})
		return err
	}
	watched := func() error {
		for {
			err := c.Watch(ctx, func(tx *redis.Tx) error {
				n, err := tx.Get(ctx, "left").Int()
				if err != nil && !errors.Is(err, redis.Nil) {
					return err
				}
				_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
					p.Set(ctx, "left", n+1, 0)
					p.Set(ctx, "right", n+1, 0)
					return nil
				})
				return err
			}, "left")
			if !errors.Is(err, redis.TxFailedErr) {
				return err
			}
		}
	}
	const writers, each = 6, 8
	var writing, reading sync.WaitGroup
	done := make(chan struct{})
	for i := range writers {
		writing.Go(func() {
			add := pipelined
			if i%2 == 0 {
				add = watched
			}
			for range each {
				if err := add(); err != nil {
					t.Errorf("transaction: %v", err)
				}
			}
		})
	}
	reading.Go(func() {
		// reads as fast as possible would take the processors from the transactions
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			if v, err := c.MGet(ctx, "left", "right").Result(); err != nil || v[0] != v[1] {
				t.Errorf("read %v, %v: in the middle of a transaction", v, err)
				return
			}
		}
	})
	writing.Wait()
	close(done)
	reading.Wait()
	if v, err := c.MGet(ctx, "left", "right").Result(); err != nil ||
		fmt.Sprint(v) != fmt.Sprintf("[%d %[1]d]", writers*each) {
		t.Errorf("counted %v, %v; want %d", v, err, writers*each)
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
	got := run("us-east-1",
		"SET greeting hello\nAPPEND greeting \" world\"\nMSET a 1 b 2\nINCRBY a 41\nDEL b\nCAUSAL WAIT all 20000\n")
	if want := "OK\n(integer) 11\nOK\n(integer) 42\n(integer) 1\n(integer) 1"; got != want {
		t.Errorf("writing printed\n%s\nwant\n%s", got, want)
	}
	got = run("us-east-1", "SELECT 1\nSET greeting hi\nCAUSAL WAIT all 20000\n")
	if want := "OK\nOK\n(integer) 1"; got != want {
		t.Errorf("writing to another database printed\n%s\nwant\n%s", got, want)
	}
	got = run("sa-east-1", "SELECT 1\nGET greeting\nGET a\n")
	if want := "OK\n\"hi\"\n(nil)"; got != want {
		t.Errorf("reading from another database printed\n%s\nwant\n%s", got, want)
	}
	got = run("sa-east-1", "GET greeting\nMGET a b\nEXISTS a b greeting\nTYPE a\n")
	if want := "\"hello world\"\n1) \"42\"\n2) (nil)\n(integer) 2\nstring"; got != want {
		t.Errorf("reading printed\n%s\nwant\n%s", got, want)
	}
}

func TestRedisBenchmarkRuns(t *testing.T) {
	benchmark := program(t, "redis-benchmark", "apt-get install redis-tools")
	ports := clients(t)
	out := output(t, "", benchmark, "-p", ports["us-east-1"], "-n", "320", "-c", "20", "-P", "8", "-r", "500", "-t",
		"set,get,incr,mset", "--csv")
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
with here.pipeline() as p:  # transaction=True is the default
    p.set("py:c", 1).incrby("py:c", 41).get("py:c").mget("py:c", "py:none").setex("py:d", 3600, "x")
    assert p.execute() == [True, 42, "42", ["42", None], True]
    p.set("py:c", "text").incr("py:c").set("py:d", "after")
    assert [type(r) for r in p.execute(raise_on_error=False)] == [bool, redis.ResponseError, bool]
    assert here.get("py:d") == "after"
    p.watch("py:c")
    here.set("py:c", 7)
    p.multi()
    p.set("py:c", 8)
    try:
        p.execute()
        raise SystemExit("a watched key has changed, but the transaction was executed")
    except redis.WatchError:
        pass
def add(p):
    n = int(p.get("py:c"))
    p.multi()
    p.set("py:c", n + 1)
assert here.transaction(add, "py:c") == [True] and here.get("py:c") == "8"
second = redis.Redis(port=int(sys.argv[2]), db=1, decode_responses=True, protocol=int(sys.argv[1]))
assert second.get("py:c") is None and second.set("py:c", "in 1") and here.get("py:c") == "8"
assert second.rename("py:c", "py:e") and second.get("py:e") == "in 1"
assert second.copy("py:e", "py:f", destination_db=0) and not second.copy("py:e", "py:f", destination_db=0)
assert second.copy("py:e", "py:f", 0, True)
here.delete("py:f", "py:g")
assert here.msetnx({"py:f": 1, "py:g": 2}) and not here.msetnx({"py:g": 3, "py:h": 4})
assert here.setrange("py:f", 2, "x") == 3
second.flushdb()
assert second.keys() == [] and not second.exists("py:e") and here.get("py:c") == "8"
names = {f"scan:{i}" for i in range(60)}
with here.pipeline(transaction=False) as p:
    for name in names:
        p.set(name, 1)
    p.execute()
assert set(here.scan_iter("scan:*", count=20)) == names == set(here.keys("scan:*"))  # those that no ring has yet too
here.delete("scan:0")
assert set(here.scan_iter("scan:*")) == names - {"scan:0"}
assert here.execute_command("CAUSAL", "WAIT", "all", 4000) == 1
assert set(there.scan_iter("scan:*", count=1000)) == names - {"scan:0"}
here.delete(*names)
here.flushall()
assert here.dbsize() == 0, here.keys()
for i in range(5):  # each SCAN asks all rings over the WAN
    here.set(f"py:only{i}", 1, ex=100)
    found = list(here.scan_iter(f"py:only{i}"))
    assert found == [f"py:only{i}"], found
    assert here.dbsize() == i + 1, (here.dbsize(), i)
assert here.info("keyspace")["db0"]["expires"] == 5
with here.pipeline(transaction=False) as p:
    for i in range(500):
        p.incr("py:n")
        p.append(f"py:s{i % 7}", "x")
    got = p.execute()
assert got[::2] == list(range(1, 501)) and got[-1] == 72, got[-20:]
assert here.get("py:n") == "500" and here.execute_command("CAUSAL", "WAIT", "all", 4000) == 1 and there.get("py:n") == "500"
here.xgroup_create("py:stream", "g", id="0", mkstream=True)
ids = [here.xadd("py:stream", {"n": n}, maxlen=100) for n in range(10)]
assert ids == sorted(ids, key=lambda i: tuple(map(int, i.split("-")))) and here.xlen("py:stream") == 10
done = 0
for consumer in ["a", "b"] * 5:
    for entries in dict(here.xreadgroup("g", consumer, {"py:stream": ">"}, count=2) or {}).values():
        for id, fields in entries[0] if sys.argv[1] == "3" else entries:
            done += here.xack("py:stream", "g", id)
assert done == 10 and here.xpending("py:stream", "g")["pending"] == 0, done
here.xadd("py:stream", {"n": 10})
assert here.xreadgroup("g", "a", {"py:stream": ">"}) and len(here.xautoclaim("py:stream", "g", "b", 0)[1]) == 1
assert here.execute_command("CAUSAL", "WAIT", "all", 4000) == 1 and there.xlen("py:stream") == 11
try:
    there.publish("py:channel", "text")
    raise SystemExit("PUBLISH is not supported, but was answered")
except redis.ResponseError as e:
    assert "PUBLISH is not supported" in str(e), e
lock = here.lock("py:lock", timeout=60)
assert lock.acquire(blocking=False)
try:
    lock.release()
    raise SystemExit("a lock was released, which needs a script")
except redis.ResponseError as e:
    assert "SCRIPT is not supported" in str(e), e
assert here.get("py:lock") and here.delete("py:lock") == 1
print("ok")
`

func TestRedisPyWorksUnmodified(t *testing.T) {
	name := os.Getenv(pythonEnv)
	if name == "" {
		name = "python3"
	}
	python := program(t, name, "apt-get install python3 python3-redis")
	if err := exec.Command(python, "-c", "import redis").Run(); err != nil {
		t.Skipf("%s has no redis-py; apt-get install python3-redis, or pip install redis and %s=<that python>",
			name, pythonEnv)
	}
	ports := clients(t)
	for _, protocol := range []string{"2", "3"} {
		if out := output(t, pythonScript, python, "-", protocol, ports["us-west-2"],
			ports["eu-west-1"]); strings.TrimSpace(out) != "ok" {
			t.Errorf("RESP%s: %s", protocol, out)
		}
	}
}
