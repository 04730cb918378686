package member

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
)

var storageFrom = flag.Uint64("storage-from", 0, "first seed of them")

var storageSeeds = flag.Uint64("storage-seeds", 60, "number of random runs of a shard's group")

func TestNoAcknowledgedWriteIsLostWhateverHappens(t *testing.T) {
	var copies, sessions uint64
	for seed := range *storageSeeds {
		seed += *storageFrom
		r := randomRun(t, seed)
		if r.wrong != "" {
			t.Errorf("seed %d: %s", seed, r.wrong)
		}
		for _, p := range r.members {
			copies, sessions = copies+p.s.copies, sessions+p.s.sessions
		}
		if t.Failed() {
			return
		}
	}
	if copies < *storageSeeds/2 || sessions < *storageSeeds/2 {
		t.Errorf("%d copies and %d sessions at the ends of %d runs", copies, sessions, *storageSeeds)
	}
}

// Each mutation breaks one rule; each has to be noticed.
func TestEveryFaultOfAShardsMemberIsCaught(t *testing.T) {
	for _, f := range []causal.Mutation{causal.ApplyUncommitted, causal.CollectUnapplied, causal.CopyWithoutLog,
		causal.MarkerAhead, causal.ServeUnapplied, causal.CopyOntoOld} {
		t.Run(f.String(), func(t *testing.T) {
			const seeds = 300
			for seed := range uint64(seeds) {
				if r := randomRun(t, seed, f); r.wrong != "" {
					t.Logf("seed %d: %s", seed, r.wrong)
					return
				}
			}
			t.Errorf("%d runs have not detected %s", seeds, f)
		})
	}
}

// randomRun lets things happen to a group, and then checks it.
func randomRun(t *testing.T, seed uint64, mutations ...causal.Mutation) *shardRig {
	rng := rand.New(rand.NewPCG(seed, 1))
	r := newShardRig(t, 2+int(seed%2), mutations...)
	r.retain = 1 + rng.IntN(4)<<10
	if rng.IntN(2) == 0 { // the first member has data from before
		for i := range 10 {
			r.members[0].store.set(fmt.Sprint("old", i), causal.Record{Version: causal.Version{HLC: 1}}, false)
		}
	}
	var late []causal.Message
	r.copied = func(m *causal.Message) int {
		switch x := rng.IntN(20); {
		case x < 2:
			return 0
		case x < 4:
			return 2
		case x < 6:
			late = append(late, *m)
		}
		return 1
	}
	r.startAll()
	if r.wrong != "" {
		return r
	}
	for range 120 {
		p := r.members[rng.IntN(len(r.members))]
		for range rng.IntN(12) {
			r.write(fmt.Sprint("k", rng.IntN(12)), rng.IntN(4) == 0)
		}
		switch rng.IntN(16) {
		case 0, 1:
			r.crashRandomly(rng, p)
		case 2:
			p.cut = !p.cut
		case 3:
			p.paused = !p.paused
		case 4:
			p.hung = !p.hung
		case 5:
			p.fails = rng.IntN(5)
		case 6:
			r.away = !r.away
		case 7:
			r.loseSomething(rng, p)
		case 8:
			for i := range late {
				r.deliver(r.members[late[i].From.Member-1], &late[i])
			}
			late = nil
		case 9, 10, 11:
			for _, q := range r.members {
				if q.cut, q.paused, q.hung, r.away = false, false, false, false; q.s == nil {
					r.start(q)
				}
			}
		}
		r.pass(time.Duration(25*(1+rng.IntN(20))) * time.Millisecond)
		if r.wrong != "" {
			return r
		}
	}
	r.away = false
	for _, q := range r.members {
		if q.cut, q.paused, q.hung, q.fails = false, false, false, 0; q.s == nil {
			r.start(q)
		}
	}
	r.tryConsistent()
	return r
}

// tryConsistent checks the ends of a run: that the group is whole again is a part of that.
func (r *shardRig) tryConsistent() {
	for range 2400 {
		if p := r.primary(); r.wrong != "" || p != nil && len(p.s.Status().Config.Members) == len(r.members) &&
			r.isQuiet() {
			break
		}
		r.pass(25 * time.Millisecond)
	}
	if p := r.primary(); p == nil || len(p.s.Status().Config.Members) != len(r.members) || !r.isQuiet() {
		r.fail("the group is not whole again after a minute" + r.describe())
	}
	r.compare()
}

// crashRandomly stops a member, perhaps after its storage has carried out what it was asked for.
func (r *shardRig) crashRandomly(rng *rand.Rand, p *shardMember) {
	if p.s == nil {
		return
	}
	if p.held != nil && rng.IntN(2) == 0 {
		p.store.run(p.held)
	}
	p.crash()
	if rng.IntN(3) > 0 {
		r.start(p)
	}
}

// loseSomething takes the storage or the log of a member, if another one has everything.
func (r *shardRig) loseSomething(rng *rand.Rand, p *shardMember) {
	q := r.primary()
	if q == nil || q == p || q.cut {
		return
	}
	p.crash()
	switch rng.IntN(4) {
	case 0:
		p.store = newModelStore()
	case 1:
		r.wipe(p)
	case 2:
		p.store = newModelStore()
		r.wipe(p)
	case 3:
		p.damaged = true
	}
	r.start(p)
}
