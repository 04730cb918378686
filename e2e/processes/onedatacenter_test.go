package processes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/e2e/etcdserver"
	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/lab/load"
	"github.com/causalstore/causalstore/lab/ports"
)

// The coordinator of a has two members. While clients of both sidecars of a, and of both of c, use the same keys, the
// member that serves is killed and paused, and so is what the sidecars read from. What is answered is what one Redis in
// each data center would answer.
func TestTheSidecarsOfADataCenterAreOneRedisWhileItsProcessesAreKilled(t *testing.T) {
	certs := newCertificates(t)
	ca := certs.authority("eu", "eu.example.com")
	certs.issueAll(ca)
	certs.trust(ca)
	server := certs.issue(ca, "a", "etcd", "0")
	etcd := etcdserver.Start(t, "--cert-file", server+".crt", "--key-file", server+".key", "--client-cert-auth",
		"--trusted-ca-file", filepath.Join(ca, "authority.crt"))
	d := planDeployment(t, certs, oneRedis)
	d.addMember("a", etcd.Endpoint)
	register := d.config.Register
	d.config.Register = nil
	d.seenFrom = func(dc, part string, c *contract.Config) {
		if dc == "a" && part == "coordinator" {
			c.Register = register
		}
	}
	d.addSidecar("a")
	d.addSidecar("c")
	d.startAll()
	d.awaitWhole(t, "a")

	for range rounds(t) {
		l := d.startOneRedis()
		for _, step := range []func(){
			func() { d.killServing(t, "a") },
			func() { d.pauseServing(t, "a", 2*time.Second) },
			func() { d.kill("a-cache"); d.restart("a-cache") },
			func() { d.killServing(t, "a") },
			func() { d.kill("c-middleman"); d.restart("c-middleman") },
			func() { d.kill("a-sidecar-2"); d.restart("a-sidecar-2") },
		} {
			l.more(t, 100)
			step()
		}
		l.more(t, 100)
		l.judge(t)
	}
}

// rounds returns how many loads are run and judged, one after the other: as CAUSALSTORE_ROUNDS says, or once.
func rounds(t *testing.T) int {
	t.Helper()
	text := os.Getenv("CAUSALSTORE_ROUNDS")
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	must(t, err)
	return n
}

// Without another member, its keys wait until the coordinator is back, or the operations fail. None is answered
// wrongly.
func TestTheSidecarsOfADataCenterAreOneRedisWhileItsOnlyCoordinatorIsKilled(t *testing.T) {
	d := planDeployment(t, nil, oneRedis)
	d.addSidecar("a")
	d.addSidecar("c")
	d.startAll()
	d.startOneRedis().judgeWhileKilled(t, d, "a-coordinator", "c-coordinator", "a-coordinator")
}

// Each of two coordinators is the home of half of the keys. While one is away, the keys of the other one are answered.
func TestTheSidecarsOfADataCenterWithTwoHomesAreOneRedis(t *testing.T) {
	d := planDeployment(t, nil, oneRedis)
	for _, dc := range []string{"a", "c"} {
		d.addHome(dc)
		d.addSidecar(dc)
	}
	d.startAll()
	d.startOneRedis().judgeWhileKilled(t, d, "a-coordinator-1", "c-coordinator", "a-coordinator")
}

// The number of homes of b changes while clients of both of its sidecars use the same keys.
func TestADataCenterIsOneRedisWhileTheNumberOfItsHomesChanges(t *testing.T) {
	d := planDeployment(t, nil, oneRedis)
	d.addSidecar("b")
	d.startAll()
	second := d.planSecondCoordinator("b")
	l := d.startOneRedis()
	for range 2 {
		l.more(t, 100)
		d.setCoordinators(2, 0)
		d.start(second)
		d.awaitMembership(t, second.name, "serving")
		if !d.tookPuts(t, second) {
			t.Errorf("%s has taken no put", second.name)
		}
		l.more(t, 100)
		d.setCoordinators(1, 2)
		d.awaitMembership(t, second.name, "left")
		d.stop(second.name)
		d.setCoordinators(1, 0)
	}
	l.more(t, 100)
	l.judge(t)
}

// addHome gives a data center a second coordinator.
func (d *deployment) addHome(dc string) {
	n, at := 2, d.config.Addresses[dc]
	for i := range d.config.Topology.DataCenters {
		if d.config.Topology.DataCenters[i].Name == dc {
			d.config.Topology.DataCenters[i].Coordinators = &n
		}
	}
	at.Coordinators = append(at.Coordinators, ports.ForTest(d.t))
	d.config.Addresses[dc] = at
	d.planSecondCoordinator(dc)
}

func oneRedis(c *contract.Config) {
	c.Session = contract.Session{Scope: contract.ScopeDataCenter}
	c.NearCopies.MaxBytes = new(contract.Bytes(1 << 20))
	waitLong(c)
}

// addSidecar gives a data center a second sidecar.
func (d *deployment) addSidecar(dc string) {
	first := d.procs[dc+"-sidecar"]
	d.plan(dc, "sidecar")
	second := d.procs[first.name]
	second.name, second.log = first.name+"-2", d.path(first.name+"-2.log")
	d.procs[first.name], d.procs[second.name] = first, second
}

// servingMember returns the member of the coordinator of a data center that serves.
func (d *deployment) servingMember(t *testing.T, dc string) (name string) {
	t.Helper()
	eventually(t, "a member of the coordinator of "+dc+" to serve", func() error {
		for _, name = range []string{dc + "-coordinator", dc + "-coordinator-2"} {
			if d.serves(name) {
				return nil
			}
		}
		return errors.New("none does")
	})
	return name
}

func (d *deployment) killServing(t *testing.T, dc string) {
	t.Helper()
	d.awaitWhole(t, dc)
	name := d.servingMember(t, dc)
	d.kill(name)
	d.servingMember(t, dc)
	d.restart(name)
}

func (d *deployment) pauseServing(t *testing.T, dc string, length time.Duration) {
	t.Helper()
	d.awaitWhole(t, dc)
	p := d.procs[d.servingMember(t, dc)].cmd.Process
	must(t, p.Signal(syscall.SIGSTOP))
	time.Sleep(length)
	must(t, p.Signal(syscall.SIGCONT))
}

// oneRedisLoad uses all sidecars of all data centers, on shared keys.
type oneRedisLoad struct {
	stop     context.CancelFunc
	answered atomic.Int64
	ended    chan error
	result   load.Result
	history  bytes.Buffer
}

func (d *deployment) startOneRedis() *oneRedisLoad { return d.startPromised(load.DataCenter) }

// startPromised uses all sidecars, and takes what they promise for given.
func (d *deployment) startPromised(promise load.Promise) *oneRedisLoad {
	l := &oneRedisLoad{ended: make(chan error, 1)}
	c := load.Config{Promise: promise, Sessions: 10, Rate: 300, Duration: 3 * patience, Timeout: patience,
		CaptureVersions: true, FinalReads: true, FinalTimeout: patience, Seed: 1, Record: &l.history}
	for _, name := range slices.Sorted(maps.Keys(d.procs)) {
		if p := d.procs[name]; p.redis != "" {
			dc, _, _ := strings.Cut(name, "-")
			c.Endpoints = append(c.Endpoints, load.Endpoint{Name: name, Addr: p.redis, DataCenter: dc})
		}
	}
	c.Observe = func(o load.Observation) {
		if o.Error == "" {
			l.answered.Add(1)
		}
	}
	ctx, stop := context.WithCancel(d.t.Context())
	l.stop = stop
	go func() {
		var err error
		l.result, err = load.Run(ctx, c)
		l.ended <- err
	}()
	return l
}

// judgeWhileKilled kills parts of a deployment one after the other, ends the load, and judges its history.
func (l *oneRedisLoad) judgeWhileKilled(t *testing.T, d *deployment, names ...string) {
	t.Helper()
	for _, name := range names {
		l.more(t, 100)
		d.kill(name)
		time.Sleep(200 * time.Millisecond) // operations arrive meanwhile
		d.restart(name)
	}
	l.more(t, 100)
	l.judge(t)
}

// more waits until n more operations were answered.
func (l *oneRedisLoad) more(t *testing.T, n int64) {
	t.Helper()
	from := l.answered.Load()
	eventually(t, "operations to be answered", func() error {
		if now := l.answered.Load(); now < from+n {
			return fmt.Errorf("%d more of %d", now-from, n)
		}
		return nil
	})
}

// judgeCausal ends the load and judges whether its history is causal.
func (l *oneRedisLoad) judgeCausal(t *testing.T) history.History {
	t.Helper()
	l.stop()
	err := <-l.ended
	t.Logf("%s", l.result.String())
	h, readErr := history.ReadAll(&l.history)
	must(t, errors.Join(err, readErr))
	if r := history.Check(h, history.Options{AddsUp: true}); !r.OK() {
		t.Errorf("%s", r.String())
	}
	return h
}

// judge ends the load and judges its history.
func (l *oneRedisLoad) judge(t *testing.T) {
	t.Helper()
	l.judgeWithout(t, func(string) bool { return false })
}

// judgeWithout is judge; keys that are left out are not judged by what one Redis does. Sidecars of an earlier version
// cannot read numbers to which others have added.
func (l *oneRedisLoad) judgeWithout(t *testing.T, isLeftOut func(key string) bool) {
	t.Helper()
	isMixed := isLeftOut(":n:all:")
	h := l.judgeCausal(t)
	h = slices.DeleteFunc(h, func(op history.Op) bool { return isLeftOut(op.Key) })
	for i := range h {
		h[i].Reads = slices.DeleteFunc(h[i].Reads, func(r history.Read) bool { return isLeftOut(r.Key) })
	}
	r, err := history.CheckDataCenters(h, history.DataCenterOptions{AddsUp: true})
	must(t, err)
	t.Logf("%s", r.String())
	if err := r.Err(); err != nil {
		t.Error("not one Redis in each data center")
	}
	in := l.result.Inside
	t.Logf("inside data centers: %+v", *in)
	if in.OldPairs > 0 || in.Pairs == 0 || in.Counted < in.Added || in.Counted > in.Added+in.AddedUnknown ||
		in.Unread > 0 && !isMixed {
		t.Error("a pair was old, or something that was added is not counted")
	}
	if f := l.result.Final; f == nil || !f.Settled() {
		t.Errorf("final reads: %+v", f)
	}
}
