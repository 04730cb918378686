package group

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
)

func TestARecordIsCommittedWhenAllMembersHaveIt(t *testing.T) {
	b := pq(t)
	pos := b.append("p", "x")
	if got := b.members["p"].g.Status().Commit; got >= pos {
		t.Fatalf("committed up to %d without Q", got)
	}
	b.deliver("p", "q")
	if got := b.members["p"].g.Status().Commit; got != pos {
		t.Fatalf("committed up to %d, want %d", got, pos)
	}
}

func TestARestartedPrimaryReplacesWhatOnlyAnotherMemberHas(t *testing.T) {
	b := pq(t)
	p, q := b.members["p"], b.members["q"]
	durable := p.durable
	b.append("p", "lost at P")
	b.deliver("q") // nothing
	frames := p.sent
	for i := range frames {
		q.g.Step(b.now, &frames[i])
	}
	b.sync("q")
	p.durable = durable // P's disk had not acknowledged it
	b.restart("p", Options{})
	b.pass(3*time.Second, "p", "q")
	b.append("p", "another")
	b.deliver("p", "q")
	if p.g.Status().Commit != p.g.log.last() || q.g.log.last() != p.g.log.last() {
		t.Fatalf("P has committed %d of %d, and Q has %d", p.g.Status().Commit, p.g.log.last(), q.g.log.last())
	}
	for pos := p.g.log.first(); pos <= p.g.log.last(); pos++ {
		if got, want := string(q.g.log.at(pos).Data), string(p.g.log.at(pos).Data); got != want {
			t.Errorf("Q has %q at %d, P has %q", got, pos, want)
		}
	}
}

func TestAnAcknowledgementCountsInItsSessionOnly(t *testing.T) {
	b := pq(t)
	p, q := b.members["p"], b.members["q"]
	pos := b.append("p", "x")
	ack := Ack{Session: p.g.lead.session, Match: pos}
	ack.Session.Life--
	p.g.Step(b.now, &Message{From: q.id, To: p.id, Body: &ack})
	if got := p.g.Status().Commit; got >= pos {
		t.Fatal("an acknowledgement of an earlier session counts")
	}
	ack.Session = p.g.lead.session
	p.g.Step(b.now, &Message{From: q.id, To: p.id, Body: &ack})
	if got := p.g.Status().Commit; got != pos {
		t.Fatalf("committed up to %d, want %d", got, pos)
	}
}

func TestARestartedPrimaryNeedsNoRegister(t *testing.T) {
	b := pq(t)
	b.append("p", "x")
	b.deliver("p", "q")
	b.restart("p", Options{})
	b.pass(3*time.Second, "p", "q")
	if records, ok := b.members["p"].led(); !ok || !slices.Equal(records, []string{"x"}) {
		t.Fatalf("P serves with %v, %v", records, ok)
	}
	for _, op := range b.members["p"].ops {
		if op.Swap {
			t.Errorf("P has proposed %v", op.Config)
		}
	}
}

func TestACandidateSealsNothingBeforeItsSwapIsDone(t *testing.T) {
	b := pq(t)
	p, q := b.members["p"], b.members["q"]
	config := q.g.Status().Config
	b.pass(2*time.Second, "q") // Q does not hear of P
	b.answer("q", RegisterResult{Outcome: Done, Cluster: "cluster", Found: true, Config: config})
	b.pass(500*time.Millisecond, "q")
	if len(q.ops) == 0 || !q.ops[len(q.ops)-1].Swap {
		t.Fatal("Q has proposed nothing")
	}
	proposed := q.ops[len(q.ops)-1].Config
	b.answer("q", RegisterResult{Outcome: Unknown})

	// P is back before that swap applies, and commits with Q.
	p.g.forgive(b.now)
	b.pass(500*time.Millisecond, "p", "q")
	pos := b.append("p", "x")
	b.deliver("p", "q")
	if got := p.g.Status().Commit; got < pos {
		t.Fatalf("P has committed %d of %d", got, pos)
	}
	// Now it applies, and P is lost.
	q.g.learn(b.now, "cluster", &proposed)
	b.pass(2*time.Second, "q")
	if records, ok := q.led(); !ok || !slices.Equal(records, []string{"x"}) {
		t.Fatalf("Q serves with %v, %v", records, ok)
	}
}

// joining returns members P, which serves alone, and J, which P has proposed to let join. The swap has been sent.
func joining(t *testing.T) (*bench, Config) {
	b := newBench(t, "p", "j")
	p := b.members["p"]
	alone := Config{Epoch: 1, Members: []ID{p.id}, Primary: p.id, Nonce: Nonce{1, 1, 1}}
	b.teach(alone, "p")
	b.pass(2*time.Second, "p")
	b.append("p", "x")
	for _, m := range b.members {
		m.g.SetDesired(b.now, Desired{Names: []string{"p", "j"}})
	}
	for range 40 {
		b.pass(100*time.Millisecond, "p", "j")
		for _, name := range b.order {
			ops := b.members[name].ops
			if len(ops) == 0 {
				continue
			}
			if op := ops[len(ops)-1]; op.Swap {
				return b, op.Config
			}
			b.answer(name, RegisterResult{Outcome: Done, Cluster: "cluster", Found: true, Config: alone})
		}
	}
	t.Fatal("P has proposed nothing")
	return nil, Config{}
}

func TestAJoiningMemberIsNecessaryUntilTheSwapIsSettled(t *testing.T) {
	b, _ := joining(t)
	p := b.members["p"]
	b.pass(1500*time.Millisecond, "p") // J is silent, so P does not propose it again
	b.answer("p", RegisterResult{Outcome: Unknown})
	before := p.g.Status().Commit
	pos := b.append("p", "y")
	b.pass(500*time.Millisecond, "p")
	if got := p.g.Status().Commit; got != before {
		t.Errorf("P has committed %d without J", got)
	}
	// The old value settles nothing.
	b.answer("p", RegisterResult{Outcome: Done, Cluster: "cluster", Found: true, Config: p.g.Status().Config})
	b.pass(2*time.Second, "p") // J is silent
	if got := p.g.Status().Commit; got != before {
		t.Errorf("P has committed %d after it has read the old value", got)
	}
	// Another swap does.
	for range 20 {
		b.pass(500*time.Millisecond, "p")
		if len(p.ops) == 0 {
			continue
		}
		switch op := p.ops[len(p.ops)-1]; {
		case !op.Swap:
			b.answer("p", RegisterResult{Outcome: Done, Cluster: "cluster", Found: true, Config: p.g.Status().Config})
		case len(op.Config.Members) > 1:
			b.answer("p", RegisterResult{Outcome: Unknown})
		default:
			b.answer("p", RegisterResult{Outcome: Done, Cluster: "cluster"})
		}
	}
	b.pass(200*time.Millisecond, "p")
	if s := p.g.Status(); s.Commit < pos || len(s.Pending) > 0 {
		t.Errorf("P has committed %d of %d in %s, pending %v", s.Commit, pos, s.Config.String(), s.Pending)
	}
}

// Q is silent, and then back while the swap that drops it is under way. Until the outcome is known, nobody may take Q
// for a member that could take over.
func TestAMemberThatASwapMayHaveDroppedIsUncertain(t *testing.T) {
	b := pq(t)
	p, q := b.members["p"], b.members["q"]
	config := p.g.Status().Config
	found := RegisterResult{Outcome: Done, Cluster: "cluster", Found: true, Config: config}
	if got := p.g.Status().Uncertain; len(got) > 0 {
		t.Errorf("a group in which nothing happens: %v", got)
	}
	b.answer("p", found) // it reads the register now and then
	for range 40 {
		b.pass(50*time.Millisecond, "p")
		if n := len(p.ops); n > 0 && p.ops[n-1].Swap {
			break
		}
	}
	if n := len(p.ops); n == 0 || !p.ops[n-1].Swap || p.ops[n-1].Config.Has(q.id) {
		t.Fatal("P has not proposed to do without Q")
	}
	dropped := p.ops[len(p.ops)-1].Config
	uncertain := func(when string) {
		t.Helper()
		if s := p.g.Status(); !s.Config.Has(q.id) || !slices.Equal(s.Uncertain, []ID{q.id}) {
			t.Errorf("%s: %v of %v are uncertain", when, s.Uncertain, s.Config.Members)
		}
	}
	b.pass(500*time.Millisecond, "p", "q")
	uncertain("Q is back, and the swap under way")
	b.answer("p", RegisterResult{Outcome: Unknown})
	b.pass(500*time.Millisecond, "p", "q")
	uncertain("the outcome is unknown")
	b.answer("p", found)
	b.pass(500*time.Millisecond, "p", "q")
	uncertain("the register has the old value, and the next swap is under way")
	b.answer("p", RegisterResult{Outcome: Failed}) // the first one was done
	b.pass(500*time.Millisecond, "p", "q")
	b.answer("p", RegisterResult{Outcome: Done, Cluster: "cluster", Found: true, Config: dropped})
	b.pass(100*time.Millisecond, "p", "q")
	if s := p.g.Status(); s.Config.Has(q.id) || len(s.Uncertain) > 0 {
		t.Errorf("when the register says so: %v of %v are uncertain", s.Uncertain, s.Config.Members)
	}
}

func TestARestartKnowsOfAJoiningMember(t *testing.T) {
	b, _ := joining(t)
	p := b.restart("p", Options{})
	if got := p.g.Status().Pending; len(got) != 1 || got[0].Name != "j" {
		t.Fatalf("pending: %v, want J", got)
	}
	b.pass(2*time.Second, "p")
	if b.role("p") != Aligning {
		t.Errorf("P is %s without J", b.role("p"))
	}
	b.pass(2*time.Second, "p", "j")
	if b.role("p") != Serving {
		t.Errorf("P is %s with J", b.role("p"))
	}
}

func TestAMemberThatWasAwayGetsOnlyWhatItMissed(t *testing.T) {
	b := pq(t)
	p, q := b.members["p"], b.members["q"]
	for i := range 100 {
		b.append("p", fmt.Sprint(i))
	}
	b.deliver("p", "q")
	without := Config{Epoch: 2, Members: []ID{p.id}, Primary: p.id, Nonce: Nonce{p.id.Volume, 1, 9}}
	b.teach(without, "p")
	b.append("p", "missed")
	for _, m := range b.members {
		m.g.SetDesired(b.now, Desired{Names: []string{"p", "q"}})
	}
	b.teach(without, "q")
	written := len(q.entries)
	b.pass(time.Second, "p", "q")
	if q.g.log.last() != p.g.log.last() {
		t.Fatalf("Q has %d records, P has %d", q.g.log.last(), p.g.log.last())
	}
	records := 0
	for _, e := range q.entries[written:] {
		if e.Kind == EntryRecord {
			records++
		}
	}
	if records != 1 {
		t.Errorf("Q has written %d records, want the one that it missed", records)
	}
}

func TestAMemberIsNeverToldToStartAnew(t *testing.T) {
	b := pq(t)
	p, q := b.members["p"], b.members["q"]
	b.append("p", "x")
	b.deliver("p", "q")
	last := q.g.log.last()
	q.g.Step(b.now, &Message{From: p.id, To: q.id,
		Body: &Frame{Session: q.g.state.Session, Config: q.g.state.Config, Cluster: "cluster",
			Position: last + 50, Stamp: Stamp{9, 9}, Reset: true}})
	if q.g.log.last() != last {
		t.Fatalf("Q has %d records, and had %d", q.g.log.last(), last)
	}
}

func TestAPrimaryThatLacksCommittedRecordsGivesUp(t *testing.T) {
	b := pq(t)
	p := b.members["p"]
	before, durable := slices.Clone(p.entries), p.durable
	for i := range 5 {
		b.append("p", fmt.Sprint(i))
	}
	b.deliver("p", "q")
	b.pass(200*time.Millisecond, "p", "q") // Q learns that they are committed
	p.entries, p.durable = before, durable // P's volume is what it was earlier
	b.restart("p", Options{})
	b.pass(time.Second, "p", "q")
	if b.role("p") != Broken {
		t.Errorf("P is %s", b.role("p"))
	}
}

func TestAnotherOrAnOlderRegisterFreezesTheGroup(t *testing.T) {
	for name, res := range map[string]RegisterResult{
		"another": {Outcome: Done, Cluster: "other", Found: true, Config: Config{Epoch: 7}},
		"older":   {Outcome: Done, Cluster: "cluster", Found: true, Config: Config{Epoch: 0}},
		"empty":   {Outcome: Done, Cluster: "cluster"},
		"forked":  {Outcome: Done, Cluster: "cluster", Found: true, Config: Config{Epoch: 1, Nonce: Nonce{5, 5, 5}}},
	} {
		b := pq(t)
		p := b.members["p"]
		p.ops = nil
		p.g.register.busy = false
		p.g.RegisterChanged(b.now)
		b.sync("p")
		b.answer("p", res)
		if p.g.Status().Frozen == "" {
			t.Errorf("%s: not frozen", name)
		}
		pos := b.append("p", "x")
		b.deliver("p", "q")
		if p.g.Status().Commit < pos {
			t.Errorf("%s: a frozen group does not go on", name)
		}
	}
}

func TestALateReadDoesNotFreezeTheGroup(t *testing.T) {
	b := pq(t)
	p := b.members["p"]
	old := p.g.Status().Config
	p.ops = nil
	p.g.register.busy = false
	p.g.RegisterChanged(b.now)
	b.sync("p")
	b.teach(Config{Epoch: 2, Members: old.Members, Primary: old.Primary, Nonce: Nonce{p.id.Volume, 1, 2}}, "p")
	b.answer("p", RegisterResult{Outcome: Done, Cluster: "cluster", Found: true, Config: old})
	if s := p.g.Status(); s.Frozen != "" || s.Config.Epoch != 2 {
		t.Errorf("frozen %q in %s", s.Frozen, s.Config.String())
	}
}

func TestALateReleaseEndsNoLease(t *testing.T) {
	b := pq(t)
	q := b.members["q"]
	until := q.g.grantUntil
	release := &Frame{Session: q.g.state.Session, Config: q.g.state.Config, Cluster: "cluster",
		Position: q.g.log.last(), Stamp: q.g.log.stamp(q.g.log.last()),
		SentAt: q.g.grantSentAt - 1, Released: true}
	q.g.Step(b.now, &Message{From: b.members["p"].id, To: q.id, Body: release})
	if q.g.grantUntil < until {
		t.Error("a release from before the last grant has ended it")
	}
	release.SentAt = q.g.grantSentAt + 1
	q.g.Step(b.now, &Message{From: b.members["p"].id, To: q.id, Body: release})
	if q.g.grantUntil != b.now.Mono {
		t.Error("a release has not ended the grant")
	}
}

func TestAppendRefusesBeyondItsLimits(t *testing.T) {
	b := pq(t)
	g := b.members["p"].g
	g.opts.MaxUncommittedBytes, g.opts.MaxRecordBytes, g.opts.MaxLogBytes = 100, 80, 10_000
	if _, err := g.Append(b.now, make([]byte, 81)); err == nil {
		t.Error("a record beyond the limit was taken")
	}
	b.append("p", string(make([]byte, 80)))
	if _, err := g.Append(b.now, make([]byte, 80)); !errors.Is(err, ErrBusy) {
		t.Errorf("beyond what may wait: %v", err)
	}
	b.deliver("p", "q")
	for range 200 {
		if _, err := g.Append(b.now, make([]byte, 80)); errors.Is(err, ErrFull) {
			g.Collect(b.now, g.Status().Commit)
			b.append("p", "room again")
			return
		}
		b.deliver("p", "q")
	}
	t.Error("the log is never full")
}

func TestAVolumeOfAnotherGroupNeitherJoinsNorDisturbs(t *testing.T) {
	b := newBench(t, "p", "q", "o")
	teach := func(name string) {
		id := b.members[name].id
		b.teach(Config{Group: id.Volume, Epoch: 1, Members: []ID{id}, Primary: id, Nonce: Nonce{id.Volume, 1, 1}}, name)
		b.pass(2*time.Second, name)
		b.append(name, "of "+name)
		b.pass(time.Second, name)
	}
	teach("o")
	teach("p")
	for _, m := range b.members {
		m.g.SetDesired(b.now, Desired{Names: []string{"p", "o"}})
	}
	without := b.members["o"].g.Status().Config
	without.Epoch, without.Members, without.Primary = 5, []ID{{"elsewhere", 9}}, ID{"elsewhere", 9}
	b.teach(without, "o") // it looks for a primary now
	b.pass(3*time.Second, "p", "o")
	if b.role("p") != Serving || len(b.members["p"].g.lead.peers) > 0 || !b.members["o"].g.Status().Diverged {
		t.Errorf("P is %s; O is %s, diverged: %v", b.role("p"), b.role("o"), b.members["o"].g.Status().Diverged)
	}
	if got := string(b.members["o"].g.log.at(2).Data); got != "of o" {
		t.Errorf("O has lost its record, and has %q", got)
	}
}

// A follower of a frozen group whose primary is gone may not take over, and does not say that it follows.
func TestAFrozenFollowerWithoutAPrimaryDoesNotFollow(t *testing.T) {
	g := New(DefaultOptions(ID{"2", 2}), &Image{}, causal.Now{Mono: 1})
	g.Appended(causal.Now{Mono: 1}, g.lifeIndex)
	g.state.Config = Config{Group: 1, Epoch: 3, Members: []ID{{"1", 1}, {"2", 2}}, Primary: ID{"1", 1}}
	g.frozen = frozenForeign
	if s := g.Status(); s.Role != Following || !s.Foreign {
		t.Errorf("with a primary: %s", s.Role)
	}
	for at := int64(0); at < 2*int64(g.opts.FailoverAfter); at += int64(g.opts.Heartbeat) {
		// a longer pause would be this process' own
		g.Tick(causal.Now{Mono: 1 + at})
	}
	if s := g.Status(); s.Role != Electing {
		t.Errorf("without a primary: %s", s.Role)
	}
	if h := g.Health(causal.Now{Mono: 1 + 3*int64(g.opts.FailoverAfter)}); h.Frozen < g.opts.FailoverAfter {
		t.Errorf("frozen for %s", h.Frozen)
	}
}
