package processes_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/contract"
)

// sides are two regions, a with b and c, that can be cut off from each other, and told different things.
type sides struct {
	*deployment
	eu, us string // their authorities
	// exclusions are what the two are told; keeps names the data centers that keep their data.
	exclusions map[string][]string // by region
	keeps      []string
	epoch      uint64
}

func regionOf(dc string) string {
	if dc == "c" {
		return "us"
	}
	return "eu"
}

func deploySides(t *testing.T) *sides {
	t.Helper()
	certs := newCertificates(t)
	s := &sides{eu: certs.authority("eu", "eu"), us: certs.authority("us", "us"), exclusions: map[string][]string{},
		epoch: 7}
	certs.issueDC(s.eu, "a")
	certs.issueDC(s.eu, "b")
	certs.issueDC(s.us, "c")
	s.deployment = planDeployment(t, certs, waitLong)
	s.seenFrom = func(dc, _ string, c *contract.Config) {
		file := *c.Topology
		file.Epoch, file.DataCenters = s.epoch, slices.Clone(file.DataCenters)
		one := 1
		for i := range file.DataCenters {
			d := &file.DataCenters[i]
			if slices.Contains(s.exclusions[regionOf(dc)], d.Name) {
				d.Exclusions, d.ForceExclusion = &one, &one
			}
			if slices.Contains(s.keeps, d.Name) {
				d.KeepsData = &one
			}
		}
		c.Topology = &file
	}
	s.join(true)
	s.startAll()
	return s
}

// join makes the two regions trust each other, or not: then links end within seconds.
func (s *sides) join(joined bool) {
	s.t.Helper()
	for dc, own := range map[string]string{"a": s.eu, "b": s.eu, "c": s.us} {
		trusted := map[string][]string{}
		for other, authority := range map[string]string{"a": s.eu, "b": s.eu, "c": s.us} {
			if joined || authority == own {
				trusted[other] = []string{authority}
			}
		}
		s.certs.trustIn(dc, trusted)
	}
}

// tell gives all processes a topology of the next epoch.
func (s *sides) tell(change func()) {
	s.t.Helper()
	change()
	s.epoch++
	s.writeConfig()
	for name, p := range s.procs {
		if p.cmd == nil {
			continue
		}
		eventually(s.t, name+" to apply the topology", func() error {
			r, err := p.readiness()
			if err == nil && r.Epoch != s.epoch {
				err = fmt.Errorf("epoch %d: %s", r.Epoch, r.ConfigProblem)
			}
			return err
		})
	}
}

func (s *sides) awaitIncomplete(dc string, most float64) {
	s.t.Helper()
	eventually(s.t, "the writes of "+dc+" to be complete", func() error {
		n, ok := s.procs[dc+"-coordinator"].metric("causalstore_coordinator_incomplete_writes")
		if !ok || n > most {
			return fmt.Errorf("%v are not", n)
		}
		return nil
	})
}

// set writes keys through a data center and remembers them.
func (s *sides) set(c *goredis.Client, into map[string]string, prefix string, n int) {
	s.t.Helper()
	for i := range n {
		key, value := fmt.Sprint(prefix, i), fmt.Sprint(prefix, "-", i)
		must(s.t, c.Set(s.t.Context(), key, value, 0).Err())
		into[key] = value
	}
}

// all returns what every key has in a data center.
func (s *sides) all(dc string) (map[string]string, error) {
	c := s.client(dc)
	found := map[string]string{}
	keys, err := c.Keys(s.t.Context(), "*").Result()
	for _, key := range keys {
		if err == nil {
			found[key], err = c.Get(s.t.Context(), key).Result()
		}
	}
	return found, err
}

// Both sides of a cut exclude the other one, and both configurations are joined after the cut. Nobody answers until a
// person has said whose data count. Then everything is there that these have, that was complete before the cut, or that
// a coordinator of either side still has; and all data centers have the same.
func TestTwoSidesThatHaveExcludedEachOtherGoOnWithTheDataOfOne(t *testing.T) {
	for name, keeps := range map[string][]string{"one ring": {"c"}, "a ring of two data centers": {"a", "b"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			excludeEachOther(t, keeps)
		})
	}
}

func excludeEachOther(t *testing.T, keeps []string) {
	s := deploySides(t)
	east, west := s.client("a"), s.client("c")
	want, completeOf := map[string]string{}, map[string]map[string]string{"eu": {}, "us": {}}
	s.set(east, want, "before", 30)
	awaitComplete(t, east)

	s.join(false)
	s.awaitPeer("a", "c", contract.PeerNotTrusted)
	s.awaitPeer("c", "a", contract.PeerNotTrusted)
	s.set(east, completeOf["eu"], "east", 30)
	s.set(west, completeOf["us"], "west", 30)
	s.tell(func() { s.exclusions = map[string][]string{"eu": {"c"}, "us": {"a", "b"}} })
	for _, dc := range []string{"a", "c"} {
		s.awaitIncomplete(dc, 0)
	}
	s.set(east, completeOf["eu"], "east-alone", 30)
	s.set(west, completeOf["us"], "west-alone", 30)
	for _, dc := range []string{"a", "c"} {
		s.awaitIncomplete(dc, 0)
	}
	// What coordinators still have when the cut is over.
	for _, shard := range []string{"a-middleman", "b-middleman", "c-middleman"} {
		s.kill(shard)
	}
	s.set(east, want, "east-late", 10)
	s.set(west, want, "west-late", 10)

	both := []string{"a", "b", "c"}
	s.tell(func() {
		s.join(true)
		s.exclusions = map[string][]string{"eu": both, "us": both}
	})
	shards := []string{"a-middleman", "b-middleman", "c-middleman"}
	for _, shard := range shards {
		s.start(s.procs[shard])
	}
	eventually(t, "all shards to be withdrawn", func() error {
		for _, shard := range shards {
			if r, err := s.procs[shard].readiness(); err != nil || r.Ready || r.State != contract.StateWithdrawn {
				return fmt.Errorf("%s: %+v, %w", shard, r, err)
			}
		}
		return nil
	})
	for _, shard := range shards {
		r, err := s.procs[shard].readiness()
		must(t, err)
		t.Logf("%s: %s", shard, r.Reason)
	}
	time.Sleep(3 * time.Second) // nobody goes on by itself
	for _, shard := range shards {
		if r, err := s.procs[shard].readiness(); err != nil || r.Ready {
			t.Errorf("%s goes on by itself: %+v, %v", shard, r, err)
		}
	}
	s.tell(func() { s.keeps = keeps })
	for _, p := range s.procs {
		s.awaitReady(p)
	}
	for _, dc := range both {
		s.awaitIncomplete(dc, 0)
	}
	for key, value := range completeOf[regionOf(keeps[0])] {
		want[key] = value
	}
	for _, dc := range both {
		eventually(t, fmt.Sprintf("%d writes in %s", len(want), dc), func() error {
			return missing(t.Context(), s.client(dc), want)
		})
	}
	s.tell(func() { s.keeps = nil })
	s.set(east, want, "after", 10)
	awaitComplete(t, east)
	first, err := s.all("a")
	must(t, err)
	for _, dc := range []string{"b", "c"} {
		eventually(t, dc+" to have what a has", func() error {
			found, err := s.all(dc)
			for key, value := range first {
				if found[key] != value {
					err = errors.Join(err, fmt.Errorf("%s is %q, and not %q", key, found[key], value))
				}
			}
			if len(found) != len(first) {
				err = errors.Join(err, fmt.Errorf("%d keys, and not %d", len(found), len(first)))
			}
			return err
		})
	}
	t.Logf("%d keys are left of %d", len(first), len(want)+60)
}
