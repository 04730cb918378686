package group

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// A log whose records are released answers as one that keeps them.
func TestALogWithoutItsRecordsInMemoryIsTheSameLog(t *testing.T) {
	large := make([]byte, spanBytes/2) // so that there are several spans
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 5))
		var kept, released log
		stamp := Stamp{1, 1}
		for index := uint64(1); index < 5000; index++ {
			switch rng.IntN(40) {
			case 0:
				released.release(released.firstHeld() + uint64(rng.IntN(len(released.records)+1)))
			case 1:
				pos := kept.first() + uint64(rng.IntN(int(kept.last()-kept.first())+2))
				if len(released.spans) > 1 && rng.IntN(2) == 0 {
					pos = released.spans[1].first - 1 + uint64(rng.IntN(2))
				}
				kept.collect(pos)
				released.collect(pos)
			case 2:
				stamp.Life++
			default:
				r := Record{Stamp: stamp, Data: large[:rng.IntN(100)]}
				if rng.IntN(4) == 0 {
					r.Data = large[:rng.IntN(len(large))]
				}
				kept.append(r, index)
				released.append(r, index)
			}
			if released.oldestIndex() > kept.oldestIndex() { // what the disk may drop goes by it, at any time
				t.Fatalf("seed %d: from entry %d on, want %d", seed, released.oldestIndex(), kept.oldestIndex())
			}
		}
		if kept.first() != released.first() || kept.last() != released.last() {
			t.Fatalf("seed %d: %d to %d, want %d to %d", seed, released.first(), released.last(), kept.first(),
				kept.last())
		}
		for pos := kept.first() - 1; pos <= kept.last(); pos++ {
			if kept.stamp(pos) != released.stamp(pos) {
				t.Fatalf("seed %d: at %d %v, want %v", seed, pos, released.stamp(pos), kept.stamp(pos))
			}
		}
		for pos := released.firstHeld(); pos <= released.last(); pos++ {
			if kept.at(pos).index != released.at(pos).index {
				t.Fatalf("seed %d: at %d is another record", seed, pos)
			}
		}
		if released.bytes < kept.bytes {
			t.Fatalf("seed %d: %d bytes; want %d", seed, released.bytes, kept.bytes)
		}
		for _, l := range []*log{&kept, &released} {
			if l.collect(l.last() + 1); l.bytes != 0 || l.oldestIndex() != 0 || l.first() != l.last()+1 {
				t.Fatalf("seed %d: %d bytes are left of nothing", seed, l.bytes)
			}
		}
	}
}

func TestAMemberAloneKeepsItsLogOnDiskOnly(t *testing.T) {
	b := &bench{t: t, now: causal.Now{Mono: int64(time.Hour)}, order: []string{"p"}, members: map[string]*member{}}
	p := &member{t: t, id: ID{"p", 1}}
	b.members["p"] = p
	start := func() {
		b.restart("p", Options{})
		p.g.opts.Register = false
		p.g.SetDesired(b.now, Desired{Names: []string{"p"}})
		b.pass(100*time.Millisecond, "p")
	}
	start()
	var want []string
	for i := range 3000 {
		want = append(want, fmt.Sprint(i))
		b.append("p", want[i])
	}
	if n := len(p.g.log.records); n > 0 {
		t.Errorf("%d records are in memory", n)
	}
	if bytes := p.g.LogBytes(); bytes < 3000*recordOverhead {
		t.Errorf("the log has %d bytes", bytes)
	}
	if p.g.NextTick(b.now) != causal.Never {
		t.Error("a member alone has nothing to do, and is to be ticked")
	}
	p.g.Collect(b.now, p.g.log.first()+1500)
	b.sync("p")
	before := p.g.TruncateBefore()
	p.entries = slices.DeleteFunc(p.entries, func(e Entry) bool { return e.Index < before })
	if len(p.entries) > 2600 {
		t.Errorf("the disk keeps %d entries", len(p.entries))
	}
	start()
	got, ok := p.led()
	if want = want[1499:]; !ok || !slices.Equal(got, want) { // the first record is that of the start
		t.Errorf("after a restart the log holds %d records, want %d", len(got), len(want))
	}
	b.append("p", "more")
}

// The next heartbeat would be too late: the swap is done before it.
func TestAPrimaryThatHandsOverGivesItsLeasesBackAtOnce(t *testing.T) {
	b := pq(t)
	p := b.members["p"].g
	for _, m := range b.members {
		m.g.SetDesired(b.now, Desired{Names: []string{"p", "q"}})
	}
	b.pass(time.Second, "p", "q")
	p.Take(b.now, nil)
	p.Resign(b.now)
	p.Tick(b.now)
	for _, m := range p.Take(b.now, nil) {
		if f, ok := m.Body.(*Frame); ok && f.Released {
			return
		}
	}
	t.Error("it has sent no frame that asks for no grant")
}

func TestAPrimaryThatResignsHandsOverAndStaysAFollower(t *testing.T) {
	b := pq(t)
	p, q := b.members["p"], b.members["q"]
	register := RegisterResult{Outcome: Done, Cluster: "cluster", Found: true, Config: p.g.state.Config}
	for _, m := range []*member{p, q} {
		m.g.SetDesired(b.now, Desired{Names: []string{"p", "q"}})
	}
	b.append("p", "x")
	b.deliver("p", "q")
	p.g.Resign(b.now)
	for range 200 {
		b.pass(50*time.Millisecond, "p", "q")
		for _, m := range []*member{p, q} {
			for len(m.ops) > 0 {
				if op := m.ops[len(m.ops)-1]; op.Swap {
					register.Config = op.Config
				}
				b.answer(m.id.Name, register)
			}
		}
	}
	if b.role("q") != Serving || b.role("p") != Following {
		t.Fatalf("Q is %v and P is %v", b.role("q"), b.role("p"))
	}
	handedOver := false
	for _, e := range p.events {
		handedOver = handedOver || e.Kind == Stop && e.HandedOver
	}
	if !handedOver || register.Config.Epoch != 2 {
		t.Errorf("handed over %v; epoch %d, want 2: one change", handedOver, register.Config.Epoch)
	}
}

// A group that is made again on an empty volume has the epochs and lives of the earlier one.
func TestNoTwoVolumesHaveOneLeadership(t *testing.T) {
	seen := map[causal.Leadership]uint64{}
	for _, volume := range []uint64{1, 2, 1 << 39, 1<<40 - 1} {
		o := DefaultOptions(ID{Name: "1", Volume: volume})
		o.Register = false
		now := causal.Now{Mono: 1}
		g := New(o, &Image{}, now)
		g.SetDesired(now, Desired{Names: []string{"1"}})
		for g.Leadership(now).IsZero() {
			now.Mono += int64(o.Heartbeat)
			for _, e := range g.Writes(nil) {
				g.Appended(now, e.Index)
			}
			g.Tick(now)
		}
		l := g.Leadership(now)
		if other, taken := seen[l]; taken {
			t.Errorf("volumes %d and %d lead in %v", other, volume, l)
		}
		seen[l] = volume
	}
}
