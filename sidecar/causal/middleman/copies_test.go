package middleman

import (
	"fmt"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// fillCopy returns a key of which cacheA holds a stable copy of version 10.
func (r *rig) fillCopy() string {
	key := r.key(self, 0)
	r.put(key, record(version(10)))
	r.raiseSV(10)
	r.acked(coordinator)
	r.openStream(cacheA, 1)
	r.fill(cacheA, causal.Fill{Key: key})
	return key
}

func TestPutIsAcknowledgedOnlyOnceNoCacheHoldsAnOlderValue(t *testing.T) {
	ruleHolds(t, causal.AckBeforeInvalidation, func(r *rig) string {
		key := r.fillCopy()
		r.put(key, record(version(20)))
		invalidations := r.received(causal.KindInvalidate, cacheA)
		if len(invalidations) != 1 || invalidations[0].Invalidate().KeyHash != topology.Hash(key) {
			return "the cache was not told"
		}
		if len(r.acked(coordinator)) > 0 {
			return "the put was acknowledged while the cache could serve an older value"
		}
		r.confirm(cacheA)
		if len(r.acked(coordinator)) != 1 {
			return "the put was not acknowledged once the cache had confirmed"
		}
		return ""
	})
}

// With room for one, the copy of another key takes the place of the first, which the cache may serve until its lease
// ends.
func TestAPutWaitsForCopiesThatThereIsNoRoomToRemember(t *testing.T) {
	ruleHolds(t, causal.ForgetCopies, func(r *rig) string {
		r.m.copies.cachedAt.bound = 1
		key := r.fillCopy()
		fill := causal.Fill{ID: 99, Key: r.key(self, 1), Epoch: 1}
		r.step(fill.Message(cacheA, self))
		r.put(key, record(version(20)))
		if len(r.acked(coordinator)) > 0 {
			return "the put was acknowledged while the cache could serve an older value"
		}
		if r.m.copies.cachedAt.live > 1 {
			return "more copies are remembered than there is room for"
		}
		r.step(causal.LeaseRenewal{Epoch: 1}.Message(cacheA, self))
		r.wait(lease)
		if len(r.acked(coordinator)) != 1 {
			return "the put was not acknowledged after the lease had expired, which cannot be renewed"
		}
		return ""
	})
}

func TestTheDataCenterWithMostCopiesMakesRoom(t *testing.T) {
	r := newRig(t)
	r.m.copies.cachedAt.bound = 10
	r.openStream(cacheA, 1)
	r.openStream(cacheB, 1)
	other := r.key(self, 100)
	r.fill(cacheB, causal.Fill{Key: other})
	for i := range 50 {
		if r.m.streams.byCache[cacheA].epoch == 0 {
			r.openStream(cacheA, r.m.streams.byCache[cacheA].maxEpoch+1)
		}
		fill := causal.Fill{ID: uint64(i), Key: r.key(self, i), Epoch: r.m.streams.byCache[cacheA].epoch}
		r.step(fill.Message(cacheA, self))
		if n := r.m.copies.cachedAt.live; n > 10 {
			t.Fatalf("%d keys are remembered", n)
		}
	}
	held := false
	r.m.copies.cachedAt.take(topology.Hash(other), func(dc topology.DC) { held = held || dc == cacheB.DC })
	if s := r.m.streams.byCache[cacheB]; s.epoch != 1 || !held {
		t.Errorf("the data center with one copy has to start over: epoch %d, its copy is remembered: %v", s.epoch, held)
	}
	if r.m.Stats().StreamsEnded == 0 {
		t.Error("no stream was ended")
	}
}

func TestPutIsAcknowledgedWhenTheLeaseOfASilentCacheHasExpired(t *testing.T) {
	r := newRig(t)
	r.put(r.fillCopy(), record(version(20)))
	r.wait(lease - 1)
	if len(r.acked(coordinator)) > 0 {
		t.Fatal("the put was acknowledged while the lease was running")
	}
	r.wait(1)
	if len(r.acked(coordinator)) != 1 {
		t.Error("the put was not acknowledged after the lease had expired")
	}
}

func TestPutIsAcknowledgedWhenTheCacheOpensANewStream(t *testing.T) {
	r := newRig(t)
	r.put(r.fillCopy(), record(version(20)))
	r.openStream(cacheA, 2)
	if len(r.acked(coordinator)) != 1 {
		t.Error("the put still waits for a cache that has dropped everything")
	}
}

func TestLaneIsCleanOnlyOnceTheInvalidationsOfItsPutsAreConfirmed(t *testing.T) {
	r := newRig(t)
	r.put(r.fillCopy(), record(version(20)))
	if l := r.m.lanes.of(1); l.received != 20 || l.clean != 10 {
		t.Errorf("received up to %d, clean up to %d; want 20 and 10", l.received, l.clean)
	}
	r.confirm(cacheA)
	if l := r.m.lanes.of(1); l.clean != 20 {
		t.Errorf("clean up to %d, want 20", l.clean)
	}
}

// The first write has taken the registration of the copy, so nobody is left to tell; but the copy is still there.
func TestLaterWriteOfAKeyWaitsForTheInvalidationsOfEarlierOnes(t *testing.T) {
	ruleHolds(t, causal.IgnoreOtherInvalidations, func(r *rig) string {
		key := r.fillCopy()
		r.put(key, record(version(20)))
		r.put(key, record(version(30)))
		r.put(key, record(causal.Version{HLC: 15, Origin: 2})) // superseded ones wait as well
		if len(r.acked(coordinator))+len(r.acked(coordinator1)) > 0 {
			return "a write was acknowledged while a copy from before it could be served"
		}
		r.confirm(cacheA)
		if len(r.acked(coordinator)) != 2 || len(r.acked(coordinator1)) != 1 {
			return "the writes were not acknowledged once the cache had confirmed"
		}
		return ""
	})
}

func TestCopyIsRegisteredInTheStepThatReadsIt(t *testing.T) {
	ruleHolds(t, causal.RegisterLate, func(r *rig) string {
		key := r.fillCopy()
		r.put(key, record(version(20)))
		if len(r.received(causal.KindInvalidate, cacheA)) != 1 {
			return "a write right after the fill did not invalidate the copy"
		}
		return ""
	})
}

func TestCopyOfAMissingKeyIsInvalidatedToo(t *testing.T) {
	ruleHolds(t, causal.NegativeUntracked, func(r *rig) string {
		key := r.key(self, 0)
		r.openStream(cacheA, 1)
		if fill := r.fill(cacheA, causal.Fill{Key: key}); fill.Status != causal.Stable || !fill.Record.Value.Tombstone {
			return "a missing key cannot be cached"
		}
		r.put(key, record(version(20)))
		if len(r.received(causal.KindInvalidate, cacheA)) != 1 {
			return "the cache was not told that the key exists now"
		}
		return ""
	})
}

func TestOnlyStableValuesOfLeasedCachesAreRegistered(t *testing.T) {
	r := newRig(t)
	key := r.key(self, 0)
	r.put(key, record(version(10)))
	r.openStream(cacheA, 1)
	if fill := r.fill(cacheA, causal.Fill{Key: key}); fill.Status != causal.InFlight {
		t.Errorf("an in-flight value was given as %v", fill.Status)
	}
	r.raiseSV(10)
	r.step(causal.StreamOpen{Epoch: 1, Incarnation: 1}.Message(cacheB, self)) // without a lease
	r.fill(cacheB, causal.Fill{Key: key})
	r.put(key, record(version(20)))
	if got := append(r.received(causal.KindInvalidate, cacheA),
		r.received(causal.KindInvalidate, cacheB)...); len(got) > 0 {
		t.Errorf("%v", got)
	}
}

// Its invalidations would go to the cache that owns the key.
func TestCacheThatDoesNotOwnTheKeyMustNotKeepIt(t *testing.T) {
	dcs := []topology.DataCenter{{Name: "a", Coordinators: 1, Caches: 2, Shards: 1}}
	topo, err := topology.New(1, dcs, []topology.Ring{{Name: "r", DCs: []topology.DC{0}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ruleHolds(t, causal.FillAnyCache, func(r *rig) string {
		r.topo = topo
		key := r.key(self, 0)
		owner, _ := topo.CacheFor(0, topology.Hash(key))
		other := topology.Node{Part: topology.Cache, Index: 1 - owner.Index}
		for _, c := range []topology.Node{owner, other} {
			r.openStream(c, 1)
		}
		if r.fill(owner, causal.Fill{Key: key}).Status != causal.Stable {
			return "the cache that owns the key may not keep it"
		}
		if r.fill(other, causal.Fill{Key: key}).Status == causal.Stable {
			return "another cache may keep the key"
		}
		return ""
	}, func(c *Config) { c.Topology = topo })
}

func TestAfterARestartPutsWaitForCopiesFromBefore(t *testing.T) {
	for name, release := range map[string]func(*rig){
		"the cache opens a stream": func(r *rig) { r.openStream(cacheA, 2); r.openStream(cacheB, 2) },
		"the lease has expired":    func(r *rig) { r.wait(lease) },
	} {
		t.Run(name, func(t *testing.T) {
			ruleHolds(t, causal.RestartForgetsCaches, func(r *rig) string {
				key := r.fillCopy()
				r.restart()
				r.wait(1)
				if len(r.received(causal.KindStreamReset, cacheA)) != 1 {
					return "the cache was not asked to open a stream"
				}
				r.put(key, record(version(20)))
				if len(r.acked(coordinator)) > 0 {
					return "a put was acknowledged while caches could hold copies from before the restart"
				}
				release(r)
				if len(r.acked(coordinator)) != 1 {
					return "the put was not acknowledged"
				}
				return ""
			})
		})
	}
}

func TestCopiesThatOthersHaveGivenAreWaitedFor(t *testing.T) {
	ruleHolds(t, causal.JoinFresh, func(r *rig) string {
		for _, c := range []topology.Node{cacheA, cacheB} { // no cache has anything of this middleman
			r.openStream(c, 1)
		}
		r.put(r.key(self, 0), record(version(10)))
		r.wait(lease - 1)
		if len(r.acked(coordinator)) > 0 {
			return "a put was acknowledged while a copy of another middleman could be served"
		}
		r.wait(1)
		if len(r.acked(coordinator)) != 1 {
			return "the put was not acknowledged after all leases had expired"
		}
		return ""
	}, func(c *Config) { c.Inherited = true })
}

// A cache holds version 10 for readers below 30. Version 20 arrives late: it loses, but readers that have seen it must
// not get version 10.
func TestCopyOfAnOlderVersionHearsOfASupersededWrite(t *testing.T) {
	ruleHolds(t, causal.SupersededKeepsOlder, func(r *rig) string {
		key := r.fillCopy()
		r.fill(cacheA, causal.Fill{Key: key, Snapshot: true, Cut: 10}) // somebody reads at cuts
		r.put(key, record(version(30)))
		if got := r.received(causal.KindInvalidate, cacheA); len(got) != 1 || got[0].Invalidate().Next != 30 {
			return "the cache was not told from where on the copy is outdated"
		}
		r.confirm(cacheA)
		r.acked(coordinator)
		r.put(key, record(causal.Version{HLC: 20, Origin: 2}))
		if len(r.acked(coordinator1)) > 0 {
			return "the late write was acknowledged although a copy older than it may be served"
		}
		if got := r.received(causal.KindInvalidate, cacheA); len(got) != 1 || got[0].Invalidate().Next != 20 {
			return "the cache was not told of the late write"
		}
		r.confirm(cacheA)
		if len(r.acked(coordinator1)) != 1 {
			return "the late write was not acknowledged"
		}
		return ""
	})
}

func TestFillOfAnOlderVersionIsRegistered(t *testing.T) {
	r := newRig(t)
	key := r.fillCopy()
	r.put(key, record(version(30)))
	r.confirm(cacheA)
	fill := r.fill(cacheA, causal.Fill{Key: key, Snapshot: true, Cut: 10})
	if fill.Record.Version != version(10) || fill.Next != 30 || fill.Status != causal.Stable {
		t.Fatalf("got %+v, want version 10, which is followed by 30", fill)
	}
	r.received(causal.KindInvalidate, cacheA)
	r.put(key, record(causal.Version{HLC: 20, Origin: 2}))
	if got := r.received(causal.KindInvalidate, cacheA); len(got) != 1 {
		t.Errorf("%d invalidations of the copy, want 1", len(got))
	}
}

func TestAnInFlightVersionThatIsFetchedAheadIsRegistered(t *testing.T) {
	ruleHolds(t, causal.AheadUnregistered, func(r *rig) string {
		key := r.fillCopy()
		r.put(key, record(version(20)))
		r.confirm(cacheA)
		fill := r.fill(cacheA, causal.Fill{Key: key, Snapshot: true, Cut: 10, Seen: 25, Ahead: true})
		if fill.Record.Version != version(20) || fill.Status != causal.InFlight || !fill.Registered {
			return fmt.Sprintf("got %+v, want the in-flight version 20, to be kept", fill)
		}
		r.received(causal.KindInvalidate, cacheA)
		r.put(key, record(version(30)))
		if n := len(r.received(causal.KindInvalidate, cacheA)); n != 1 {
			return fmt.Sprintf("%d invalidations of the copy, want 1", n)
		}
		return ""
	})
}

func TestOlderCopiesConcernWritesUpToTheVersionAfterThemUntilTheRingHasAllOfThose(t *testing.T) {
	o := newOlderCopies()
	o.add(7, 1, 30)
	o.add(7, 40, 20)
	concerned := func(hash uint64, hlc causal.HLC) (dcs []topology.DC) {
		for dc := range o.outdatedBy(hash, version(hlc)) {
			dcs = append(dcs, dc)
		}
		return dcs
	}
	for _, c := range []struct {
		hash uint64
		hlc  causal.HLC
		want int
	}{{7, 30, 2}, {7, 10, 2}, {7, 31, 0}, {8, 10, 0}} {
		if got := concerned(c.hash, c.hlc); len(got) != c.want {
			t.Errorf("write %d of hash %d concerns %v, want %d", c.hlc, c.hash, got, c.want)
		}
	}
	o.forgetUpTo(29)
	if got := concerned(7, 10); len(got) != 2 || got[0] != 1 || got[1] != 40 {
		t.Errorf("the ring lacks writes up to 30, and the copies in %v are remembered; want 1 and 40", got)
	}
	o.forgetUpTo(30)
	if got := concerned(7, 10); len(got) != 0 {
		t.Errorf("the ring has every write up to 30, and copies in %v are remembered", got)
	}
}

func TestOlderCopiesAreKeptWhileTheyHaveReadersAndRoom(t *testing.T) {
	o := newOlderCopies()
	o.readersUntil = 100
	if !o.isKept(causal.Now{Mono: 99}) || o.isKept(causal.Now{Mono: 100}) {
		t.Error("copies are not kept exactly until the last reader is forgotten")
	}
	for h := range uint64(maxOlderCopies) {
		o.add(h, 0, 1)
	}
	if o.isKept(causal.Now{Mono: 99}) {
		t.Error("copies are kept beyond the bound")
	}
}

func TestCacheMustNotKeepAnOlderVersionThatCannotBeRemembered(t *testing.T) {
	r := newRig(t)
	key := r.fillCopy()
	r.put(key, record(version(30)))
	r.confirm(cacheA)
	for h := range uint64(maxOlderCopies) {
		r.m.copies.older.add(h, 0, 30)
	}
	if fill := r.fill(cacheA, causal.Fill{Key: key, Snapshot: true, Cut: 10}); fill.Record.Version != version(10) ||
		fill.Status != causal.InFlight {
		t.Errorf("got %+v, want version 10, not to be kept", fill)
	}
}

func TestCacheWhoseLeaseHasExpiredIsNotInvalidated(t *testing.T) {
	r := newRig(t)
	key := r.fillCopy()
	r.wait(lease)
	r.put(key, record(version(20)))
	if len(r.received(causal.KindInvalidate, cacheA)) > 0 || len(r.acked(coordinator)) != 1 {
		t.Error("a put waits for a cache that serves nothing")
	}
}

// Two invalidations of a key are under way, and one is confirmed: the other cache may serve the older copy still.
func TestOneOfTwoInvalidationsThatIsConfirmedLeavesTheOther(t *testing.T) {
	c := newCopies(1, 10)
	c.invalidating[7] = 2
	if c.invalidationConfirmed(7); c.invalidating[7] != 1 {
		t.Errorf("%d are under way", c.invalidating[7])
	}
	if c.invalidationConfirmed(7); len(c.invalidating) != 0 {
		t.Error("none is under way, and the key is kept")
	}
}
