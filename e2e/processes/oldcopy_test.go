package processes_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/lab/redisserver"
)

// copyFolders copies folders to a temporary one, and returns what puts these copies in place of what is there.
func copyFolders(t *testing.T, dirs ...string) (putBack func()) {
	t.Helper()
	kept := t.TempDir()
	place := func(to, from string) {
		t.Helper()
		must(t, os.RemoveAll(to))
		must(t, os.CopyFS(to, os.DirFS(from)))
	}
	for i, dir := range dirs {
		place(filepath.Join(kept, fmt.Sprint(i)), dir)
	}
	return func() {
		for i, dir := range dirs {
			place(dir, filepath.Join(kept, fmt.Sprint(i)))
		}
	}
}

// restartOld starts a process on an older copy of its storage, and waits until it has noticed and is ready again.
func (d *deployment) restartOld(name string) {
	d.t.Helper()
	p := d.procs[name]
	must(d.t, os.Truncate(p.log, 0))
	d.restart(name)
	log, err := os.ReadFile(p.log)
	must(d.t, err)
	if !bytes.Contains(log, []byte("the storage is an older copy of what the shard had")) {
		d.t.Errorf("%s serves an older copy", name)
	}
}

// An older copy of the storage of a shard, with all that is kept beside it, is a consistent storage. Coordinators know
// that there was more.
func TestAnOlderCopyOfAStorageIsNotServed(t *testing.T) {
	d := deploy(t, nil)
	a := d.client("a")
	names := []string{"a-middleman", "b-middleman"} // the keys of one of them are in each
	var putBack []func()
	fillKeys(t, a, "old")
	for _, name := range names {
		d.kill(name)
		putBack = append(putBack, copyFolders(t, d.path(name)))
		d.restart(name)
	}
	acknowledged := fillKeys(t, a, "new")
	for round := range 2 { // the same copy comes back once more
		for i, name := range names {
			d.kill(name)
			putBack[i]()
			d.restartOld(name)
		}
		d.kill("c-middleman") // the ring of a and b has everything by itself
		for _, dc := range []string{"a", "b"} {
			c := d.client(dc)
			eventually(t, fmt.Sprint("all keys in ", dc, ", round ", round), func() error {
				return missing(t.Context(), c, acknowledged)
			})
		}
		d.restart("c-middleman")
	}

	// Coordinators remember it over restarts.
	for _, name := range names {
		d.kill(name)
	}
	for _, dc := range []string{"a", "b", "c"} {
		d.kill(dc + "-coordinator")
		d.restart(dc + "-coordinator")
	}
	for i, name := range names {
		putBack[i]()
		d.restartOld(name)
	}

	// What has lost nothing is not taken for an older copy, also when nobody but the coordinator of its data center
	// answers.
	for _, dc := range []string{"b", "c"} {
		d.kill(dc + "-coordinator")
	}
	d.kill("a-middleman")
	must(t, os.Truncate(d.procs["a-middleman"].log, 0))
	d.restart("a-middleman")
	if log, err := os.ReadFile(d.procs["a-middleman"].log); err != nil || bytes.Contains(log, []byte("older copy")) {
		t.Errorf("a storage that has lost nothing: %v, %s", err, log)
	}
}

// A Redis that was rolled back together with the folder of its middleman.
func TestAnOlderCopyOfARedisIsNotServed(t *testing.T) {
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
	fillKeys(t, a, "old")
	d.kill(p.name)
	must(t, server.Kill())
	putBack := copyFolders(t, filepath.Join(dir, "appendonlydir"), d.path("a-middleman.data"))
	restart := func() {
		server, err = redisserver.Start(t.Context(), redisserver.Options{Dir: dir})
		must(t, err)
	}
	restart()
	d.restart(p.name)
	acknowledged := fillKeys(t, a, "new")
	d.kill(p.name)
	must(t, server.Kill())
	putBack()
	restart()
	d.restartOld(p.name)
	d.kill("c-middleman")
	eventually(t, "all keys", func() error { return missing(t.Context(), a, acknowledged) })
}

// In a store with one ring nobody has what an older copy lacks: the shard says so and waits for a person, who may
// accept it.
func TestAnOlderCopyThatNothingRefillsWaitsForAPerson(t *testing.T) {
	d := planDeployment(t, nil, func(c *contract.Config) {
		c.Topology.Rings = c.Topology.Rings[:1]
		c.Topology.Rings[0].DataCenters = []string{"a", "b", "c"}
	})
	d.startAll()
	a := d.client("a")
	old := fillKeys(t, a, "old")
	name := "a-middleman"
	d.kill(name)
	putBack := copyFolders(t, d.path(name))
	d.restart(name)
	acknowledged := fillKeys(t, a, "new")
	d.kill(name)
	putBack()
	for range 2 {
		d.startUnready(name, "to wait for a person", func(r contract.Readiness) bool {
			return r.State == contract.StateDataLost && strings.Contains(r.Reason, "no other ring")
		})
		d.kill(name)
	}
	must(t, os.WriteFile(d.path(name, "accept-loss"), nil, 0o600))
	d.restart(name)
	if _, err := os.Stat(d.path(name, "accept-loss")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file that accepts the loss: %v", err)
	}
	before, since := 0, 0
	for key := range acknowledged {
		switch got, err := a.Get(t.Context(), key).Result(); {
		case err != nil:
		case got == old[key]:
			before++
		case got == acknowledged[key]:
			since++
		}
	}
	if before == 0 || since == 0 {
		t.Errorf("%d values from before and %d since", before, since)
	}
	d.kill(name)
	d.restart(name) // it stays accepted
}
