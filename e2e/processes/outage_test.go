package processes_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/outage"
	"github.com/causalstore/causalstore/e2e/etcdserver"
	"github.com/causalstore/causalstore/lab/ports"
	"github.com/causalstore/causalstore/topology"
)

// answersLate is how long an operation may take in these tests: longer than another member takes to serve.
const answersLate = 5 * time.Second

// TestWhatIsSaidToBeSafeIs: kubectl causal doctor says of each pod and node what clients notice while it is away, and
// calls safe what fails no operation. Here one process after the other is killed in stores of several layouts, and
// operations fail exactly if that was said.
func TestWhatIsSaidToBeSafeIs(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *deployment) outage.Store{
		"one data center":    oneDataCenter,
		"two rings":          func(_ *testing.T, d *deployment) outage.Store { return d.layout() },
		"groups of two in a": twoMembers,
	} {
		t.Run(name, func(t *testing.T) {
			d := planDeployment(t, nil, func(c *contract.Config) {
				c.Session.ReadTimeout, c.Session.WriteTimeout = contract.Duration(answersLate),
					contract.Duration(answersLate)
			})
			store := change(t, d)
			d.startAll()
			if n := d.failedWrites(t); n > 0 {
				t.Fatalf("%d writes failed while all processes were there", n)
			}
			for _, name := range d.killable() {
				d.awaitGroups(t)
				e := outage.Of(store, []outage.Process{processOf(name)})
				d.kill(name)
				reads, writes := d.failedReads(t), d.failedWrites(t)
				if said := len(e.Unreadable) > 0; said != (reads > 0) {
					t.Errorf("%s is away: %s; of %d reads %d failed", name, &e, testKeys, reads)
				}
				if e.Unwritable != (writes > 0) {
					t.Errorf("%s is away: %s; of %d writes %d failed", name, &e, testKeys, writes)
				}
				t.Logf("%s is away: %s; of %d reads %d failed, of as many writes %d", name, &e, testKeys, reads, writes)
				d.restart(name)
			}
		})
	}
}

// oneDataCenter makes a deployment a single data center with two shards.
func oneDataCenter(t *testing.T, d *deployment) outage.Store {
	two := 2
	d.config.Topology = &topology.File{Epoch: 7, DataCenters: []topology.FileDataCenter{{Name: "a", Shards: &two}},
		Rings: []topology.FileRing{{Name: "one", DataCenters: []string{"a"}}}}
	at := d.config.Addresses["a"]
	at.Middlemen = append(at.Middlemen, ports.ForTest(t))
	d.config.Addresses = map[string]contract.Addresses{"a": at}
	for name := range d.procs {
		if !strings.HasPrefix(name, "a-") {
			delete(d.procs, name)
		}
	}
	first := d.procs["a-middleman"]
	d.plan("a", "middleman")
	second := d.procs["a-middleman"]
	second.name, second.log = "a-middleman-shard-1", d.path("a-middleman-shard-1.log")
	second.args[slices.Index(second.args, d.path("a-middleman"))] = d.path(second.name)
	second.args = append(second.args, "--index", "1")
	d.procs["a-middleman"], d.procs[second.name] = first, second
	return d.layout()
}

// twoMembers gives the coordinator and the shard of a two members each.
func twoMembers(t *testing.T, d *deployment) outage.Store {
	d.addMember("a", etcdserver.Start(t).Endpoint)
	d.addShardMember("a")
	return d.layout()
}

// layout returns what the operator knows of the deployment.
func (d *deployment) layout() outage.Store {
	var s outage.Store
	for i := range d.config.Topology.DataCenters {
		c := d.config.Topology.DataCenters[i].Counts()
		s.DataCenters = append(s.DataCenters, outage.DataCenter{Name: c.Name, Coordinators: c.Coordinators,
			CoordinatorMembers: c.DesiredMembers(topology.Coordinator),
			Shards:             c.Shards, ShardMembers: c.DesiredMembers(topology.Middleman), Caches: c.Caches})
	}
	for _, r := range d.config.Topology.Rings {
		s.Rings = append(s.Rings, r.DataCenters)
	}
	return s
}

// killable returns the processes but sidecars, in order.
func (d *deployment) killable() (names []string) {
	for name := range d.procs {
		if !strings.HasSuffix(name, "-sidecar") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// processOf returns what a process of the deployment is.
func processOf(name string) outage.Process {
	dc, part, _ := strings.Cut(name, "-")
	part, more, _ := strings.Cut(part, "-")
	p := outage.Process{DataCenter: dc, Kind: outage.Kind(part), Member: 1}
	if p.Kind == "middleman" {
		p.Kind = outage.Shard
	}
	switch more {
	case "2":
		p.Member = 2
	case "shard-1":
		p.Index = 1
	}
	return p
}

// awaitGroups waits until groups with two members are whole.
func (d *deployment) awaitGroups(t *testing.T) {
	t.Helper()
	for _, part := range []string{"coordinator", "middleman"} {
		if d.procs["a-"+part+"-2"] != nil {
			d.awaitWholeGroup(t, "a", part)
		}
	}
}

// testKeys is how many keys are read and written. They are in all shards.
const testKeys = 24

// failedReads reads all keys in a, each in a session of its own, and returns how many reads had no answer.
func (d *deployment) failedReads(t *testing.T) int {
	return d.each(func(c *goredis.Client, key string) error {
		err := c.Get(t.Context(), key).Err()
		if errors.Is(err, goredis.Nil) {
			t.Errorf("key %s is missing", key)
		}
		return err
	})
}

// failedWrites writes all keys in a, each in a session of its own, and returns how many writes failed.
func (d *deployment) failedWrites(t *testing.T) int {
	return d.each(func(c *goredis.Client, key string) error { return c.Set(t.Context(), key, "v", 0).Err() })
}

func (d *deployment) each(do func(c *goredis.Client, key string) error) int {
	var all sync.WaitGroup
	var failed atomic.Int64
	for i := range testKeys {
		all.Go(func() {
			c := d.client("a")
			defer c.Close()
			if do(c, fmt.Sprintf("key-%d", i)) != nil {
				failed.Add(1)
			}
		})
	}
	all.Wait()
	return int(failed.Load())
}
