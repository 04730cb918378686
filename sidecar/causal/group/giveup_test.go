package group

import (
	"testing"
	"time"
)

// P and Q have lost the volumes of their group {1, 2}. P gives it up: a group of P begins, with another name and a
// greater epoch, and Q, which has nothing either, believes the register. A volume of the lost group that comes back
// does neither.
func TestALostGroupIsReplacedByAnotherOne(t *testing.T) {
	b := newBench(t, "p", "q", "old")
	p, q, old := b.members["p"], b.members["q"], b.members["old"]
	lost := Config{Group: 77, Epoch: 4, Members: []ID{{"p", 77}, {"q", 78}}, Primary: ID{"p", 77},
		Nonce: Nonce{77, 1, 9}}
	if err := p.g.AcceptLoss(b.now); err == nil {
		t.Fatal("a group is given up of which nothing is known")
	}
	b.teach(lost, "p", "q")
	was := lost
	was.Members, was.Primary = []ID{old.id}, old.id
	b.teach(was, "old")
	b.pass(3*time.Second, "p", "q")
	if !p.g.Status().Lost || !q.g.Status().Lost {
		t.Fatalf("lost: %v, %v", p.g.Status().Lost, q.g.Status().Lost)
	}
	if err := p.g.AcceptLoss(b.now); err != nil {
		t.Fatal(err)
	}
	var next Config
	for range 50 {
		b.pass(100*time.Millisecond, "p", "q")
		for len(p.ops) > 0 {
			op := p.ops[len(p.ops)-1]
			if op.Swap {
				next = op.Config
				b.answer("p", RegisterResult{Outcome: Done, Cluster: "cluster"})
			} else {
				b.answer("p", RegisterResult{Outcome: Done, Cluster: "cluster", Found: true, Config: lost})
			}
			p.ops = nil
		}
		if next.Epoch > 0 {
			break
		}
	}
	if next.Group != p.id.Volume || next.Epoch != 5 || len(next.Members) != 1 {
		t.Fatalf("proposed %+v", next)
	}
	b.pass(2*time.Second, "p")
	if b.role("p") != Serving {
		t.Fatalf("P is %s", b.role("p"))
	}
	q.ops = nil
	q.g.register.busy = false
	q.g.RegisterChanged(b.now)
	b.sync("q")
	b.answer("q", RegisterResult{Outcome: Done, Cluster: "cluster", Found: true, Config: next})
	if s := q.g.Status(); s.Config.Group != next.Group || s.Frozen != "" || s.Lost {
		t.Errorf("Q: %+v", s)
	}
	old.ops = nil
	old.g.register.busy = false
	old.g.RegisterChanged(b.now)
	b.sync("old")
	b.answer("old", RegisterResult{Outcome: Done, Cluster: "cluster", Found: true, Config: next})
	if s := old.g.Status(); s.Config.Group != 77 || s.Frozen == "" {
		t.Errorf("the volume of the lost group: %+v", s)
	}
}

// The group of this volume was given up, and the volume has come back in the place of the only one of the group that
// replaced it. Nobody has that one's data, so it can be given up too, and this volume is emptied first: what it holds
// is void.
func TestAGroupIsGivenUpWhoseOnlyVolumeAFormerOneHasReplaced(t *testing.T) {
	b := newBench(t, "p")
	p := b.members["p"]
	b.teach(Config{Group: 77, Epoch: 4, Members: []ID{p.id}, Primary: p.id, Nonce: Nonce{77, 1, 9}}, "p")
	present := ID{"p", p.id.Volume + 1000}
	next := Config{Group: present.Volume, Epoch: 5, Members: []ID{present}, Primary: present,
		Nonce: Nonce{present.Volume, 1, 1}, Replaced: []uint64{77}}
	for range 60 {
		b.pass(100*time.Millisecond, "p")
		if len(p.ops) > 0 {
			b.answer("p", RegisterResult{Outcome: Done, Cluster: "cluster", Found: true, Config: next})
		}
	}
	if s := p.g.Status(); !s.Replaced || !s.Lost || s.WhyNotGivenUp != nil {
		t.Fatalf("replaced: %v, lost: %v, not given up: %v", s.Replaced, s.Lost, s.WhyNotGivenUp)
	}
	p.g.Events(nil)
	if err := p.g.AcceptLoss(b.now); err != nil {
		t.Fatal(err)
	}
	if events := p.g.Events(nil); len(events) != 1 || events[0].Kind != Reset {
		t.Errorf("events %+v", events)
	}
}

// P gives up a group whose member it has not heard of. That one may run, and may serve until it reads in the register
// that it was replaced: it looks each ReadEvery, the answer may take RegisterTimeout, and what was granted then lasts
// for a lease.
func TestAGroupThatReplacesAnAbsentOneServesWhenThatHasHadTimeToNotice(t *testing.T) {
	b := newBench(t, "p")
	p := b.members["p"]
	p.g.opts.External = true
	absent := Config{Group: 77, Epoch: 4, Members: []ID{{"q", 77}}, Primary: ID{"q", 77}, Nonce: Nonce{77, 1, 9}}
	b.teach(absent, "p")
	p.g.SetDesired(b.now, Desired{Names: []string{"p"}})
	read := func() {
		if len(p.ops) > 0 && !p.ops[len(p.ops)-1].Swap {
			b.answer("p", RegisterResult{Outcome: Done, Cluster: "cluster", Found: true, Config: absent})
		}
	}
	for began := b.now.Mono; p.g.AcceptLoss(b.now) != nil; b.pass(100*time.Millisecond, "p") {
		if read(); b.now.Mono-began > 2*absentAfter {
			t.Fatal("it cannot be given up")
		}
	}
	for i := 0; len(p.ops) == 0 || !p.ops[len(p.ops)-1].Swap; i++ {
		if p.g.GivesUp() {
			p.g.SetFoundation(b.now, p.id.Volume) // its storage is empty
		}
		read()
		if b.pass(100*time.Millisecond, "p"); i > 100 {
			t.Fatalf("it proposes nothing: gives up %v", p.g.GivesUp())
		}
	}
	// It is heard of after all, but the swap is under way.
	p.g.Step(b.now, &Message{From: absent.Primary, To: p.id, Body: &Answer{Config: absent, Cluster: "cluster"}})
	b.answer("p", RegisterResult{Outcome: Done, Cluster: "cluster"})
	o := p.g.opts
	replacedAt, wait := b.now.Mono, o.ReadEvery+o.RegisterTimeout+o.Lease
	for b.role("p") != Serving {
		if b.pass(50*time.Millisecond, "p"); b.now.Mono-replacedAt > int64(2*wait) {
			t.Fatalf("it is %s", b.role("p"))
		}
	}
	if after := time.Duration(b.now.Mono - replacedAt); after < wait || after > wait+time.Second {
		t.Errorf("it serves after %s, want %s", after, wait)
	}
}

// P is the only member, and its disk hangs, so it keeps silent and was given up for absent. It goes on to serve reads
// until it knows.
func TestAPrimaryWhoseDiskHangsNoticesThatItsGroupWasReplaced(t *testing.T) {
	b := newBench(t, "p")
	p := b.members["p"]
	c := Config{Group: p.id.Volume, Epoch: 1, Members: []ID{p.id}, Primary: p.id, Nonce: Nonce{p.id.Volume, 1, 1}}
	b.teach(c, "p")
	b.pass(2*time.Second, "p")
	if !p.g.HoldsLease(b.now) {
		t.Fatal("P does not serve")
	}
	if _, err := p.g.Append(b.now, []byte("x")); err != nil { // and the disk does not answer
		t.Fatal(err)
	}
	next := Config{Group: 99, Epoch: 2, Members: []ID{{"q", 99}}, Primary: ID{"q", 99}, Nonce: Nonce{99, 1, 1},
		Replaced: []uint64{c.Group}}
	end := b.now.Mono + int64(p.g.opts.StuckAfter+2*p.g.opts.ReadEvery+time.Second)
	for p.g.HoldsLease(b.now) && b.now.Mono < end {
		b.now.Mono += int64(50 * time.Millisecond)
		p.g.Tick(b.now)
		for _, op := range p.g.RegisterOps(nil) {
			found := c
			if p.g.isStuck(b.now) {
				found = next
			}
			p.g.RegisterDone(b.now, RegisterResult{ID: op.ID, Outcome: Done, Cluster: "cluster", Found: true,
				Config: found})
		}
	}
	if p.g.HoldsLease(b.now) {
		t.Errorf("P serves still; it is stuck: %v", p.g.isStuck(b.now))
	}
}

// P has given an absent group up, and restarts before it has waited for that to notice.
func TestAGroupThatReplacesAnAbsentOneWaitsForThatAlsoAfterARestart(t *testing.T) {
	for _, hasWritten := range []bool{false, true} {
		b := newBench(t, "p")
		p := b.members["p"]
		p.g.opts.External = true
		p.g.SetFoundation(b.now, p.id.Volume)
		b.teach(Config{Group: p.id.Volume, Epoch: 5, Members: []ID{p.id}, Primary: p.id,
			Nonce: Nonce{p.id.Volume, 1, 1}, Replaced: []uint64{77}}, "p")
		b.pass(2*time.Second, "p")
		if hasWritten {
			b.append("p", "x")
		}
		var image Image
		for i := range p.entries {
			if err := image.Apply(&p.entries[i]); err != nil {
				t.Fatal(err)
			}
		}
		o := DefaultOptions(p.id)
		o.External, o.Foundation = true, p.id.Volume
		p.g, p.ops = New(o, &image, b.now), nil
		b.sync("p")
		b.pass(o.ReadEvery+o.RegisterTimeout, "p")
		if serves := b.role("p") == Serving; serves != hasWritten {
			t.Errorf("it has written: %v; it serves %s after the restart: %v", hasWritten,
				o.ReadEvery+o.RegisterTimeout, serves)
		}
		if b.pass(2*o.Lease, "p"); b.role("p") != Serving {
			t.Errorf("it is %s", b.role("p"))
		}
	}
}

// P has given an absent group up and restarts. The swap applies after that.
func TestAGroupThatALifeBeforeHasProposedWaitsForThoseThatAreAbsent(t *testing.T) {
	b := newBench(t, "p")
	p := b.members["p"]
	p.g.opts.External = true
	absent := Config{Group: 77, Epoch: 4, Members: []ID{{"q", 77}}, Primary: ID{"q", 77}, Nonce: Nonce{77, 1, 9}}
	b.teach(absent, "p")
	p.g.SetFoundation(b.now, p.id.Volume)
	life := p.g.state.Life
	b.restart("p", Options{})
	p.g.opts.External = true
	p.g.SetFoundation(b.now, p.id.Volume)
	p.g.SetDesired(b.now, Desired{Names: []string{"p"}})
	b.pass(2*time.Second, "p")
	next := Config{Group: p.id.Volume, Epoch: 5, Members: []ID{p.id}, Primary: p.id, Nonce: Nonce{p.id.Volume, life, 1},
		Replaced: []uint64{77}}
	b.answer("p", RegisterResult{Outcome: Done, Cluster: "cluster", Found: true, Config: next})
	b.pass(p.g.opts.ReadEvery+p.g.opts.RegisterTimeout, "p")
	if b.role("p") != Aligning {
		t.Errorf("P is %s", b.role("p"))
	}
	if b.pass(2*p.g.opts.Lease, "p"); b.role("p") != Serving {
		t.Errorf("P is %s", b.role("p"))
	}
}

// The disk of P, the only member, takes ten seconds to write that P has started. Meanwhile its group may have been
// given up: P looks before it serves.
func TestAPrimaryWhoseStartTakesLongLooksAtTheRegisterBeforeItServes(t *testing.T) {
	b := newBench(t, "p")
	p := b.members["p"]
	c := Config{Group: p.id.Volume, Epoch: 1, Members: []ID{p.id}, Primary: p.id, Nonce: Nonce{p.id.Volume, 1, 1}}
	b.teach(c, "p")
	b.pass(2*time.Second, "p")
	var image Image
	for i := range p.entries {
		if err := image.Apply(&p.entries[i]); err != nil {
			t.Fatal(err)
		}
	}
	p.g = New(DefaultOptions(p.id), &image, b.now)
	b.now.Mono += int64(10 * time.Second)
	p.ops = nil
	b.sync("p")
	b.pass(p.g.opts.Lease/2, "p")
	if len(p.ops) == 0 || p.g.HoldsLease(b.now) {
		t.Fatalf("P has asked the register %d times, and serves: %v", len(p.ops), p.g.HoldsLease(b.now))
	}
	if b.pass(p.g.opts.Lease, "p"); !p.g.HoldsLease(b.now) {
		t.Error("P does not serve without the register")
	}
}

// A group is given up by itself only if every volume that it may ever have had is known to be gone, and a new one is in
// its place.
func TestAGroupIsGivenUpByItselfOnlyIfAllVolumesAreNew(t *testing.T) {
	self := ID{"p", 1}
	for name, c := range map[string]struct {
		change func(g *Group)
		want   bool
	}{
		"all are":                 {func(*Group) {}, true},
		"Q is fresh":              {func(g *Group) { g.answers[0].Answer = &Answer{Fresh: true} }, true},
		"Q has something":         {func(g *Group) { g.answers[0].Answer = &Answer{} }, false},
		"Q is silent":             {func(g *Group) { g.answers = g.answers[1:] }, false},
		"R, a member, is silent":  {func(g *Group) { g.answers = g.answers[:1] }, false},
		"R has something":         {func(g *Group) { g.answers[1].Answer = &Answer{} }, false},
		"not all are lost":        {func(g *Group) { g.lost = false }, false},
		"this one has records":    {func(g *Group) { g.log.append(Record{Stamp: Stamp{1, 1}}, 1) }, false},
		"another one is to do it": {func(g *Group) { g.desired.Names = []string{"q", "p"} }, false},
		"nobody is to":            {func(g *Group) { g.desired.Names = nil }, false},
		"its storage has something": {func(g *Group) {
			g.opts.External = true
		}, false},
		"its storage is empty": {func(g *Group) {
			g.opts.External, g.opts.Blank = true, true
		}, true},
	} {
		g := &Group{opts: DefaultOptions(self), self: self, lost: true, desired: Desired{Names: []string{"p", "q"}}}
		// R is a member, and is not to be one any more
		g.state.Config = Config{Group: 7, Epoch: 3, Members: []ID{{"p", 71}, {"q", 72}, {"r", 73}},
			Primary: ID{"r", 73}}
		g.answers = []answer{{ID{"q", 2}, &Answer{Blank: true}}, {ID{"r", 3}, &Answer{Blank: true}}}
		c.change(g)
		if got := g.hasOnlyNewVolumes(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// P is paused for long. That it has not heard of Q, and that Q has made no progress, is not Q's fault.
func TestAPrimaryThatWasPausedDropsNobody(t *testing.T) {
	for _, lacks := range []bool{false, true} {
		b := pq(t)
		p, q := b.members["p"], b.members["q"]
		if lacks {
			b.append("p", "x") // Q has not got it yet
			b.sync("p")
		}
		b.now.Mono += 2 * int64(p.g.opts.SilentAfter)
		p.g.Tick(b.now)
		if peer := p.g.findPeer(q.id); peer == nil || p.g.isSilent(b.now, peer) {
			t.Errorf("Q lacks a record: %v; it counts as silent", lacks)
		}
		b.pass(time.Second, "p", "q")
		if c := p.g.state.Config; !c.Has(q.id) || p.g.commit != p.g.log.last() {
			t.Errorf("Q lacks a record: %v; the members are %v", lacks, c.Members)
		}
	}
}

// P is the only member, and its group was given up while it was off. The clock of its process begins near zero, so a
// time that was never set must not look like the recent past.
func TestAPrimaryThatStartsReadsTheRegisterBeforeItServes(t *testing.T) {
	b := newBench(t, "p")
	p := b.members["p"]
	c := Config{Group: p.id.Volume, Epoch: 1, Members: []ID{p.id}, Primary: p.id, Nonce: Nonce{p.id.Volume, 1, 1}}
	b.teach(c, "p")
	b.pass(3*time.Second, "p")
	next := Config{Group: 99, Epoch: 2, Members: []ID{{"q", 99}}, Primary: ID{"q", 99}, Nonce: Nonce{99, 1, 1},
		Replaced: []uint64{c.Group}}
	for _, start := range []time.Duration{1, time.Second, time.Hour} {
		b.now.Mono = int64(start)
		b.restart("p", Options{})
		for end := b.now.Mono + int64(4*p.g.opts.Lease); b.now.Mono < end; b.now.Mono += int64(50 * time.Millisecond) {
			p.g.Tick(b.now)
			if b.sync("p"); p.g.HoldsLease(b.now) {
				t.Fatalf("with a clock that begins at %v, P serves", start)
			}
			if len(p.ops) > 0 {
				b.answer("p", RegisterResult{Outcome: Done, Cluster: "cluster", Found: true, Config: next})
			}
		}
	}
}

// A late message may tell of one that was replaced itself.
func TestOnlyTheLatestGroupThatHasReplacedThisOneCounts(t *testing.T) {
	b := pq(t)
	p := b.members["p"].g
	p.state.Config.Group = 55
	own := p.state.Config.Group
	later := Config{Group: 77, Epoch: 9, Replaced: []uint64{own, 66}}
	p.noteReplaced(b.now, &later)
	p.noteReplaced(b.now, &Config{Group: 66, Epoch: 8, Replaced: []uint64{own}})
	if p.replacedBy.Group != 77 {
		t.Errorf("it takes %d for what has replaced it, want 77", p.replacedBy.Group)
	}
}
