package coordinator

import (
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// holder is a sidecar that gets leases.
var holder = topology.Node{Part: topology.Sidecar, Index: 7}

// newLeasing returns a home whose log says that it gives leases.
func newLeasing(t *testing.T, mutations ...causal.Mutation) *harness {
	h := newHarness(t, 1, 0, mutations...)
	h.cfg.Home = true
	h.restart(h.now)
	h.haveHomes(1)
	h.lease(holder, "first")
	h.sync()
	return h
}

// lease asks for a lease on a key for a sidecar, and returns the answer.
func (h *harness) lease(to topology.Node, key string) causal.HomeReply {
	h.t.Helper()
	replies := homeReplies(h.step(causal.HomeRead{ID: 5, Key: key, Lease: true}.Message(to, h.cfg.Self)))
	if len(replies) != 1 || replies[0].Err != causal.OK {
		h.t.Fatalf("the home answers %+v", replies)
	}
	return replies[0]
}

// withdrawn returns the id of the lease that messages withdraw; 0: none.
func withdrawn(ms []causal.Message) (id uint64) {
	for _, r := range homeReplies(ms) {
		id = max(id, r.Withdrawn)
	}
	return id
}

func (h *harness) confirms(from topology.Node, key string, id uint64) []causal.Message {
	return h.step(causal.HomeRead{Key: key, Withdrawn: id}.Message(from, h.cfg.Self))
}

func acknowledged(ms []causal.Message) int { return len(ofKind(ms, causal.KindPutReply)) }

// PROTOCOL HON-1
func TestALeaseIsGivenOnlyWhileTheHomeHasForgottenTheKey(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newLeasing(t, mutationIf(broken, causal.HomeLeaseBusy)...)
		if r := h.lease(holder, "x"); r.LeaseMs != uint64(HomeLease.Milliseconds()) || r.Grant == 0 {
			t.Fatalf("of a key that nobody writes, it says %+v", r)
		}
		h.step(causal.Put{Seq: 1, Key: "y", Value: valueOf("1")}.Message(app, h.cfg.Self))
		if r := h.lease(holder, "y"); (r.Grant != 0) != broken {
			t.Errorf("broken %v: while a write is under way, it says %+v", broken, r)
		}
		if broken {
			continue
		}
		h.sync()
		v := reply(t, h.c.Take(nil)).Version
		if r := h.lease(holder, "z"); r.Grant == 0 {
			t.Error("a write holds a lease on another key back")
		}
		h.ack(shardsA, v)
		h.ack(shardsB, v)
		if r := h.lease(holder, "y"); r.Grant != 0 {
			t.Errorf("while it keeps the write, it says %+v", r)
		}
	}
}

func TestAReadForUpdateAndASidecarOfAnotherDataCenterGetNoLease(t *testing.T) {
	h := newLeasing(t)
	read := causal.HomeRead{ID: 5, Key: "x", Lease: true, ForUpdate: true}
	if r := homeReplies(h.step(read.Message(holder, h.cfg.Self))); len(r) != 1 || r[0].Grant != 0 {
		t.Errorf("a read for update is answered with %+v", r)
	}
	if r := h.lease(topology.Node{DC: 1, Part: topology.Sidecar}, "x"); r.Grant != 0 {
		t.Errorf("another data center is answered with %+v", r)
	}
}

// PROTOCOL HON-2: two sidecars have leases on x; a write of it, and what comes after, waits for both.
func TestAWriteIsPublishedWhenNoLeaseOnItsKeyRuns(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newLeasing(t, mutationIf(broken, causal.HomeLeaseIgnored)...)
		other := topology.Node{Part: topology.Sidecar, Index: 8}
		first, second := h.lease(holder, "x").Grant, h.lease(other, "x").Grant
		before, after := h.put(causal.Put{Seq: 1, Key: "x", Value: valueOf("1")})
		if withdrawn(before) == 0 {
			t.Error("the leases are not withdrawn when the write is accepted")
		}
		_, next := h.put(causal.Put{Seq: 2, Key: "y", Value: valueOf("1")})
		if got := acknowledged(after) + acknowledged(next); (got > 0) != broken {
			t.Errorf("broken %v: %d writes are acknowledged while leases run", broken, got)
		}
		if broken {
			continue
		}
		if !h.top("x").Record.Version.IsZero() || !h.top("y").Record.Version.IsZero() {
			t.Error("what waits is visible")
		}
		if got := acknowledged(h.confirms(holder, "x", first)); got > 0 {
			t.Error("it waits for one of two only")
		}
		if got := acknowledged(h.confirms(other, "x", second)); got != 2 {
			t.Errorf("when both have confirmed, %d writes are acknowledged", got)
		}
		if string(h.top("x").Record.Value.Data) != "1" || h.c.Leases().HeldNs != 0 {
			t.Errorf("it has %+v", h.top("x"))
		}
	}
}

func TestAWriteOfAKeyWithoutLeasesDoesNotWait(t *testing.T) {
	h := newLeasing(t)
	h.lease(holder, "x")
	if _, after := h.put(causal.Put{Seq: 1, Key: "y", Value: valueOf("1")}); acknowledged(after) != 1 {
		t.Error("it is not acknowledged at once")
	}
}

func TestALeaseThatWasGivenAgainEndsWithTheNewerOne(t *testing.T) {
	h := newLeasing(t)
	first, second := h.lease(holder, "x").Grant, h.lease(holder, "x").Grant
	before, _ := h.put(causal.Put{Seq: 1, Key: "x", Value: valueOf("1")})
	if first == second || withdrawn(before) != second {
		t.Errorf("leases %d and %d were given, and %d is withdrawn", first, second, withdrawn(before))
	}
	if acknowledged(h.confirms(holder, "x", first)) > 0 || acknowledged(h.confirms(holder, "x", second)) != 1 {
		t.Error("the write does not wait for the newer one")
	}
}

// PROTOCOL HON-8
func TestASidecarThatDoesNotConfirmAWithdrawalGetsNoLeaseForAWhile(t *testing.T) {
	h := newLeasing(t)
	h.lease(holder, "x")
	h.put(causal.Put{Seq: 1, Key: "x", Value: valueOf("1")})
	ms := h.tick(HomeLease.Milliseconds() - 1)
	if acknowledged(ms) > 0 {
		t.Error("the lease still runs")
	}
	if ms = h.tick(1); acknowledged(ms) != 1 {
		t.Error("the write waits for longer than the lease")
	}
	if s := h.c.Leases(); s.Silent != 1 || s.Leases != 0 || s.Bytes != 0 || s.HeldNs != uint64(HomeLease) {
		t.Errorf("it counts %+v", s)
	}
	if h.lease(holder, "y").Grant != 0 {
		t.Error("it gets another one at once")
	}
	if h.lease(topology.Node{Part: topology.Sidecar, Index: 8}, "y").Grant == 0 {
		t.Error("another sidecar gets none")
	}
	h.tick(homeSilence.Milliseconds())
	if h.lease(holder, "y").Grant == 0 {
		t.Error("it never gets one again")
	}
}

// PROTOCOL HON-4
func TestAHomeThatStartsWaitsForEarlierLeases(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newLeasing(t, mutationIf(broken, causal.HomeLeasesForgotten)...)
		put := causal.Put{Seq: 1, Key: "x", Value: valueOf("1")}
		h.write(put)
		h.lease(holder, "y")
		h.restart(h.now)
		h.c.Take(nil)
		put.Resent = true
		again := h.step(put.Message(app, h.cfg.Self))
		read := h.ask(causal.HomeRead{ID: 5, Key: "y"})
		_, next := h.put(causal.Put{Seq: 2, Key: "y", Value: valueOf("2")})
		scan := h.scan(causal.Scan{ID: 6, Limit: 10})
		waits := acknowledged(again) == 0 && acknowledged(next) == 0 && read[0].Err == causal.ErrUnavailable &&
			scan.Err == causal.ErrUnavailable
		if waits == broken {
			t.Errorf("broken %v: it waits: %v", broken, waits)
		}
		if broken {
			continue
		}
		if got := acknowledged(h.tick(HomeLease.Milliseconds())); got != 2 {
			t.Errorf("afterwards %d puts are acknowledged", got)
		}
		if r := h.top("y"); string(r.Record.Value.Data) != "2" {
			t.Errorf("it has %+v", r)
		}
	}
}

// PROTOCOL HON-4
func TestOnlyAHomeThatMayHaveGivenLeasesWaitsWhenItStarts(t *testing.T) {
	h := newHarness(t, 1, 0)
	h.cfg.Home = true
	h.restart(h.now)
	h.haveHomes(1)
	answersAtOnce := func() bool {
		h.restart(h.now)
		return h.ask(causal.HomeRead{ID: 5, Key: "x"})[0].Err == causal.OK
	}
	if !answersAtOnce() {
		t.Error("it waits when no lease was asked for")
	}
	if h.lease(holder, "x").Grant != 0 {
		t.Error("a lease is given that the log does not tell of")
	}
	if !answersAtOnce() {
		t.Error("it waits when none was given")
	}
	h.lease(holder, "x")
	h.sync()
	if h.lease(holder, "x").Grant == 0 {
		t.Error("none is given when the log tells of them")
	}
	if answersAtOnce() {
		t.Error("it does not wait")
	}
	h.tick(leaseMemory.Milliseconds())
	h.sync()
	if !answersAtOnce() {
		t.Error("it waits when none was asked for in a long time")
	}
}

// The log says that there are leases, then that there are none, and then again that there are. Until the last is
// durable, a restart might find that there are none.
func TestNoLeaseIsGivenWhileARestartMayFindThatThereAreNone(t *testing.T) {
	h := newLeasing(t)
	h.tick(leaseMemory.Milliseconds())
	if h.lease(holder, "x").Grant != 0 {
		t.Error("one is given")
	}
	h.sync()
	if h.lease(holder, "x").Grant == 0 {
		t.Error("none is given afterwards")
	}
}

func TestAHomeThatBeginsToApplyAnExclusionWaitsForEarlierLeases(t *testing.T) {
	h := newLeasing(t)
	h.c.home.leases.reopen(h.now)
	if r := h.ask(causal.HomeRead{ID: 5, Key: "y"}); r[0].Err != causal.ErrUnavailable {
		t.Errorf("it answers %+v", r)
	}
	h.tick(HomeLease.Milliseconds())
	h.exclude(1)
	h.sync()
	if r := h.ask(causal.HomeRead{ID: 5, Key: "y"}); len(r) > 0 && r[0].Err == causal.OK {
		t.Errorf("after an exclusion it answers %+v", r)
	}
}

// PROTOCOL HON-8
func TestLeasesOfAHomeAreBounded(t *testing.T) {
	h := newLeasing(t)
	key := strings.Repeat("k", causal.MaxKeyBytes-8)
	given := 0
	for i := range 2*maxLeaseBytesOfOne/len(key) + 2 {
		if h.lease(holder, key+string(rune('a'+i%26))+string(rune('a'+i/26%26))+string(rune('a'+i/676))).Grant != 0 {
			given++
		}
	}
	s := h.c.Leases()
	if s.Bytes > maxLeaseBytesOfOne || s.Bytes < maxLeaseBytesOfOne-causal.MaxKeyBytes-leaseBytes || s.Denied == 0 ||
		s.Leases != given {
		t.Errorf("%d leases are given, and it counts %+v", given, s)
	}
	h.tick((2 * time.Second).Milliseconds())
	if h.lease(holder, "x").Grant == 0 || h.c.Leases().Leases != 1 {
		t.Errorf("when they are over, it counts %+v", h.c.Leases())
	}
}
