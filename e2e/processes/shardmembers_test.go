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
)

// The shard of a has two members, with TLS, and the configuration of their group is in a real etcd. Each member is killed under load, once with its
// log and its storage. Every write and every read succeeds, and no read goes back.
func TestNoWriteOrReadFailsWhileMembersOfAShardAreKilled(t *testing.T) {
	certs := newCertificates(t)
	ours := certs.authority("ours", "example")
	certs.issueAll(ours)
	certs.trust(ours)
	server := certs.issue(ours, "a", "etcd", "0")
	etcd := etcdserver.Start(t, "--cert-file", server+".crt", "--key-file", server+".key", "--client-cert-auth", "--trusted-ca-file", filepath.Join(ours, "authority.crt"))
	d := planDeployment(t, certs, waitForCoordinators)
	d.addShardMember("a")
	d.seenFrom = func(dc, part string, c *contract.Config) {
		if dc == "a" && part == "middleman" {
			c.Register = &contract.Register{Etcd: &contract.EtcdRegister{Endpoints: []string{etcd.Endpoint}}}
		}
	}
	d.startAll()
	d.awaitWholeGroup(t, "a", "middleman")
	d.checkRecoverOfAShard(t, "a-middleman.log.d")
	w := d.writeOften(t, "a", 4)
	defer w.stop()
	r := d.readOften(t, "a", "b", 4)
	defer r.stop()
	w.await(t, 300)
	r.await(t, 300)
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
		w.await(t, 300) // without it
		r.await(t, 300)
		t.Logf("%s was killed (it served: %v, its folders were removed: %v); the other one served after %v; the slowest write took %v, the slowest read %v",
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
			w.await(t, 300)
			r.await(t, 300)
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
	at.Middlemen = append(at.Middlemen, d.ports.take(d.t))
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

// readOften reads in one data center what is written in another one. What is read is in flight mostly, so readers are bound.
func (d *deployment) readOften(t *testing.T, dc, from string, readers int) *frequentReaders {
	r := &frequentReaders{}
	writer := d.client(from)
	r.running.Go(func() {
		for n := 1; !r.stopped.Load(); n++ {
			if err := writer.Set(t.Context(), "counter", n, 0).Err(); err != nil {
				t.Errorf("write %d of the counter: %v", n, err)
			}
			time.Sleep(5 * time.Millisecond) // the load
		}
	})
	for range readers {
		c, last := d.client(dc), 0
		r.running.Go(func() {
			for !r.stopped.Load() {
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

// checkRecoverOfAShard checks that a person sees the group of a shard, and cannot give it up.
func (d *deployment) checkRecoverOfAShard(t *testing.T, name string) {
	t.Helper()
	if out, err := d.program("recover", "--data-dir", d.path(name)); err != nil || !strings.Contains(out, "members [1 2] of [1 2]") {
		t.Errorf("recover: %s, %v", out, err)
	}
	if out, err := d.program("recover", "--data-dir", d.path(name), "--accept-loss"); err == nil || !strings.Contains(out, "cannot be given up") {
		t.Errorf("recover --accept-loss: %s, %v", out, err)
	}
}
