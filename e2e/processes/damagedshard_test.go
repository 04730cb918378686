package processes_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/lab/redisserver"
)

// fillKeys writes keys with large values, so that a storage has tables and not only a log, and waits until they are
// in every ring.
func fillKeys(t *testing.T, c *goredis.Client, round string) map[string]string {
	t.Helper()
	acknowledged := map[string]string{}
	for i := range 90 {
		key, value := fmt.Sprint("k", i), strings.Repeat(fmt.Sprint(round, i, " "), 9000)
		if i%10 > 0 {
			value = fmt.Sprint(round, i)
		}
		must(t, c.Set(t.Context(), key, value, 0).Err())
		acknowledged[key] = value
	}
	awaitComplete(t, c)
	return acknowledged
}

// lastFile returns the path of the last file of a folder by name.
func lastFile(t *testing.T, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	must(t, err)
	if len(names) == 0 {
		t.Fatalf("there is no %s", pattern)
	}
	return slices.Max(names)
}

// changeFile changes the content of a file.
func changeFile(t *testing.T, path string, how func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, how(b), 0o600))
}

func flipMiddle(b []byte) []byte { b[len(b)/2] ^= 4; return b }
func cutMiddle(b []byte) []byte  { return b[:len(b)/2] }

// restartDamaged starts a process until it has noticed the damage and goes on, as what has started it would do. A value
// in a Redis is read, and found to be damaged, only after the process serves others. It ends at most a few times, and
// never with a dump of its goroutines.
func (d *deployment) restartDamaged(name string) {
	d.t.Helper()
	p := d.procs[name]
	d.start(p)
	starts, noticed := 1, false
	eventually(d.t, name+" to notice and to be ready", func() error {
		select {
		case err := <-p.ended:
			if starts++; starts > 4 {
				d.t.Fatalf("%s ended again: %v", name, err)
			}
			d.start(p)
		default:
		}
		if !noticed { // it is judged ready at a later look: a process that has noticed may be about to end
			log, err := os.ReadFile(p.log)
			noticed = bytes.Contains(log, []byte("has lost data"))
			return errors.Join(err, errors.New("it has not noticed"))
		}
		r, err := p.readiness()
		if err == nil && !r.Ready {
			err = fmt.Errorf("%+v", r)
		}
		return err
	})
	log, err := os.ReadFile(p.log)
	must(d.t, err)
	if bytes.Contains(log, []byte("goroutine ")) {
		d.t.Errorf("%s has dumped its goroutines", name)
	}
}

// Whatever is damaged in the storage of a shard with one member while it is down, it gets everything back from the
// other ring.
func TestAShardWhoseStorageIsDamagedIsRefilled(t *testing.T) {
	d := deploy(t, nil)
	a := d.client("a")
	for _, damage := range []struct {
		what string
		do   func(dir string)
	}{
		{"the end of its log is gone", func(dir string) { changeFile(t, lastFile(t, dir+"/*.log"), cutMiddle) }},
		{"a bit of its log is flipped", func(dir string) { changeFile(t, lastFile(t, dir+"/*.log"), flipMiddle) }},
		{"its log is gone", func(dir string) { must(t, os.Remove(lastFile(t, dir+"/*.log"))) }},
		{"a bit of a table is flipped", func(dir string) { changeFile(t, lastFile(t, dir+"/*.sst"), flipMiddle) }},
		{"its manifest is cut", func(dir string) { changeFile(t, lastFile(t, dir+"/MANIFEST-*"), cutMiddle) }},
	} {
		acknowledged := fillKeys(t, a, damage.what)
		d.kill("a-middleman")
		d.kill("b-middleman") // the keys of one of them are in each
		if damage.what == "a bit of a table is flipped" {
			for _, name := range []string{"a-middleman", "b-middleman"} {
				d.restart(name) // so that what was in the log is in a table
				d.kill(name)
			}
		}
		for _, name := range []string{"a-middleman", "b-middleman"} {
			damage.do(d.path(name))
			must(t, os.Truncate(d.procs[name].log, 0))
			d.restartDamaged(name)
		}
		d.kill("c-middleman") // the ring of a and b has everything by itself
		for _, dc := range []string{"a", "b"} {
			c := d.client(dc)
			eventually(t, "all keys in "+dc+" after "+damage.what, func() error {
				return missing(t.Context(), c, acknowledged)
			})
		}
		d.restart("c-middleman")
	}
}

// In a store with one ring nobody has what is lost: the shard says so and waits for a person, who may accept it.
func TestALossThatNothingRefillsWaitsForAPerson(t *testing.T) {
	d := planDeployment(t, nil, func(c *contract.Config) {
		c.Topology.Rings = c.Topology.Rings[:1]
		c.Topology.Rings[0].DataCenters = []string{"a", "b", "c"}
	})
	d.startAll()
	a := d.client("a")
	acknowledged := fillKeys(t, a, "x")
	name := "a-middleman"
	d.kill(name)
	changeFile(t, lastFile(t, d.path(name)+"/*.log"), cutMiddle)
	accept := filepath.Join(d.path(name), "accept-loss")
	for range 2 {
		d.startUnready(name, "to wait for a person", func(r contract.Readiness) bool {
			return r.State == contract.StateDataLost && strings.Contains(r.Reason, "was acknowledged up to") &&
				strings.Contains(r.Reason, accept)
		})
		d.kill(name)
	}
	must(t, os.WriteFile(accept, nil, 0o600))
	d.restart(name)
	if _, err := os.Stat(accept); !os.IsNotExist(err) {
		t.Errorf("the file that accepts the loss: %v", err)
	}
	found := 0
	for key, want := range acknowledged {
		if got, err := a.Get(t.Context(), key).Result(); err == nil && got == want {
			found++
		}
	}
	if found == 0 || found == len(acknowledged) {
		t.Errorf("%d of %d keys are there", found, len(acknowledged))
	}
	d.kill(name)
	d.restart(name)
}

// A Redis that cuts off the damaged end of its log, as is its default, or holds a value that is not as it was
// written, is refilled.
func TestAShardWhoseRedisIsDamagedIsRefilled(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("no redis-server in PATH: apt-get install redis-server")
	}
	dir := t.TempDir()
	server, err := redisserver.Start(t.Context(), redisserver.Options{Dir: dir})
	must(t, err)
	defer func() { server.Kill() }()
	d := deploy(t, nil)
	d.kill("a-middleman")
	d.file, d.config.Storage = "redis.yaml", contract.Storage{Engine: "redis",
		Redis: contract.RedisStorage{Socket: server.Socket}}
	d.writeConfig()
	p := d.procs["a-middleman"]
	p.args = []string{"middleman", "--config", d.configPath(), "--data-center", "a", "--listen-http", p.http,
		"--drain-timeout", "5s", "--data-dir", d.path("a-middleman.data")}
	d.restart(p.name)
	a := d.client("a")
	for _, damage := range []struct {
		what string
		do   func(log []byte) []byte
	}{
		{"without its end", func(log []byte) []byte { return log[:len(log)*9/10] }},
		{"with a flipped bit", func(log []byte) []byte {
			at := bytes.LastIndex(log, []byte("with a flipped bit"))
			log[at+3] ^= 2
			return log
		}},
	} {
		acknowledged := fillKeys(t, a, damage.what)
		d.kill(p.name)
		must(t, server.Kill())
		changeFile(t, lastFile(t, dir+"/appendonlydir/*.incr.aof"), damage.do)
		server, err = redisserver.Start(t.Context(), redisserver.Options{Dir: dir})
		must(t, err)
		must(t, os.Truncate(p.log, 0))
		d.restartDamaged(p.name)
		d.kill("c-middleman") // the ring of a and b has everything by itself
		eventually(t, "all keys after "+damage.what, func() error { return missing(t.Context(), a, acknowledged) })
		d.restart("c-middleman")
	}
}

// A member of a shard whose storage is damaged gets a copy of the other one's.
func TestAShardMemberWhoseStorageIsDamagedIsCopied(t *testing.T) {
	d := deployShardMembers(t)
	a := d.client("a")
	for _, pattern := range []string{"/*.sst", "/*.log", "/MANIFEST-*"} {
		acknowledged := fillKeys(t, a, pattern)
		name := "a-middleman"
		d.kill(name)
		if pattern == "/*.sst" {
			d.restart(name)
			d.kill(name)
		}
		changeFile(t, lastFile(t, d.path(name)+pattern), cutMiddle)
		must(t, os.Truncate(d.procs[name].log, 0))
		d.restartDamaged(name)
		d.awaitWholeGroup(t, "a", "middleman")
		d.kill("c-middleman")
		d.kill("a-middleman-2") // this member has everything by itself
		eventually(t, "all keys after damage to "+pattern, func() error {
			return missing(t.Context(), a, acknowledged)
		})
		d.restart("a-middleman-2")
		d.restart("c-middleman")
		d.awaitWholeGroup(t, "a", "middleman")
	}
}
