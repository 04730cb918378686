package nearcopy

import (
	"fmt"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

var (
	self  = topology.Node{Part: topology.Sidecar, Index: 1}
	cache = topology.Node{Part: topology.Cache}
)

const (
	term     = time.Second
	maxBytes = 128 << 10
)

// rig drives a store, and writes the messages of the cache itself.
type rig struct {
	t   *testing.T
	s   *Store
	out causal.Outbox
	now causal.Now
	pos causal.StreamPosition
}

// newRig returns a store without streams.
func newRig(t *testing.T, most int, mutations ...causal.Mutation) *rig {
	r := &rig{t: t, now: causal.Now{Mono: int64(time.Hour), WallMs: 1000}}
	r.s = New(Config{Self: self, MaxBytes: most, HotReads: 2, HotWindow: time.Second,
		Broken: causal.MutationsOf(mutations...)}, &r.out)
	return r
}

// newLeased returns a store with the first version of x, brought by stream 7, and a lease.
func newLeased(t *testing.T, mutations ...causal.Mutation) *rig {
	r := newRig(t, maxBytes, mutations...)
	r.pos.Epoch = 7
	r.give("x", 10, 0)
	r.grant(r.renewal())
	return r
}

func (r *rig) send(m causal.Message) { r.s.Step(r.now, &m, causal.NoLimit) }

// onStream sends the next message of the stream.
func (r *rig) onStream(m causal.Message) {
	r.pos.Seq++
	m.SetStreamPosition(r.pos)
	r.send(m)
}

func (r *rig) give(key string, hlc causal.HLC, size int) {
	rec := causal.Record{Version: causal.Version{HLC: hlc, Origin: 1}, Value: causal.Value{Data: make([]byte, size)}}
	m := causal.GetReply{ID: 1, Key: key, Record: rec, Status: causal.Stable}
	r.onStream(m.Message(cache, self))
}

func (r *rig) invalidate(key string, next causal.HLC) {
	r.onStream(causal.Invalidate{KeyHash: topology.Hash(key), Next: next}.Message(cache, self))
}

func (r *rig) grant(id uint64) {
	r.onStream(causal.LeaseGrant{ID: id, Duration: term}.Message(cache, self))
}

// sent returns what the store has sent of a kind; messages of other kinds are dropped.
func (r *rig) sent(kind causal.Kind) (found []causal.Message) {
	for _, m := range r.out.Take(nil) {
		if m.Kind == kind {
			found = append(found, m)
		}
	}
	return found
}

// renewal returns the id of the lease renewal that was sent.
func (r *rig) renewal() uint64 {
	r.t.Helper()
	all := r.sent(causal.KindLease)
	if len(all) != 1 {
		r.t.Fatalf("%d lease renewals, want 1", len(all))
	}
	return all[0].LeaseRenewal().ID
}

func (r *rig) pass(d time.Duration) { r.now.Mono += int64(d) }

func (r *rig) finds(key string) bool {
	_, ok := r.find(key, 0)
	return ok
}

// find reads a key at a cut; 0: the newest version.
func (r *rig) find(key string, cut causal.HLC) (causal.Record, bool) {
	rec, ok := r.s.Find(r.now, []byte(key), topology.Hash(key), cut)
	if !ok {
		return causal.Record{}, false
	}
	return *rec, true
}

// Invalidations of a copy may come in any order: writes that lost, and the one that won.
func TestACopyEndsAtTheFirstVersionAfterIt(t *testing.T) {
	r := newLeased(t)
	r.invalidate("x", 30)
	r.invalidate("x", 40)
	find := func(cut causal.HLC) bool {
		_, ok := r.s.Find(r.now, []byte("x"), topology.Hash("x"), cut)
		return ok
	}
	if !find(29) || find(30) || find(35) {
		t.Errorf("at 29 it is served: %v, at 30: %v, at 35: %v", find(29), find(30), find(35))
	}
}

// It is over at the cache, which has opened another one since.
func TestALateMessageOpensNoEarlierNearStream(t *testing.T) {
	r := newLeased(t)
	r.sent(causal.KindLease)
	m := causal.GetReply{ID: 1, Key: "y", Record: causal.Record{Version: causal.Version{HLC: 5, Origin: 1}},
		Status: causal.Stable}.Message(cache, self)
	m.SetStreamPosition(causal.StreamPosition{Epoch: r.pos.Epoch - 1, Seq: 1})
	r.send(m)
	if n, _ := r.s.Size(); n != 1 || len(r.s.order) != 1 {
		t.Errorf("%d copies on %d streams", n, len(r.s.order))
	}
}

func TestANearCopyThatIsReplacedTakesNoMemory(t *testing.T) {
	r := newLeased(t)
	_, want := r.s.Size()
	r.give("x", 20, 0)
	if n, bytes := r.s.Size(); n != 1 || bytes != want || want == 0 {
		t.Errorf("%d copies take %d bytes, one takes %d", n, bytes, want)
	}
}

func TestACopyIsServedWhileItsLeaseRuns(t *testing.T) {
	r := newRig(t, maxBytes)
	r.pos.Epoch = 7
	r.give("x", 10, 0)
	id := r.renewal()
	if r.finds("x") {
		t.Error("served before a lease was granted")
	}
	r.pass(200 * time.Millisecond)
	r.grant(id)
	got, ok := r.find("x", 0)
	if !ok || got.Version.HLC != 10 {
		t.Errorf("got %+v, %t", got, ok)
	}
	if r.finds("y") {
		t.Error("a key that was never given is found")
	}
	r.pass(term - term/50 - 201*time.Millisecond) // the lease counts from when it was asked for
	if !r.finds("x") {
		t.Error("not served shortly before the lease ends")
	}
	r.pass(time.Millisecond)
	if r.finds("x") {
		t.Error("served after the lease")
	}
	r.s.Tick(r.now)
	if resets := r.sent(causal.KindStreamReset); len(resets) != 1 || resets[0].StreamReset().MaxEpoch != 7 {
		t.Errorf("when the lease has ended the cache hears %+v", resets)
	}
}

func TestAnInvalidationIsConfirmedWhenTheCopyIsGone(t *testing.T) {
	r := newLeased(t)
	r.invalidate("x", 0)
	acks := r.sent(causal.KindInvalidateAck)
	if len(acks) != 1 || acks[0].InvalidateAck() != (causal.InvalidateAck{Epoch: 7, AckedSeq: r.pos.Seq}) {
		t.Errorf("confirmed %+v", acks)
	}
	if r.finds("x") {
		t.Error("the copy is still served")
	}
	if n, bytes := r.s.Size(); n != 0 || bytes != 0 {
		t.Errorf("%d copies of %d bytes are left", n, bytes)
	}
}

func TestACopyWithANextVersionIsForOlderReadersOnly(t *testing.T) {
	r := newLeased(t)
	r.invalidate("x", 20)
	for _, c := range []struct {
		what string
		cut  causal.HLC
		want bool
	}{
		{"the latest version", 0, false},
		{"a cut below the next version", 19, true},
		{"a cut at the next version", 20, false},
		{"a cut above the next version", 21, false},
		{"a cut below the copy", 9, false},
	} {
		if _, ok := r.find("x", c.cut); ok != c.want {
			t.Errorf("%s: found %t", c.what, ok)
		}
	}
	r.invalidate("x", 15) // an earlier one that came later
	if _, ok := r.find("x", 15); ok {
		t.Error("the least of the next versions counts")
	}
}

func TestAStreamEndsAfterAGap(t *testing.T) {
	r := newLeased(t)
	r.pos.Seq++ // a message is lost
	r.give("y", 11, 0)
	resets := r.sent(causal.KindStreamReset)
	if len(resets) != 1 || resets[0].StreamReset().MaxEpoch != 7 {
		t.Errorf("the cache hears %+v", resets)
	}
	if r.finds("x") || r.finds("y") {
		t.Error("copies are served after a gap")
	}
	r.pos = causal.StreamPosition{Epoch: 7}
	if r.give("x", 12, 0); r.finds("x") || len(r.sent(causal.KindStreamReset)) != 1 {
		t.Error("a stream that has ended is opened again")
	}
	r.pos = causal.StreamPosition{Epoch: 8}
	r.give("x", 12, 0)
	if r.grant(r.renewal()); !r.finds("x") {
		t.Error("a further stream is refused")
	}
}

func TestMessagesThatCameBeforeAreIgnored(t *testing.T) {
	r := newLeased(t)
	old := r.pos
	r.invalidate("x", 0)
	r.sent(causal.KindInvalidateAck)
	m := causal.GetReply{Key: "x", Record: causal.Record{Version: causal.Version{HLC: 10, Origin: 1}},
		Status: causal.Stable}.Message(cache, self)
	m.SetStreamPosition(old)
	if r.send(m); r.finds("x") || len(r.out.Take(nil)) != 0 {
		t.Error("a duplicate brings a copy back")
	}
}

func TestAStreamDoesNotBeginInTheMiddle(t *testing.T) {
	r := newRig(t, maxBytes)
	r.pos = causal.StreamPosition{Epoch: 7, Seq: 1}
	r.give("x", 10, 0)
	if len(r.sent(causal.KindStreamReset)) != 1 {
		t.Error("the cache does not hear that the stream is refused")
	}
	if n, _ := r.s.Size(); n != 0 {
		t.Errorf("%d copies are kept", n)
	}
}

func TestAllCopiesGoWithEndAll(t *testing.T) {
	r := newLeased(t)
	r.s.EndAll()
	if r.finds("x") || len(r.sent(causal.KindStreamReset)) != 1 || r.s.NextTick() != causal.Never {
		t.Error("a stream is left")
	}
}

func TestKeysAreHotAfterReadsWithinAWindow(t *testing.T) {
	r := newRig(t, maxBytes)
	want := func(what string, most uint64) {
		t.Helper()
		if got := r.s.Wanted(r.now, "x"); got != most {
			t.Errorf("%s: a copy of at most %d bytes is wanted, want %d", what, got, most)
		}
	}
	want("the first read", 0)
	want("the second read", maxBytes/largestShare)
	r.pass(time.Second)
	want("a read in the next window, after two in the last one", maxBytes/largestShare)
	r.pass(2 * time.Second)
	want("a read two windows later", 0)
	if newRig(t, 0).s.Wanted(r.now, "x") != 0 {
		t.Error("wanted without memory for copies")
	}
	r = newRig(t, 1<<30)
	r.s.Wanted(r.now, "x")
	want("much memory", maxNearMax)
}

func TestAKeyWhoseCopyIsReadStaysHotWhenItIsWritten(t *testing.T) {
	r := newLeased(t)
	for range 3 {
		if !r.finds("x") {
			t.Fatal("there is no copy of x")
		}
	}
	r.pass(time.Second)
	if r.s.Wanted(r.now, "x") == 0 {
		t.Error("the copy was read three times in the last window, and the key is not hot")
	}
	r.pass(3 * time.Second)
	if r.s.Wanted(r.now, "x") != 0 {
		t.Error("the key is hot though nobody has read it for long")
	}
}

func TestCopiesAreBoundedByBytes(t *testing.T) {
	r := newLeased(t)
	for i := range 200 {
		r.give(fmt.Sprint("key", i), causal.HLC(20+i), 3000)
		if _, bytes := r.s.Size(); bytes > maxBytes {
			t.Fatalf("%d bytes after %d copies", bytes, i)
		}
	}
	n, bytes := r.s.Size()
	sum := 0
	for _, e := range r.s.entries.Values() {
		sum += e.size()
	}
	if n == 0 || sum != bytes {
		t.Errorf("%d copies of %d bytes are counted as %d", n, sum, bytes)
	}
	if r.finds("x") || !r.finds("key199") || r.s.Stats().Evicted != uint64(201-n) {
		t.Errorf("not the oldest were evicted: %+v", r.s.Stats())
	}
	r.give("key199", 1000, maxBytes)
	if got, _ := r.find("key199", 0); len(got.Value.Data) > 3000 {
		t.Error("a value larger than the bound is kept")
	}
}

func TestAnOlderVersionDoesNotReplaceANewerOne(t *testing.T) {
	r := newLeased(t)
	r.give("x", 9, 0)
	if got, _ := r.find("x", 0); got.Version.HLC != 10 {
		t.Errorf("version %d is served", got.Version.HLC)
	}
}

func TestALeaseIsRenewedWhileCopiesAreRead(t *testing.T) {
	r := newLeased(t)
	for range 30 {
		r.pass(term / 2)
		r.finds("x")
		r.s.Tick(r.now)
		r.grant(r.renewal())
	}
	if !r.finds("x") {
		t.Error("the lease has ended although it was renewed")
	}
	r.pass(streamIdle + 1)
	if r.s.Tick(r.now); len(r.sent(causal.KindLease)) != 0 {
		t.Error("a lease that nobody uses is renewed")
	}
}
