package cache

import (
	"fmt"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

var (
	sidecarNode   = topology.Node{Part: topology.Sidecar, Index: 1}
	middlemanNode = topology.Node{Part: topology.Middleman}
	cacheNode     = topology.Node{Part: topology.Cache}
	leaderNode    = topology.Node{Part: topology.Coordinator}
)

// harness drives a cache in front of a single middleman, whose messages the test writes itself.
type harness struct {
	t     *testing.T
	c     *Cache
	now   causal.Now
	pos   causal.StreamPosition
	lease uint64 // id of the newest renewal
}

const leaseTerm = 3 * time.Second

// completeUpTo is what the leader has said to be complete.
const completeUpTo = causal.HLC(100)

// newHarness returns a cache with an open stream and a granted lease.
func newHarness(t *testing.T, mutations ...causal.Mutation) *harness {
	t.Helper()
	topo, err := topology.New(1, []topology.DataCenter{{Name: "a", Coordinators: 1, Caches: 1, Shards: 1}},
		[]topology.Ring{{Name: "r", DCs: []topology.DC{0}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig(topo, cacheNode)
	cfg.Broken = causal.MutationsOf(mutations...)
	h := &harness{t: t, c: New(cfg), now: causal.Now{Mono: 1, WallMs: 1000}}
	t.Cleanup(func() {
		if cfg.Broken.Any() {
			return
		}
		for _, wrong := range h.c.CheckCounts() {
			t.Error(wrong)
		}
	})
	h.send(causal.StreamReset{MaxEpoch: 7, Incarnation: 5}.Message(middlemanNode, cacheNode))
	sent := h.take()
	open := only(t, sent, causal.KindStreamOpen).StreamOpen()
	if open.Epoch <= 7 || open.Incarnation != 5 {
		t.Fatalf("after a reset by incarnation 5 with epoch 7 the cache opens %+v", open)
	}
	h.send(
		causal.Vectors{
			Entries: []causal.VectorEntry{{Origin: 1, Last: topology.MaxCoordinators, SV: completeUpTo}},
		}.Message(leaderNode, cacheNode))
	h.pos = causal.StreamPosition{Epoch: open.Epoch}
	h.lease = only(t, sent, causal.KindLease).LeaseRenewal().ID
	h.grant()
	return h
}

func (h *harness) send(m causal.Message) { h.c.Step(h.now, &m) }

func (h *harness) take() []causal.Message { return h.c.Take(nil) }

// onStream sends a message as the next one of the stream.
func (h *harness) onStream(m causal.Message) {
	h.pos.Seq++
	m.SetStreamPosition(h.pos)
	h.send(m)
}

func (h *harness) grant() {
	h.onStream(causal.LeaseGrant{ID: h.lease, Duration: leaseTerm}.Message(middlemanNode, cacheNode))
}

func (h *harness) get(id uint64) []causal.Message {
	h.send(causal.Get{ID: id, Key: "x"}.Message(sidecarNode, cacheNode))
	return h.take()
}

// fill answers the fill among sent with a version.
func (h *harness) fill(sent []causal.Message, hlc causal.HLC, status causal.Status) []causal.Message {
	h.t.Helper()
	f := only(h.t, sent, causal.KindFill).Fill()
	h.onStream(causal.FillReply{ID: f.ID, Key: f.Key, Record: record(hlc), Status: status}.Message(middlemanNode,
		cacheNode))
	return h.take()
}

func record(hlc causal.HLC) causal.Record {
	return causal.Record{Version: causal.Version{HLC: hlc, Origin: 1}, Value: causal.Value{Data: []byte("v")}}
}

// only returns the only message of a kind.
func only(t *testing.T, ms []causal.Message, kind causal.Kind) *causal.Message {
	t.Helper()
	var found []causal.Message
	for _, m := range ms {
		if m.Kind == kind {
			found = append(found, m)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d messages of kind %s, want 1", len(found), kind)
	}
	return &found[0]
}

// hit reports whether a get of the key is answered from memory, and with which HLC.
func (h *harness) hit() (causal.HLC, bool) {
	h.t.Helper()
	for _, m := range h.get(99) {
		if m.Kind == causal.KindGetReply && m.GetReply().Hit {
			return m.GetReply().Record.Version.HLC, true
		}
	}
	return 0, false
}

func TestOnlyStableValuesAreCached(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newHarness(t, mutationIf(broken, causal.CacheInFlight)...)
		reply := only(t, h.fill(h.get(1), 10, causal.InFlight), causal.KindGetReply).GetReply()
		if reply.ID != 1 || reply.Status != causal.InFlight || reply.Hit {
			t.Errorf("the reader got %+v", reply)
		}
		if _, hit := h.hit(); hit != broken {
			t.Errorf("with cache-in-flight %v an in-flight value is cached: %v", broken, hit)
		}
	}
	h := newHarness(t)
	h.fill(h.get(1), 10, causal.Stable)
	if hlc, hit := h.hit(); !hit || hlc != 10 {
		t.Errorf("a stable value was cached: %v, version %d", hit, hlc)
	}
}

func mutationIf(broken bool, f causal.Mutation) []causal.Mutation {
	if broken {
		return []causal.Mutation{f}
	}
	return nil
}

func TestAnInvalidationIsConfirmedOnlyOnceTheCopyIsGone(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newHarness(t, mutationIf(broken, causal.InvalidateLate)...)
		h.fill(h.get(1), 10, causal.Stable)
		h.onStream(causal.Invalidate{KeyHash: topology.Hash("x"), Next: 20}.Message(middlemanNode, cacheNode))
		ack := only(t, h.take(), causal.KindInvalidateAck).InvalidateAck()
		if ack.Epoch != h.pos.Epoch || ack.AckedSeq != h.pos.Seq {
			t.Errorf("confirmed %+v, want all up to %+v", ack, h.pos)
		}
		if _, hit := h.hit(); hit != broken {
			t.Errorf("with invalidate-late %v the copy is served after the confirmation: %v", broken, hit)
		}
	}
}

func TestAFillThatAnInvalidationOvertookIsNotKept(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newHarness(t, mutationIf(broken, causal.FillUnordered)...)
		f := only(t, h.get(1), causal.KindFill).Fill()
		fill := causal.FillReply{ID: f.ID, Key: f.Key, Record: record(10), Status: causal.Stable}.Message(middlemanNode,
			cacheNode)
		invalidate := causal.Invalidate{KeyHash: topology.Hash("x"), Next: 20}.Message(middlemanNode, cacheNode)
		fill.SetStreamPosition(causal.StreamPosition{Epoch: h.pos.Epoch, Seq: h.pos.Seq + 1})
		invalidate.SetStreamPosition(causal.StreamPosition{Epoch: h.pos.Epoch, Seq: h.pos.Seq + 2})
		h.send(invalidate)
		h.send(fill)
		h.take()
		if _, hit := h.hit(); hit != broken {
			t.Errorf("with fill-unordered %v the overtaken copy is served: %v", broken, hit)
		}
	}
}

func TestALeaseCountsFromWhenItsRenewalWasSent(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newHarness(t, mutationIf(broken, causal.LeaseFromReceipt)...)
		h.fill(h.get(1), 10, causal.Stable)
		h.now.Mono += int64(leaseTerm / 2)
		h.c.Tick(h.now)
		h.lease = only(t, h.take(), causal.KindLease).LeaseRenewal().ID
		h.now.Mono += int64(leaseTerm / 4) // the grant travels
		h.grant()
		h.now.Mono += int64(leaseTerm * 7 / 8) // more than a lease after the renewal, less than one after the grant
		if _, hit := h.hit(); hit != broken {
			t.Errorf("with lease-from-receipt %v the copy is served: %v", broken, hit)
		}
	}
}

func TestNothingIsServedAfterItsStreamHasEnded(t *testing.T) {
	h := newHarness(t)
	h.fill(h.get(1), 10, causal.Stable)
	h.now.Mono += int64(2 * reopenInterval)
	h.send(causal.StreamReset{MaxEpoch: h.pos.Epoch, Incarnation: 6}.Message(middlemanNode, cacheNode))
	h.take()
	if _, hit := h.hit(); hit {
		t.Error("a copy from before the middleman's restart is served")
	}
}

func TestAnUnregisteredAnswerGoesOnlyToThoseWhoHadAskedBeforeItWasRead(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newHarness(t, mutationIf(broken, causal.ShareInFlight)...)
		sent := h.get(1)
		h.get(2) // joins the flight, and may have seen something newer than the answer
		after := h.fill(sent, 10, causal.InFlight)
		answered := map[uint64]bool{}
		fills := 0
		for _, m := range after {
			switch m.Kind {
			case causal.KindGetReply:
				answered[m.GetReply().ID] = true
			case causal.KindFill:
				fills++
			}
		}
		if !answered[1] || answered[2] != broken || (fills == 1) == broken {
			t.Errorf("with share-in-flight %v: answered %v, asked again %d times", broken, answered, fills)
		}
	}
}

// A value that is read at a cut counts as stable and is kept, so whoever names a cut that is not complete would make
// the cache serve others an incomplete value.
func TestACutThatIsNotKnownToBeCompleteIsRefused(t *testing.T) {
	h := newHarness(t)
	for _, snapshot := range []bool{true, false} {
		h.send(causal.Get{ID: 1, Key: "x", Snapshot: snapshot, Cut: completeUpTo + 1}.Message(sidecarNode, cacheNode))
		if r := only(t, h.take(), causal.KindGetReply).GetReply(); r.ID != 1 || r.Err != causal.ErrNotFound {
			t.Errorf("answered %+v", r)
		}
	}
	if n := h.c.Stats().CutsRefused; n != 2 {
		t.Errorf("%d refusals are counted", n)
	}
	h.send(causal.Get{ID: 2, Key: "x", Snapshot: true, Cut: completeUpTo}.Message(sidecarNode, cacheNode))
	if f := only(t, h.take(), causal.KindFill).Fill(); f.Cut != completeUpTo {
		t.Errorf("asks for %+v", f)
	}
}

func TestASnapshotReadGetsTheVersionOfItsCut(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newHarness(t, mutationIf(broken, causal.OlderUnchecked)...)
		read := func(cut causal.HLC) []causal.Message {
			h.send(causal.Get{ID: 1, Key: "x", Snapshot: true, Cut: cut}.Message(sidecarNode, cacheNode))
			return h.take()
		}
		f := only(t, read(15), causal.KindFill).Fill()
		if !f.Snapshot || f.Cut != 15 {
			t.Errorf("asks for %+v, want the version at 15", f)
		}
		h.onStream(causal.FillReply{ID: f.ID, Key: "x", Record: record(10), Status: causal.Stable,
			Next: 20}.Message(middlemanNode, cacheNode))
		if r := only(t, h.take(), causal.KindGetReply).GetReply(); r.Record.Version.HLC != 10 {
			t.Errorf("at 15: %+v", r)
		}
		served := false
		for _, m := range read(25) { // past the version after it
			served = served || m.Kind == causal.KindGetReply
		}
		if served != broken {
			t.Errorf("with older-unchecked %v the version before 20 is served at 25: %v", broken, served)
		}
	}
}

func TestACopyThatIsOlderThanTheCutIsServedAboveTheBase(t *testing.T) {
	h := newHarness(t)
	read := func(base causal.HLC) []causal.Message {
		h.send(causal.Get{ID: 1, Key: "x", Snapshot: true, At: 30, Base: base}.Message(sidecarNode, cacheNode))
		return h.take()
	}
	f := only(t, read(15), causal.KindFill).Fill()
	if f.Base != 15 || f.Seen != 30 || !f.Ahead {
		t.Errorf("asks for %+v, want a version from 15 to 30", f)
	}
	h.onStream(causal.FillReply{ID: f.ID, Key: "x", Record: record(10), Status: causal.Stable,
		Next: 20}.Message(middlemanNode, cacheNode))
	if r := only(t, h.take(), causal.KindGetReply).GetReply(); r.Record.Version.HLC != 10 || r.Status != causal.Stable {
		t.Errorf("from 15 to 30: %+v", r)
	}
	if r := only(t, read(19), causal.KindGetReply).GetReply(); !r.Hit || r.Record.Version.HLC != 10 {
		t.Errorf("from 19 to 30: %+v", r)
	}
	if f := only(t, read(20), causal.KindFill).Fill(); f.Base != 20 {
		t.Errorf("asks for %+v, want a version from 20 to 30", f)
	}
}

func TestWhatIsFetchedAheadIsServedWhenItIsComplete(t *testing.T) {
	for _, broken := range []bool{false, true} {
		h := newHarness(t, mutationIf(broken, causal.ServeAhead)...)
		received := func(sv, rv causal.HLC) {
			e := causal.VectorEntry{Origin: 1, Last: topology.MaxCoordinators, SV: sv, RV: []causal.HLC{rv}}
			h.send(causal.Vectors{Entries: []causal.VectorEntry{e}}.Message(leaderNode, cacheNode))
		}
		read := func(cut causal.HLC) (hit causal.HLC) {
			h.send(causal.Get{ID: 1, Key: "x", Snapshot: true, Cut: cut, Seen: 120}.Message(sidecarNode, cacheNode))
			for _, m := range h.take() {
				if m.Kind == causal.KindGetReply && m.GetReply().Hit {
					hit = m.GetReply().Record.Version.HLC
				}
			}
			return hit
		}
		h.send(causal.Get{ID: 1, Key: "x", Snapshot: true, Cut: 100}.Message(sidecarNode, cacheNode))
		h.fill(h.take(), 10, causal.Stable)
		h.onStream(causal.Invalidate{KeyHash: topology.Hash("x"), Next: 110}.Message(middlemanNode, cacheNode))
		h.send(causal.CutNotice{Cut: 200}.Message(sidecarNode, cacheNode))
		for _, m := range h.take() {
			if m.Kind == causal.KindFill {
				t.Errorf("asks for %+v, and no ring has everything up to 200", m.Fill())
			}
		}
		received(100, 150)
		h.send(causal.CutNotice{Cut: 150}.Message(sidecarNode, cacheNode))
		f := only(t, h.take(), causal.KindFill).Fill()
		if !f.Ahead || f.Seen != 150 || f.Cut != 0 {
			t.Errorf("asks for %+v, want the version at 150, which may be in-flight", f)
		}
		h.onStream(causal.FillReply{ID: f.ID, Key: "x", Record: record(110), Registered: true}.Message(middlemanNode,
			cacheNode))
		if hit := read(100); (hit == 110) != broken {
			t.Errorf("with serve-ahead %v it is served before it is complete: %v", broken, hit == 110)
		}
		received(150, 150)
		if hit := read(150); hit != 110 {
			t.Errorf("version %d is served when 110 is complete", hit)
		}
	}
}

func TestAMissThatNoRingAnswersIsReportedAsUnavailable(t *testing.T) {
	h := newHarness(t)
	h.get(1)
	var err causal.ErrCode
	for range 10 * h.c.cfg.Attempts {
		h.now.Mono += int64(10 * time.Second)
		h.c.Tick(h.now)
		for _, m := range h.take() {
			if m.Kind == causal.KindGetReply {
				err = m.GetReply().Err
			}
		}
	}
	if err != causal.ErrUnavailable || !h.c.Idle() {
		t.Errorf("the reader got %s; idle %v", err, h.c.Idle())
	}
}

// A middleman that is dead costs one time-out, however long it is dead.
func TestAfterOneTimeOutMissesGoRoundAMiddlemanUntilItAnswersAPing(t *testing.T) {
	topo, err := topology.New(1, []topology.DataCenter{{Name: "a", Coordinators: 1, Caches: 1, Shards: 1},
		{Name: "b", Ring: 1, Coordinators: 1, Shards: 1}},
		[]topology.Ring{{Name: "r", DCs: []topology.DC{0}}, {Name: "s", DCs: []topology.DC{1}}},
		[][]float64{{0, 50}, {50, 0}})
	if err != nil {
		t.Fatal(err)
	}
	far := topology.Node{DC: 1, Part: topology.Middleman}
	h := &harness{t: t, c: New(DefaultConfig(topo, cacheNode)), now: causal.Now{Mono: 1}}
	dead, asked := true, map[topology.Node]int{}
	// read asks for a key and lets the middlemen answer; it returns how long that took.
	read := func(id int) time.Duration {
		start := h.now.Mono
		h.send(causal.Get{ID: uint64(id), Key: fmt.Sprint("k", id)}.Message(sidecarNode, cacheNode))
		for h.now.Mono-start < int64(time.Minute) {
			for _, m := range h.take() {
				switch {
				case m.Kind == causal.KindGetReply:
					return time.Duration(h.now.Mono - start)
				case m.Kind == causal.KindStreamOpen || m.Kind == causal.KindFill:
					if asked[m.To]++; m.To == middlemanNode && dead {
						continue
					}
				}
				switch {
				case m.To == middlemanNode && dead:
				case m.Kind == causal.KindPing:
					h.send(causal.Pong{ID: m.Ping().ID}.Message(m.To, cacheNode))
				case m.Kind == causal.KindStreamOpen && m.StreamOpen().Incarnation == 0:
					h.send(causal.StreamReset{Incarnation: 1}.Message(m.To, cacheNode))
				case m.Kind == causal.KindFill:
					f := m.Fill()
					r := causal.FillReply{ID: f.ID, Key: f.Key, Record: record(10)}.Message(m.To, cacheNode)
					r.SetStreamPosition(causal.StreamPosition{Epoch: f.Epoch, Seq: h.c.streams[m.To].seq + 1})
					h.send(r)
				}
			}
			h.now.Mono += int64(5 * time.Millisecond)
			h.c.Tick(h.now)
		}
		t.Fatalf("read %d was not answered", id)
		return 0
	}
	if first := read(1000); first < 200*time.Millisecond || asked[far] == 0 {
		t.Errorf("the first read took %v and asked %v", first, asked)
	}
	before := asked[middlemanNode]
	for i := range 100 { // ten seconds
		if took := read(1 + i); took > 100*time.Millisecond {
			t.Errorf("read %d took %v", 1+i, took)
		}
		h.now.Mono += int64(100 * time.Millisecond)
		h.c.Tick(h.now)
	}
	if asked[middlemanNode] != before {
		t.Errorf("the dead middleman was asked %d times more", asked[middlemanNode]-before)
	}
	dead = false
	for i := range 1000 {
		read(1000 + i)
	}
	if asked[middlemanNode] == before {
		t.Error("the middleman answers again, and is not asked")
	}
}

func TestReadThroughsGoElsewhereAtOnceWhenTheLinkToAMiddlemanEnds(t *testing.T) {
	topo, err := topology.New(1, []topology.DataCenter{{Name: "a", Coordinators: 1, Caches: 1, Shards: 1},
		{Name: "b", Ring: 1, Coordinators: 1, Shards: 1}},
		[]topology.Ring{{Name: "r", DCs: []topology.DC{0}}, {Name: "s", DCs: []topology.DC{1}}},
		[][]float64{{0, 50}, {50, 0}})
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{t: t, c: New(DefaultConfig(topo, cacheNode)), now: causal.Now{Mono: 1}}
	far := topology.Node{DC: 1, Part: topology.Middleman}
	for _, mm := range []topology.Node{middlemanNode, far} {
		h.send(causal.StreamReset{Incarnation: 1}.Message(mm, cacheNode))
	}
	h.take()
	if m := only(t, h.get(1), causal.KindFill); m.To != middlemanNode {
		t.Fatalf("%s was asked", m.To)
	}
	h.c.LinkDown(h.now, middlemanNode)
	h.c.Tick(h.now)
	if m := only(t, h.take(), causal.KindFill); m.To != far {
		t.Errorf("%s was asked next", m.To)
	}
}

func TestReadThroughsAreSentAgainWhenAnotherMemberServesTheirShard(t *testing.T) {
	h := newHarness(t)
	first := only(t, h.get(1), causal.KindFill).Fill()
	h.c.LinkUp(h.now, middlemanNode)
	if again := only(t, h.take(), causal.KindFill).Fill(); again != first {
		t.Errorf("%+v was asked, and then %+v", first, again)
	}
	h.send(causal.StreamReset{Incarnation: 6}.Message(middlemanNode, cacheNode))
	if again := only(t, h.take(), causal.KindFill).Fill(); again.Epoch == first.Epoch || again.ID != first.ID {
		t.Errorf("%+v was asked, and %+v of the member that serves now", first, again)
	}
}

func TestARequestToOpenAStreamThatIsLostIsRepeatedWhenTheMiddlemanCanBeReached(t *testing.T) {
	h := newHarness(t)
	h.c.streams = map[topology.Node]*stream{}
	h.c.order = nil
	only(t, h.get(1), causal.KindStreamOpen)
	h.c.LinkUp(h.now, middlemanNode)
	only(t, h.take(), causal.KindStreamOpen)
}

func TestACacheAnswersPings(t *testing.T) {
	h := newHarness(t)
	h.send(causal.Ping{ID: 5}.Message(sidecarNode, cacheNode))
	if p := only(t, h.take(), causal.KindPong); p.To != sidecarNode || p.Pong().ID != 5 {
		t.Errorf("answered %+v", p)
	}
}

// Each read joins the flight of the one before it. What comes back is good below the version after it.
func TestWhoHasSeenTheVersionAfterAFillDoesNotGetIt(t *testing.T) {
	for seen, want := range map[causal.HLC]bool{19: true, 20: false, 21: false} {
		h := newHarness(t)
		read := func(id uint64, cut causal.HLC) []causal.Message {
			h.send(causal.Get{ID: id, Key: "x", Snapshot: true, Cut: cut}.Message(sidecarNode, cacheNode))
			return h.take()
		}
		f := only(t, read(1, 15), causal.KindFill).Fill()
		read(2, seen)
		h.onStream(causal.FillReply{ID: f.ID, Key: "x", Record: record(10), Status: causal.Stable,
			Next: 20}.Message(middlemanNode, cacheNode))
		answered := map[uint64]bool{}
		for _, m := range h.take() {
			if m.Kind == causal.KindGetReply {
				answered[m.GetReply().ID] = true
			}
		}
		if !answered[1] || answered[2] != want {
			t.Errorf("of those that read at 15 and at %d, the version from 10 to 20 is given to %v", seen, answered)
		}
	}
}

// A read at a cut of an MGET, or of a pipeline of gets, is not answered by what a fill brings. But the next one finds
// it.
func TestAKeyThatIsReadAtACutIsFetchedForLater(t *testing.T) {
	h := newHarness(t)
	read := func(id uint64) []causal.Message {
		h.send(causal.Get{ID: id, Key: "x", Cut: completeUpTo}.Message(sidecarNode, cacheNode))
		return h.take()
	}
	sent := read(1)
	if r := only(t, sent, causal.KindGetReply).GetReply(); r.ID != 1 || r.Err != causal.ErrNotFound {
		t.Errorf("the reply is %+v", r)
	}
	if f := only(t, sent, causal.KindFill).Fill(); !f.Snapshot || f.Cut != completeUpTo {
		t.Errorf("the fill is %+v", f)
	}
	for _, m := range read(2) {
		if m.Kind == causal.KindFill {
			t.Error("it is fetched a second time")
		}
	}
	if replies := h.fill(sent, 10, causal.Stable); len(replies) > 0 {
		t.Errorf("somebody is answered who does not wait: %v", replies)
	}
	if r := only(t, read(3), causal.KindGetReply).GetReply(); r.Err != causal.OK || !r.Hit {
		t.Errorf("the next read is answered %+v", r)
	}
}
