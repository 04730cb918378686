package group

import (
	"slices"
	"testing"
	"time"
)

// The bound of the log counts what is there.
func TestRecordsThatAreRemovedTakeNoRoomInTheLog(t *testing.T) {
	var l log
	for range 10 {
		l.append(Record{Stamp: Stamp{1, 1}, Data: make([]byte, 100)}, 0)
	}
	for _, left := range []uint64{7, 3, 0} {
		if l.truncate(left + 1); l.bytes != int(left)*(100+recordOverhead) {
			t.Errorf("%d records take %d bytes", left, l.bytes)
		}
	}
}

// A primary that has taken over counts the records that are not committed, and no others: those would count for ever,
// and it would refuse what it has room for.
func TestWhatACommittedRecordTookIsFreeAfterAFailover(t *testing.T) {
	b := pq(t)
	p, q := b.members["p"], b.members["q"]
	for range 5 {
		b.append("p", "committed")
		b.pass(100*time.Millisecond, "p", "q")
	}
	next := p.g.state.Config
	next.Epoch, next.Primary, next.Nonce = 2, q.id, Nonce{2, 2, 2}
	b.teach(next, "q", "p")
	b.pass(5*time.Second, "p", "q")
	if b.role("q") != Serving || q.g.commit != q.g.log.last() {
		t.Fatalf("Q is %s, and has committed %d of %d", b.role("q"), q.g.commit, q.g.log.last())
	}
	if n := q.g.lead.uncommitted; n != 0 {
		t.Errorf("everything is committed, and %d bytes count as not committed", n)
	}
}

// Entries are durable in order: after a crash the disk may hold the base of the log, and not the state behind it.
func TestTheStateOnTheDiskStaysUntilTheNextOneIsDurable(t *testing.T) {
	b := pq(t)
	p := b.members["p"]
	for range 3 {
		b.append("p", "x")
		b.pass(100*time.Millisecond, "p", "q")
	}
	p.g.Collect(b.now, p.g.commit)
	p.collect(b.now)
	base := uint64(0)
	for _, e := range p.entries {
		if e.Kind == EntryBase && e.Index > p.durable {
			base = e.Index
		}
	}
	if base == 0 {
		t.Fatal("nothing was collected")
	}
	for _, e := range p.entries {
		if e.Index <= p.durable || e.Index > base {
			continue
		}
		p.durable = e.Index
		p.g.Appended(b.now, e.Index)
	}
	var image Image
	for before, i := p.g.TruncateBefore(), 0; i < len(p.entries) && p.entries[i].Index <= base; i++ {
		if p.entries[i].Index < before {
			continue
		}
		if err := image.Apply(&p.entries[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := image.Check(); err != nil {
		t.Errorf("after a crash: %v", err)
	}
}

// A restart must know whom a swap may have made a member: it commits nothing without them.
func TestASwapIsSubmittedOnceItsMembersAreDurable(t *testing.T) {
	b := pq(t)
	p, r := b.members["p"], ID{"r", 3}
	p.g.SetDesired(b.now, Desired{Names: []string{"p", "q", "r"}})
	joining := p.g.peerOf(b.now, r)
	joining.match, joining.probing = p.g.log.last(), false
	submits := func() bool { // it answers reads of the register, and makes nothing durable
		for range 3 {
			b.now.Mono += int64(10 * time.Millisecond)
			p.g.plan(b.now)
			p.collect(b.now)
			for _, op := range p.ops {
				if op.Swap {
					return true
				}
				p.g.RegisterDone(b.now, RegisterResult{ID: op.ID, Outcome: Done, Cluster: "cluster", Found: true,
					Config: p.g.state.Config})
			}
			p.ops = nil
		}
		return false
	}
	if submits() || !slices.Contains(p.g.state.Pending, r) {
		t.Errorf("a swap is submitted of which a restart would not know; R is pending: %v", p.g.state.Pending)
	}
	if b.sync("p"); !submits() {
		t.Error("no swap is submitted")
	}
}
