package group

import (
	"fmt"
	"testing"
)

// appendUnsynced appends a record and returns the frames that are sent for it. The disk does nothing.
func (b *bench) appendUnsynced(m *member, data string) (frames []*Frame) {
	b.t.Helper()
	if _, err := m.g.Append(b.now, []byte(data)); err != nil {
		b.t.Fatal(err)
	}
	return b.takeFrames(m)
}

func (b *bench) takeFrames(m *member) (frames []*Frame) {
	m.collect(b.now)
	for i := range m.sent {
		if f, ok := m.sent[i].Body.(*Frame); ok && len(f.Records) > 0 {
			frames = append(frames, f)
		}
	}
	m.sent = nil
	return frames
}

// syncUpTo makes the entries durable up to the one of a record.
func (b *bench) syncUpTo(m *member, data string) {
	b.t.Helper()
	for i := range m.entries {
		if e := &m.entries[i]; e.Kind == EntryRecord && string(e.Record.Data) == data {
			m.durable = e.Index
			m.g.Appended(b.now, e.Index)
			return
		}
	}
	b.t.Fatalf("%s was not written", data)
}

func wantRecords(t *testing.T, frames []*Frame, want ...string) {
	t.Helper()
	var got []string
	for _, f := range frames {
		s := ""
		for i := range f.Records {
			s += string(f.Records[i].Data)
		}
		got = append(got, s)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("frames with %v, want %v", got, want)
	}
}

func TestRecordsThatComeWhileBothDisksWriteShareAFrame(t *testing.T) {
	b := pq(t)
	p := b.members["p"]
	wantRecords(t, b.appendUnsynced(p, "a"), "a") // both disks are idle
	wantRecords(t, b.appendUnsynced(p, "b"))
	wantRecords(t, b.appendUnsynced(p, "c"))
	b.syncUpTo(p, "a")
	wantRecords(t, b.takeFrames(p), "bc")
	wantRecords(t, b.appendUnsynced(p, "d"))
	b.syncUpTo(p, "b") // the disk still writes c
	wantRecords(t, b.takeFrames(p))
	b.syncUpTo(p, "c")
	wantRecords(t, b.takeFrames(p), "d")
}

func TestRecordsAreSentToAMemberThatHasNothingToWrite(t *testing.T) {
	b := pq(t)
	p, q := b.members["p"], b.members["q"]
	if _, err := p.g.Append(b.now, []byte("a")); err != nil {
		t.Fatal(err)
	}
	p.collect(b.now)
	for i := range p.sent {
		q.g.Step(b.now, &p.sent[i])
	}
	p.sent = nil
	b.sync("q")
	for i := range q.sent {
		p.g.Step(b.now, &q.sent[i])
	}
	wantRecords(t, b.appendUnsynced(p, "b"), "b") // the disk here still writes a
}

func TestALargeRecordDoesNotWaitForMore(t *testing.T) {
	b := pq(t)
	p := b.members["p"]
	b.appendUnsynced(p, "a")
	wantRecords(t, b.appendUnsynced(p, "b"))
	if frames := b.appendUnsynced(p, string(make([]byte, gatherBytes))); len(frames) != 1 ||
		len(frames[0].Records) != 2 {
		t.Errorf("%d frames", len(frames))
	}
}

func TestOneAcknowledgementSaysWhatHasBecomeDurable(t *testing.T) {
	b := pq(t)
	p, q := b.members["p"], b.members["q"]
	for _, data := range []string{"a", "b", "c"} {
		b.append("p", data) // each is durable at the primary, and so in a frame of its own
	}
	q.collect(b.now)
	q.sent = nil
	for i := range p.sent {
		q.g.Step(b.now, &p.sent[i])
	}
	b.sync("q")
	var acks []*Ack
	for i := range q.sent {
		if a, ok := q.sent[i].Body.(*Ack); ok {
			acks = append(acks, a)
		}
	}
	if len(acks) != 1 || acks[0].Match != p.g.Status().Last {
		t.Errorf("%d acknowledgements", len(acks))
	}
}
