package processes_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/lab/redisserver"
)

// startUnready starts a process and waits until its readiness report is as described.
func (d *deployment) startUnready(name, what string, is func(contract.Readiness) bool) {
	d.t.Helper()
	p := d.procs[name]
	d.start(p)
	eventually(d.t, name+" "+what, func() error {
		r, err := p.readiness()
		if err == nil && (r.Ready || !is(r)) {
			err = fmt.Errorf("%+v", r)
		}
		return err
	})
}

// awaitComplete waits until all rings have what the client has written.
func awaitComplete(t *testing.T, c *goredis.Client) {
	t.Helper()
	must(t, c.Do(t.Context(), "CAUSAL", "WAIT", "ALL", "30000").Err())
}

// While a coordinator is away, a middleman that has lost its data waits for it, and others answer. Then it gets
// everything back.
func TestAMiddlemanWithAnEmptiedStorageIsRefilledFromAnotherRing(t *testing.T) {
	d := deploy(t, nil)
	a := d.client("a")
	const keys = 60
	for i := range keys {
		must(t, a.Set(t.Context(), fmt.Sprint("k", i), i, 0).Err())
	}
	must(t, a.Del(t.Context(), "k59").Err())
	awaitComplete(t, a)
	readAll := func(round string) {
		for _, dc := range []string{"a", "b", "c"} {
			client := d.client(dc)
			for i := range keys - 1 {
				if got, err := client.Get(t.Context(), fmt.Sprint("k", i)).Result(); err != nil ||
					got != fmt.Sprint(i) {
					t.Fatalf("%s: GET k%d in %s: %q, %v", round, i, dc, got, err)
				}
			}
			if n, err := client.Exists(t.Context(), "k59").Result(); err != nil || n != 0 {
				t.Fatalf("%s: EXISTS k59 in %s: %d, %v", round, dc, n, err)
			}
			if set, err := client.SetNX(t.Context(), "k1", "overwritten", 0).Result(); err != nil || set {
				t.Fatalf("%s: SETNX of an existing key in %s: %v, %v", round, dc, set, err)
			}
		}
	}
	d.kill("c-coordinator")
	for _, round := range []string{"with an empty storage", "restarted once more"} {
		d.kill("a-middleman")
		if round == "with an empty storage" {
			must(t, os.RemoveAll(d.path("a-middleman")))
		}
		d.startUnready("a-middleman", "to report that it has lost its data", func(r contract.Readiness) bool {
			return r.State == contract.StateDataLost && strings.Contains(r.Reason, "data lost") &&
				strings.Contains(r.Reason, "coordinator 0 of c")
		})
		if lost, ok := d.procs["a-middleman"].metric("causalstore_data_lost{"); !ok || lost != 1 {
			t.Errorf("%s: causalstore_data_lost is %v, %v", round, lost, ok)
		}
		readAll(round)
	}
	d.start(d.procs["c-coordinator"])
	d.awaitReady(d.procs["c-coordinator"])
	for i := range keys { // while it is refilled
		must(t, a.Set(t.Context(), fmt.Sprint("new", i), i, 0).Err())
	}
	d.awaitReady(d.procs["a-middleman"])
	if lost, ok := d.procs["a-middleman"].metric("causalstore_data_lost{"); !ok || lost != 0 {
		t.Errorf("refilled: causalstore_data_lost is %v, %v", lost, ok)
	}
	awaitComplete(t, a)
	readAll("refilled")
	d.kill("c-middleman") // the ring of a and b has everything by itself
	for i := range keys {
		for _, key := range []string{fmt.Sprint("k", i%(keys-1)), fmt.Sprint("new", i)} {
			eventually(t, "GET "+key+" in a", func() error { return d.client("a").Get(t.Context(), key).Err() })
		}
	}
}

// One half of the data comes from the one shard of the other ring, which is up, the other half from the one that is
// not. In between the middleman is killed, and everything is written on.
func TestAMiddlemanThatIsKilledWhileItCopiesBeginsAgain(t *testing.T) {
	certs := newCertificates(t)
	ca := certs.authority("eu", "eu.example.com")
	certs.issueAll(ca)
	certs.trust(ca)
	d := deployWith(t, certs, nil)
	topo, err := d.config.Topology.Topology()
	must(t, err)
	second := "a-middleman" // of the donors
	if topo.Owner(0, 0).DC == 0 {
		second = "b-middleman"
	}
	b, c := d.client("b"), d.client("c")
	acknowledged := map[string]string{}
	set := func(from, to int) {
		for i := from; i < to; i++ {
			key := fmt.Sprint("k", i%300)
			must(t, b.Set(t.Context(), key, i, 0).Err())
			acknowledged[key] = fmt.Sprint(i)
		}
	}
	set(0, 300)
	awaitComplete(t, b)
	d.kill("c-middleman")
	must(t, os.RemoveAll(d.path("c-middleman")))
	d.kill(second)
	for range 2 {
		d.startUnready("c-middleman", "to copy", func(r contract.Readiness) bool {
			keys, _ := d.procs["c-middleman"].metric("causalstore_middleman_backfill_keys{")
			return r.State == contract.StateDataLost && keys > 50 && strings.Contains(r.Reason, "copied from ring one")
		})
		set(250, 350)
		d.kill("c-middleman")
	}
	d.start(d.procs["c-middleman"])
	d.start(d.procs[second])
	set(350, 450)
	for _, name := range []string{second, "c-middleman"} {
		d.awaitReady(d.procs[name])
	}
	awaitComplete(t, b)
	d.kill("a-middleman") // what c has now, it has itself
	d.kill("b-middleman")
	eventually(t, "everything to be in the refilled ring", func() error {
		return missing(t.Context(), c, acknowledged)
	})
}

func TestACoordinatorWithAnEmptiedLogDoesNotStartAnew(t *testing.T) {
	d := deploy(t, nil)
	a, b := d.client("a"), d.client("b")
	must(t, a.Set(t.Context(), "x", "1", 0).Err())
	awaitComplete(t, a)
	d.kill("a-coordinator")
	must(t, os.RemoveAll(d.path("a-coordinator", "log")))
	d.startUnready("a-coordinator", "to miss the log that its identity belongs to", func(r contract.Readiness) bool {
		return r.State == contract.StateDataLost && strings.Contains(r.Reason, "its folder log is gone or empty")
	})
	d.kill("a-coordinator")
	must(t, os.RemoveAll(d.path("a-coordinator")))
	d.startUnready("a-coordinator", "to report that its log is lost", func(r contract.Readiness) bool {
		return r.State == contract.StateDataLost && r.Membership == contract.MembershipLogLost &&
			strings.Contains(r.Reason, "middleman 0 of")
	})
	eventually(t, "writes of its clients to go through another data center", func() error {
		return d.client("a").Set(t.Context(), "y", "2", 0).Err()
	})
	awaitValue(t, "b", b, "y", "2")
	awaitValue(t, "b", b, "x", "1")

	// A person gives the log up: the coordinator starts over and takes writes again.
	d.giveUp(t, "a-coordinator", "a/0")
	eventually(t, "the coordinator to be ready", func() error {
		r, err := d.procs["a-coordinator"].readiness()
		if err == nil && (!r.Ready || r.Membership != contract.MembershipServing) {
			err = fmt.Errorf("%+v", r)
		}
		return err
	})
	must(t, a.Set(t.Context(), "x", "3", 0).Err())
	awaitComplete(t, a)
	awaitValue(t, "b", b, "x", "3")
}

func TestARedisThatIsEmptiedBehindItsMiddlemanIsNotAnsweredFrom(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("no redis-server in PATH: apt-get install redis-server")
	}
	server, err := redisserver.Start(t.Context(), redisserver.Options{Dir: t.TempDir()})
	must(t, err)
	defer server.Kill()
	d := deploy(t, nil)
	d.kill("a-middleman")
	d.file, d.config.Storage = "redis.yaml", contract.Storage{Engine: "redis",
		Redis: contract.RedisStorage{Socket: server.Socket}}
	d.writeConfig()
	p := d.procs["a-middleman"]
	p.args = []string{"middleman", "--config", d.configPath(), "--data-center", "a", "--listen-http", p.http,
		"--drain-timeout", "5s"}
	d.restart("a-middleman")
	a := d.client("a")
	const keys = 60
	for i := range keys {
		must(t, a.Set(t.Context(), fmt.Sprint("k", i), i, 0).Err())
	}
	awaitComplete(t, a)
	raw := goredis.NewClient(&goredis.Options{Network: "unix", Addr: server.Socket})
	defer raw.Close()
	must(t, raw.FlushAll(t.Context()).Err())
	for i := range keys {
		if got, err := d.client("b").Get(t.Context(), fmt.Sprint("k", i)).Result(); err != nil || got != fmt.Sprint(i) {
			t.Fatalf("GET k%d: %q, %v", i, got, err)
		}
	}
	if err := <-p.ended; err == nil {
		t.Error("the middleman ended without an error")
	}
	d.start(p)
	for i := range keys {
		if got, err := d.client("a").Get(t.Context(), fmt.Sprint("k", i)).Result(); err != nil || got != fmt.Sprint(i) {
			t.Fatalf("GET k%d: %q, %v", i, got, err)
		}
	}
	d.awaitReady(p)
	d.kill("c-middleman") // the ring of a and b has everything by itself
	for i := range keys {
		eventually(t, fmt.Sprintf("GET k%d in the refilled ring", i), func() error {
			return d.client("a").Get(t.Context(), fmt.Sprint("k", i)).Err()
		})
	}
}
