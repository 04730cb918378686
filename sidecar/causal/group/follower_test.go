package group

import (
	"fmt"
	"testing"
)

// R has records of P's session that Q, the next primary, does not have. Q begins in front of them: what R acknowledges
// is what it has of Q, and not what it had of P.
func TestAMemberAcknowledgesInASessionWhatItHasOfThatSession(t *testing.T) {
	b := newBench(t, "p", "q", "r")
	p, q, r := b.members["p"], b.members["q"], b.members["r"]
	c := Config{Epoch: 1, Members: []ID{p.id, q.id, r.id}, Primary: p.id, Nonce: Nonce{1, 1, 1}}
	b.teach(c, "p", "q", "r")
	b.pass(2e9, "p", "q", "r")
	for range 5 {
		b.append("p", "lost")
	}
	b.deliver("p", "r") // and not to Q
	if r.g.log.last() != q.g.log.last()+5 {
		t.Fatalf("R has %d records, Q has %d", r.g.log.last(), q.g.log.last())
	}
	c.Epoch, c.Members, c.Primary, c.Nonce = 2, []ID{q.id, r.id}, q.id, Nonce{q.id.Volume, 1, 1}
	b.teach(c, "q")
	acks := 0
	for range 10 {
		b.sync("q")
		frames := q.sent
		q.sent = nil
		for i := range frames {
			f, ok := frames[i].Body.(*Frame)
			if !ok || frames[i].To != r.id {
				continue
			}
			r.sent = nil
			r.g.Step(b.now, &frames[i])
			b.sync("r")
			for j := range r.sent {
				if a, ok := r.sent[j].Body.(*Ack); ok {
					acks++
					if sent := f.Position + uint64(len(f.Records)); a.Match > sent {
						t.Fatalf("R acknowledges %d records; Q has sent %d", a.Match, sent)
					}
				}
				q.g.Step(b.now, &r.sent[j])
			}
		}
		b.now.Mono += 1e8
	}
	if acks == 0 {
		t.Fatal("R has acknowledged nothing")
	}
}

// R has records of P's session behind those of Q, of which Q says nothing: what Q has committed there is something
// else.
func TestAMemberTakesNothingForCommittedThatThePrimaryHasNotSent(t *testing.T) {
	b := newBench(t, "p", "q", "r")
	p, q, r := b.members["p"], b.members["q"], b.members["r"]
	c := Config{Epoch: 1, Members: []ID{p.id, q.id, r.id}, Primary: p.id, Nonce: Nonce{1, 1, 1}}
	b.teach(c, "p", "q", "r")
	b.pass(2e9, "p", "q", "r")
	common := r.g.log.last()
	for range 5 {
		b.append("p", "lost")
	}
	b.deliver("p", "r") // and not to Q
	c.Epoch, c.Members, c.Primary, c.Nonce = 2, []ID{q.id, r.id}, q.id, Nonce{q.id.Volume, 1, 1}
	f := &Frame{Session: Stamp{2, 1}, Config: c, Cluster: "cluster", Position: common, Stamp: r.g.log.stamp(common),
		Commit: common + 3}
	r.g.Step(b.now, &Message{From: q.id, To: r.id, Body: f})
	if r.g.log.last() != common+5 || r.g.commit > common {
		t.Errorf("R has committed %d of %d, and has got %d from Q", r.g.commit, r.g.log.last(), common)
	}
}

// P appends all the time, and the disk of Q is always a record behind: what is durable there is acknowledged meanwhile,
// and not only when P stops.
func TestAMemberAcknowledgesWhileMoreRecordsCome(t *testing.T) {
	b := pq(t)
	p, q := b.members["p"], b.members["q"]
	q.sent = nil
	before := p.g.commit
	const records = 20
	for i := range records {
		b.append("p", fmt.Sprint("r", i))
		b.sync("p")
		for _, m := range p.sent {
			if m.To == q.id {
				q.g.Step(b.now, &m)
			}
		}
		p.sent = nil
		if q.collect(b.now); i > 0 {
			b.syncUpTo(q, fmt.Sprint("r", i-1))
			q.collect(b.now)
		}
		for j := range q.sent {
			p.g.Step(b.now, &q.sent[j])
		}
		q.sent = nil
	}
	if got := p.g.commit - before; got < records-2 {
		t.Errorf("%d of %d records are committed, though Q has made all but the last durable", got, records)
	}
}
