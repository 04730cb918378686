package member

import (
	"fmt"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// copyingRig returns a group in which the last member has an empty storage and log, and that is down. The messages of
// its copy are kept back.
func copyingRig(t *testing.T, members int) (r *shardRig, joiner *shardMember, held *[]causal.Message) {
	t.Helper()
	r = newShardRig(t, members)
	r.retain = 1
	r.startAll()
	for i := range 20 {
		r.mustWrite(fmt.Sprint("k", i))
	}
	joiner = r.members[members-1]
	joiner.crash()
	joiner.store = newModelStore()
	r.wipe(joiner)
	r.await("a configuration without it", func() bool { return len(r.register.Members) == members-1 })
	held = &[]causal.Message{}
	r.copied = func(m *causal.Message) int { *held = append(*held, *m); return 0 }
	r.start(joiner)
	return r, joiner, held
}

// next delivers the messages that were kept back.
func (r *shardRig) next(held *[]causal.Message) {
	messages := *held
	*held = nil
	for i := range messages {
		if to := r.members[messages[i].To.Member-1]; to.s != nil {
			to.s.Step(r.now, &messages[i])
		}
	}
	r.flush()
}

func TestAStorageIsCopiedWhileItIsWritten(t *testing.T) {
	r, q, held := copyingRig(t, 2)
	r.await("a request", func() bool { return len(*held) > 0 })
	for i := 0; q.s.copying != nil || len(*held) > 0; i++ {
		if i > 100 {
			t.Fatal("the copy does not end")
		}
		r.mustWrite(fmt.Sprint("k", i*7%20), fmt.Sprint("new", i))
		r.write(fmt.Sprint("k", i*3%20), true)
		r.next(held)
		r.pass(25 * time.Millisecond)
	}
	r.checkEnd()
	if q.s.copies != 1 {
		t.Errorf("%d copies", q.s.copies)
	}
	if q.s.applied.Exact != 0 {
		t.Errorf("existence is looked up for ever: %+v", q.s.applied)
	}
}

func TestPagesThatAreLostOrLateOrRepeatedDoNoHarm(t *testing.T) {
	r, q, held := copyingRig(t, 2)
	r.await("a request", func() bool { return len(*held) > 0 })
	var old []causal.Message
	for i := 0; q.s.copying != nil; i++ {
		if i > 200 {
			t.Fatal("the copy does not end")
		}
		switch i % 4 {
		case 0:
			*held = nil // lost
		case 1:
			*held = append(append([]causal.Message(nil), old...), append(*held, *held...)...)
		}
		old = append(old, *held...)
		r.next(held)
		r.pass(1100 * time.Millisecond)
	}
	r.checkEnd()
	if q.s.copies != 1 {
		t.Errorf("%d copies", q.s.copies)
	}
}

func TestACopyBeginsAgainUnderAnotherPrimary(t *testing.T) {
	r, q, held := copyingRig(t, 3)
	for range 3 {
		r.await("a message", func() bool { return len(*held) > 0 })
		r.next(held)
	}
	if q.s.copying == nil || len(q.store.keys) == 0 {
		t.Fatalf("nothing was copied yet")
	}
	r.members[0].crash()
	r.copied = func(*causal.Message) int { return 1 }
	r.await("another primary", func() bool { p := r.primary(); return p != nil })
	r.write("k3", true)
	r.start(r.members[0])
	r.checkEnd()
	if q.s.copies < 2 {
		t.Errorf("%d copies", q.s.copies)
	}
}

// The late request makes the primary, which has forgotten the copy, believe that one begins.
func TestALateRequestForTheFirstPageDoesNotContinueACopy(t *testing.T) {
	r, q, held := copyingRig(t, 2)
	r.await("a request", func() bool { return len(*held) > 0 })
	late := (*held)[0]
	r.next(held)
	r.await("a page", func() bool { return len(*held) > 0 })
	r.next(held)
	r.await("the request for the second one", func() bool { return len(*held) > 0 })
	request := *held
	r.write("k0", true) // is on the first page
	p := r.members[0]
	p.crash()
	r.start(p)
	r.await("the primary", func() bool { return r.primary() == p })
	p.s.Step(r.now, &late)
	p.s.Step(r.now, &request[0])
	r.copied = func(*causal.Message) int { return 1 }
	r.checkEnd()
	if q.s.copies != 2 {
		t.Errorf("%d copies", q.s.copies)
	}
}

// The joiner has begun another copy since.
func TestALateRequestOfAnEarlierCopyDoesNotDisturbThisOne(t *testing.T) {
	r, q, held := copyingRig(t, 2)
	r.await("a request", func() bool { return len(*held) > 0 })
	late := (*held)[0]
	*held = nil
	q.s.startOver(q.s.copying.source)
	for step := 0; q.s.copying != nil; step++ {
		if step > 100 {
			t.Fatal("the copy does not end")
		}
		r.await("a message", func() bool { return len(*held) > 0 || q.s.copying == nil })
		r.next(held)
		r.members[0].s.Step(r.now, &late)
		r.flush()
	}
	r.checkEnd()
	if q.s.copies != 2 {
		t.Errorf("%d copies", q.s.copies)
	}
}

func TestACopyBeginsAgainWhenTheCursorIsLost(t *testing.T) {
	r, q, held := copyingRig(t, 2)
	for range 3 {
		r.await("a message", func() bool { return len(*held) > 0 })
		r.next(held)
	}
	p := r.primary()
	p.hung = true
	r.await("a read", func() bool { r.next(held); return p.held != nil && p.held.Kind == TaskRead })
	id := p.held.ID
	p.held, p.hung = nil, false
	p.s.TaskDone(r.now, id, StorageTaskResult{BadCursor: true})
	r.copied = func(*causal.Message) int { return 1 }
	r.next(held)
	r.write("k5", true)
	r.checkEnd()
	if q.s.copies < 2 {
		t.Errorf("%d copies", q.s.copies)
	}
}

func TestAJoinerMayStopAtAnyStepOfACopy(t *testing.T) {
	for step := range 24 {
		r, q, held := copyingRig(t, 2)
		for range step {
			if q.s.copying == nil && len(*held) == 0 {
				r.pass(25 * time.Millisecond)
			}
			r.next(held)
		}
		q.crash()
		r.write("k2", true)
		r.copied = func(*causal.Message) int { return 1 }
		r.start(q)
		r.mustWrite("after")
		r.checkEnd()
	}
}

// A storage that names a position of a log that its disk does not hold is, after a crash, one whose log has lost
// something.
func TestACopyIsCompleteOnceItsLogIsDurable(t *testing.T) {
	r, q, held := copyingRig(t, 2)
	r.await("the last page", func() bool {
		r.next(held)
		q.logHung = q.s.copying != nil && q.s.copying.pages.At().Seq > 0
		return q.s.copying != nil && q.s.copying.pages.IsDone()
	})
	r.pass(2 * time.Second)
	if !q.store.marker.Copying {
		t.Fatalf("the storage says %+v, and its log is not durable", q.store.marker)
	}
	q.crash()
	q.logHung = false
	r.copied = func(*causal.Message) int { return 1 }
	r.start(q)
	if q.s.Failure() != nil || q.s.NeedsReset() {
		t.Errorf("after a crash: %v, is to be emptied: %v", q.s.Failure(), q.s.NeedsReset())
	}
	r.checkEnd()
}

func TestTheLogIsKeptForACopyAndNotForEver(t *testing.T) {
	r, q, held := copyingRig(t, 2)
	r.await("a request", func() bool { return len(*held) > 0 })
	r.next(held)
	p := r.primary()
	r.await("a source of the copy", func() bool { return len(p.s.sources) == 1 })
	start := p.s.sources[0].start
	for i := range 100 {
		r.mustWrite(fmt.Sprint(i))
	}
	if base := p.s.group.Base(); base > start+1 {
		t.Fatalf("the log begins at %d, and the copy needs what is behind %d", base, start)
	}
	q.crash()
	r.await("the log to be collected", func() bool { return p.s.group.Base() > start+1 })
	if len(p.s.sources) != 0 {
		t.Error("the source of the copy is still there")
	}
	r.copied = func(*causal.Message) int { return 1 }
	r.start(q)
	r.checkEnd()
}

// The copy is of what the storage has, which may lag behind the log.
func TestTheLogIsKeptFromWhereTheStorageOfThePrimaryIs(t *testing.T) {
	r, _, held := copyingRig(t, 2)
	r.await("a request", func() bool { return len(*held) > 0 })
	p := r.primary()
	p.hung = true
	for i := range 5 {
		r.write(fmt.Sprint("waits", i), false)
	}
	r.pass(100 * time.Millisecond)
	r.next(held)
	start := p.s.sources[0].start
	if commit := p.s.group.Commit(); commit < start+5 {
		t.Fatalf("the storage has %d, and %d are committed", start, commit)
	}
	p.hung = false
	for i := range 100 {
		r.mustWrite(fmt.Sprint(i))
	}
	if base := p.s.group.Base(); base > start+1 {
		t.Errorf("the log begins at %d, and the copy needs what is behind %d", base, start)
	}
}

func TestALogThatIsFullIsNotKeptForACopy(t *testing.T) {
	r, _, held := copyingRig(t, 2)
	r.await("a request", func() bool { return len(*held) > 0 })
	r.next(held)
	p := r.primary()
	p.s.cfg.MaxLogBytes = 20 << 10
	for i := range 400 {
		r.mustWrite(fmt.Sprint(i))
	}
	if size := p.s.LogBytes(); size > 20<<10 {
		t.Errorf("the log has %d bytes", size)
	}
	r.copied = func(*causal.Message) int { return 1 }
	p.s.cfg.MaxLogBytes = MaxLogBytesInMemory
	r.checkEnd()
}

func TestTheLogIsKeptForTheOneThatIsFarthestBehind(t *testing.T) {
	for _, holds := range [][]uint64{{5, 9}, {9, 5}} {
		s := &Storage{sources: []*copySource{{hold: holds[0]}, {hold: holds[1]}}}
		if got := s.heldByGivers(); got != 5 {
			t.Errorf("of those behind %v the log is kept behind %d", holds, got)
		}
	}
}

// The pages are here: what is left is to make the copy the storage of a member, and another primary changes nothing.
func TestACopyWhosePagesAreAllHereIsNotBegunAgain(t *testing.T) {
	r, q, _ := copyingRig(t, 2)
	r.await("a copy", func() bool { return q.s.copying != nil })
	copies := q.s.copies
	other := q.s.copying.source
	other.Volume++
	q.s.copying.pages.Finish()
	if q.s.beginCopy(r.now, other); q.s.copies != copies {
		t.Error("it begins again")
	}
}
