package processes_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/e2e/etcdserver"
	"github.com/causalstore/causalstore/lab/ports"
)

// deployShardMembers starts a deployment with TLS in which the shard of a has two members, and the configuration of
// their group is in a real etcd.
func deployShardMembers(t *testing.T) *deployment {
	t.Helper()
	certs := newCertificates(t)
	ours := certs.authority("ours", "example")
	certs.issueAll(ours)
	certs.trust(ours)
	server := certs.issue(ours, "a", "etcd", "0")
	etcd := etcdserver.Start(t, "--cert-file", server+".crt", "--key-file", server+".key", "--client-cert-auth",
		"--trusted-ca-file", filepath.Join(ours, "authority.crt"))
	d := planDeployment(t, certs, waitForMembers)
	d.addShardMember("a")
	d.seenFrom = func(dc, part string, c *contract.Config) {
		if dc == "a" && part == "middleman" {
			c.Register = &contract.Register{Etcd: &contract.EtcdRegister{Endpoints: []string{etcd.Endpoint}}}
		}
	}
	d.startAll()
	d.awaitWholeGroup(t, "a", "middleman")
	return d
}

// The shard of a has two members, with TLS, and the configuration of their group is in a real etcd. Each member is
// killed under load, once with its log and its storage. Every write and every read succeeds, and no read goes back.
func TestNoWriteOrReadFailsWhileMembersOfAShardAreKilled(t *testing.T) {
	d := deployShardMembers(t)
	d.checkRecoverOfAShard(t, "a-middleman.log.d")
	w := d.writeOften(t, "a", 4)
	defer w.stop()
	r := d.readOften(t, "a", "b", 4)
	defer r.stop()
	w.await(t, 100)
	r.await(t, 100)
	for _, lost := range []struct {
		member string
		wipe   bool
	}{{"a-middleman", false}, {"a-middleman-2", false}, {"a-middleman", true}, {"a-middleman-2", true}} {
		w.slowest()
		r.slowest()
		serving, began := d.serves(lost.member), time.Now()
		d.kill(lost.member)
		other := map[bool]string{true: "a-middleman", false: "a-middleman-2"}[lost.member != "a-middleman"]
		eventually(t, other+" to serve", func() error {
			if !d.serves(other) {
				return errors.New("it does not")
			}
			return nil
		})
		took := time.Since(began)
		w.await(t, 100) // without it
		r.await(t, 100)
		t.Logf(
			"%s was killed (it served: %v, its folders were removed: %v); the other one served after %v; the slowest "+
				"write took %v, the slowest read %v",
			lost.member, serving, lost.wipe, took, w.slowest(), r.slowest())
		if lost.wipe {
			must(t, errors.Join(os.RemoveAll(d.path(lost.member)), os.RemoveAll(d.path(lost.member+".log.d"))))
		}
		d.restart(lost.member)
		d.awaitWholeGroup(t, "a", "middleman")
	}
	t.Run("a member that is told to stop hands over", func(t *testing.T) {
		for _, name := range []string{"a-middleman", "a-middleman-2"} {
			w.slowest()
			r.slowest()
			d.stop(name)
			w.await(t, 100)
			r.await(t, 100)
			t.Logf("%s was stopped; the slowest write took %v, the slowest read %v", name, w.slowest(), r.slowest())
			d.restart(name)
			d.awaitWholeGroup(t, "a", "middleman")
		}
	})
}

// addShardMember gives the shard of a data center a second member.
func (d *deployment) addShardMember(dc string) {
	two := 2
	d.dataCenter(dc).ShardMembers = &two
	at := d.config.Addresses[dc]
	at.Middlemen = append(at.Middlemen, ports.ForTest(d.t))
	d.config.Addresses[dc] = at
	first, second := d.planSecond(dc, "middleman")
	second.args = append(second.args, "--storage-dir", d.path(second.name))
	for _, p := range []*proc{first, second} {
		p.args = append(p.args, "--data-dir", d.path(p.name+".log.d"))
	}
}

// frequentReaders each read what another session counts up, and must never see it go back.
type frequentReaders struct {
	answered, longest atomic.Int64
	stopped           atomic.Bool
	running           sync.WaitGroup
}

// readOften reads in one data center what is written in another one. It is written twice as often as each reads: what
// is read is in flight mostly, so readers are bound.
func (d *deployment) readOften(t *testing.T, dc, from string, readers int) *frequentReaders {
	r := &frequentReaders{}
	writer := d.client(from)
	r.running.Go(func() {
		for n := 1; !r.stopped.Load(); n++ {
			if err := writer.Set(t.Context(), "counter", n, 0).Err(); err != nil {
				t.Errorf("write %d of the counter: %v", n, err)
			}
			time.Sleep(pace / 2)
		}
	})
	for range readers {
		c, last := d.client(dc), 0
		r.running.Go(func() {
			tick := time.NewTicker(pace)
			defer tick.Stop()
			for !r.stopped.Load() {
				<-tick.C
				began := time.Now()
				got, err := c.Get(t.Context(), "counter").Int()
				if errors.Is(err, goredis.Nil) && last == 0 {
					continue // it is not written yet
				}
				if err != nil || got < last {
					t.Errorf("read %d, %v after %d", got, err, last)
				}
				last = max(last, got)
				r.answered.Add(1)
				if took := int64(time.Since(began)); took > r.longest.Load() {
					r.longest.Store(took) // roughly: another reader may do so as well
				}
			}
		})
	}
	return r
}

func (r *frequentReaders) await(t *testing.T, more int64) {
	t.Helper()
	want := r.answered.Load() + more
	eventually(t, fmt.Sprint(more, " more reads"), func() error {
		if n := r.answered.Load(); n < want {
			return fmt.Errorf("%d of %d", n, want)
		}
		return nil
	})
}

func (r *frequentReaders) slowest() time.Duration { return time.Duration(r.longest.Swap(0)) }

func (r *frequentReaders) stop() {
	r.stopped.Store(true)
	r.running.Wait()
}

// Both members of the shard of a are lost under load, with all that is on their disks. Nobody can have it any more, and
// b has a copy, so the shard starts over by itself. Meanwhile no read or write fails, and none goes back. Then both
// lose their logs and keep their storages, so that a person has to decide. A former volume that is put back is emptied,
// and gets a copy.
func TestAShardWhoseMembersAreAllLostGetsItsDataFromAnotherRing(t *testing.T) {
	d := planDeployment(t, nil, waitForMembers)
	etcd := etcdserver.Start(t)
	d.config.Register = &contract.Register{Etcd: &contract.EtcdRegister{Endpoints: []string{etcd.Endpoint}}}
	d.addShardMember("a")
	d.startAll()
	d.awaitWholeGroup(t, "a", "middleman")
	members := []string{"a-middleman", "a-middleman-2"}
	a := d.client("a")
	const keys = 50
	for i := range keys {
		must(t, a.Set(t.Context(), fmt.Sprint("kept", i), i, 0).Err())
	}
	awaitComplete(t, a)
	w := d.writeOften(t, "a", 4)
	r := d.readOften(t, "a", "b", 4)
	w.await(t, 200)
	r.await(t, 200)
	began := time.Now()
	for _, name := range members {
		d.kill(name)
		must(t, errors.Join(os.RemoveAll(d.path(name)), os.RemoveAll(d.path(name+".log.d"))))
	}
	w.await(t, 100)
	for _, name := range members {
		d.start(d.procs[name])
	}
	d.awaitAllReady(members)
	d.awaitWholeGroup(t, "a", "middleman")
	t.Logf(
		"both members were lost, and the shard had its data again after %v; the slowest write took %v, the slowest "+
			"read %v", time.Since(began), w.slowest(), r.slowest())
	w.await(t, 100)
	r.await(t, 100)

	for _, name := range members {
		d.kill(name)
		must(t, os.Rename(d.path(name+".log.d"), d.path(name+".former.log.d")))
		must(t, os.CopyFS(d.path(name+".former"), os.DirFS(d.path(name))))
	}
	for _, name := range members {
		d.start(d.procs[name])
	}
	log := d.path(members[0] + ".log.d")
	eventually(t, "the members to know that all is lost", func() error {
		out, err := d.program("recover", "--data-dir", log)
		if err == nil && !strings.Contains(out, "the data of shard a/0 is lost") {
			err = errors.New(out)
		}
		return err
	})
	if out, err := d.program("recover", "--data-dir", log, "--accept-loss"); err == nil ||
		!strings.Contains(out, "nothing was changed") {
		t.Errorf("a shard is given up without an answer: %s, %v", out, err)
	}
	if out, err := d.program("recover", "--data-dir", log, "--accept-loss", "--confirm", "a/0", "--wait",
		"1m"); err != nil || !strings.Contains(out, "done: it takes writes") {
		t.Fatalf("recover: %s, %v", out, err)
	}
	d.awaitAllReady(members)
	d.awaitWholeGroup(t, "a", "middleman")
	w.await(t, 100)
	r.await(t, 100)

	former := members[1]
	d.kill(former)
	must(t, errors.Join(os.RemoveAll(d.path(former)), os.RemoveAll(d.path(former+".log.d"))))
	must(t, errors.Join(os.Rename(d.path(former+".former"), d.path(former)),
		os.Rename(d.path(former+".former.log.d"), d.path(former+".log.d"))))
	d.start(d.procs[former])
	d.awaitWholeGroup(t, "a", "middleman")
	w.stop()
	r.stop()
	d.kill("b-middleman") // what is read now is in the shard of a
	for i := range keys {
		if got, err := a.Get(t.Context(), fmt.Sprint("kept", i)).Int(); err != nil || got != i {
			t.Errorf("key %d is %d, %v", i, got, err)
		}
	}
}

func (d *deployment) awaitAllReady(names []string) {
	for _, name := range names {
		d.awaitReady(d.procs[name])
	}
}

// checkRecoverOfAShard checks that a person sees the group of a shard, and cannot give it up while it has its data.
func (d *deployment) checkRecoverOfAShard(t *testing.T, name string) {
	t.Helper()
	if out, err := d.program("recover", "--data-dir", d.path(name)); err != nil ||
		!strings.Contains(out, "members [1 2] of [1 2]") {
		t.Errorf("recover: %s, %v", out, err)
	}
	if out, err := d.program("recover", "--data-dir", d.path(name), "--accept-loss", "--confirm", "a/0"); err == nil ||
		!strings.Contains(out, "not known to be lost") {
		t.Errorf("recover --accept-loss: %s, %v", out, err)
	}
}
