package member

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
)

func changeOf(bytes []byte) Change {
	return Change{Writes: []Write{{Key: "k", Record: causal.Record{Value: causal.Value{Data: bytes}}}}}
}

func TestProposalsAreBounded(t *testing.T) {
	r := newShardRig(t, 2).startAll()
	p := r.primary()
	r.unchecked = true
	if _, err := p.s.Propose(r.now, changeOf(make([]byte, 65<<20))); !errors.Is(err, group.ErrTooLarge) {
		t.Errorf("a change of 65 MiB: %v", err)
	}
	r.members[1].paused = true // nothing is committed
	taken := 0
	for ; taken < 300; taken++ {
		if _, err := p.s.Propose(r.now, changeOf(make([]byte, 1<<20))); err != nil {
			if !errors.Is(err, group.ErrBusy) {
				t.Errorf("change %d: %v", taken, err)
			}
			break
		}
	}
	if taken < 90 || taken > 97 { // 32 MiB wait for the other member, 64 MiB for the log
		t.Errorf("%d changes of 1 MiB were taken", taken)
	}
}

func TestAPrimaryTakesNoMoreThanItsStorageFollows(t *testing.T) {
	r := newShardRig(t, 1).startAll()
	p := r.primary()
	r.unchecked = true
	p.hung = true
	for range 60 {
		if _, err := p.s.Propose(r.now, changeOf(make([]byte, 1<<20))); err != nil {
			t.Fatal(err)
		}
		r.flush()
	}
	if p.s.queued > maxUnappliedBytes/2+2<<20 {
		t.Errorf("%d bytes are committed and not applied", p.s.queued)
	}
	p.hung = false
	r.await("the storage", p.s.IsSettled)
	if p.s.queued != 0 {
		t.Errorf("%d bytes are queued", p.s.queued)
	}
}

func TestAFollowerThatLagsTooFarIsDoneWithout(t *testing.T) {
	r := newShardRig(t, 2)
	r.retain = 200 << 20
	r.startAll()
	p, q := r.members[0], r.members[1]
	r.unchecked = true
	q.hung = true
	for i := 0; !q.s.Status().Impaired; i++ {
		if i > 200 {
			t.Fatalf("it has %d bytes to apply", q.s.queued)
		}
		if _, err := p.s.Propose(r.now, changeOf(bytes.Repeat([]byte{1}, 1<<20))); err != nil {
			t.Fatal(err)
		}
		r.flush()
		q.s.progressAt = r.now.Mono // it makes progress
	}
	r.await("a configuration without it", func() bool { return len(r.register.Members) == 1 })
	q.hung = false
	r.awaitAll()
}

func TestATaskHoldsABoundedNumberOfChanges(t *testing.T) {
	r := newShardRig(t, 1).startAll()
	p := r.primary()
	r.unchecked = true
	p.hung = true
	r.write("first", false)
	for i := range 3000 {
		if _, err := p.s.Propose(r.now, Change{Meta: []Meta{{fmt.Sprint(i), nil}}}); err != nil {
			t.Fatal(err)
		}
	}
	r.flush()
	p.s.TaskDone(r.now, p.held.ID, p.store.run(p.held))
	p.held = nil
	r.flush()
	if n := len(p.held.Changes); n != maxApplyChanges {
		t.Errorf("a task has %d changes", n)
	}
}

// A change is encoded once, and its data is not copied otherwise.
func TestAProposalAllocatesLittle(t *testing.T) {
	r := newShardRig(t, 1).startAll()
	p := r.primary()
	r.unchecked = true
	c := changeOf(make([]byte, 100<<10))
	result := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if _, err := p.s.Propose(r.now, c); err != nil {
				b.Fatal(err)
			}
			for _, e := range p.s.Writes(nil) {
				p.s.Appended(r.now, e.Index)
			}
			for _, t := range p.s.Tasks(nil) {
				p.s.TaskDone(r.now, t.ID, StorageTaskResult{})
			}
			p.s.Done(nil)
		}
	})
	if n := result.AllocedBytesPerOp(); n > 150<<10 {
		t.Errorf("a change of 100 KiB allocates %d bytes", n)
	}
}

// What waits when a session ends is forgotten, and takes no room from those after it.
func TestWhatWaitedInASessionThatIsOverTakesNoRoom(t *testing.T) {
	p := proposals{maxRecordBytes: 2 * maxWaitingBytes}
	fill := func() (taken int) {
		for ; taken < 1000; taken++ {
			if _, err := p.push(changeOf(make([]byte, 1<<20))); err != nil {
				return taken
			}
		}
		return taken
	}
	first := fill()
	p.reset()
	p.begin(0)
	if again := fill(); first == 0 || first == 1000 || again != first {
		t.Errorf("%d changes wait in the first session, and %d in the next one", first, again)
	}
}

// Its place in the log may be that of something else.
func TestOnlyAProposalThatIsInTheLogIsFoundByItsPosition(t *testing.T) {
	p := proposals{maxRecordBytes: 1 << 10}
	p.begin(4)
	for range 2 {
		if _, err := p.push(Change{}); err != nil {
			t.Fatal(err)
		}
	}
	p.appended = 1
	for pos, want := range map[uint64]bool{4: false, 5: true, 6: false} {
		if _, got := p.at(pos); got != want {
			t.Errorf("a proposal is at %d: %v", pos, got)
		}
	}
}
