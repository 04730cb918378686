package value_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/value"
	"github.com/causalstore/causalstore/sidecar/value/laws"
	"github.com/causalstore/causalstore/topology"
)

// lineOf returns the line of a data center in these tests.
func lineOf(v causal.Version) value.Line { return value.Line(1 + v.Origin/16) }

// changeStream does something to a stream.
func changeStream(r *rand.Rand, c *value.Change, line value.Line, hlc causal.HLC) {
	s := c.Stream()
	id := value.StreamID{Ms: max(s.Last.Ms, uint64(hlc)), Seq: s.Last.Seq + uint64(line)}
	g := s.Group("g")
	switch r.IntN(9) {
	case 0, 1:
		s.Append(id, line, []string{"f", fmt.Sprint(hlc)})
	case 2:
		if n := len(s.Entries); n > 0 {
			s.Delete(s.Entries[r.IntN(n)].ID, line)
		}
	case 3:
		s.RemoveFirst(r.IntN(len(s.Entries) + 1))
	case 4:
		if r.IntN(4) == 0 {
			s.SetLast(line, id, int64(r.IntN(9)), r.IntN(2) == 0, id)
		} else {
			s.Start("g", line, value.StreamID{Ms: uint64(r.IntN(5))}, value.UnknownRead)
		}
	default:
		if g != nil && r.IntN(3) > 0 {
			readGroup(s, g, "c", line, hlc)
		} else if g != nil && len(g.Pending()) > 0 {
			g.Acknowledge(g.Pending()[0].ID)
		} else if g != nil && r.IntN(3) == 0 {
			g.Drop()
		} else {
			s.Append(id, line, []string{"g", "x"})
		}
	}
}

func readGroup(_ *value.StreamLog, g *value.StreamGroup, consumer string, line value.Line, hlc causal.HLC) (got []string) {
	entries := g.Undelivered(0)
	g.Deliver(entries, line)
	for _, e := range entries {
		g.Await(value.Pending{ID: e.ID, AtMs: int64(hlc), Count: 1, Consumer: consumer})
		got = append(got, e.ID.String())
	}
	g.See(consumer, int64(hlc))
	return got
}

func TestStreamsKeepTheLaws(t *testing.T) {
	laws.Check(t, value.Shipped(), func(r *rand.Rand, v causal.Version) causal.Value {
		var seen causal.Record
		for hlc := causal.HLC(1); hlc < v.HLC; hlc++ { // what other writes have added
			if r.IntN(3) > 0 {
				continue
			}
			c := value.ChangeOf(seen)
			line := value.Line(1 + r.IntN(3))
			changeStream(r, c, line, hlc)
			seen = value.Shipped().Join(seen, at(hlc, topology.Origin(1+16*(line-1)), c))
		}
		c := value.ChangeOf(seen)
		if r.IntN(8) == 0 {
			c.Clear()
			c.Add(value.Hash, "f", "1")
		} else {
			for range 1 + r.IntN(3) {
				changeStream(r, c, lineOf(v), v.HLC)
			}
		}
		return c.Value()
	})
}

func idsOf(r causal.Record) string {
	h := value.CollectionOf(r.Value)
	var ids []string
	for _, e := range value.StreamOf(&h).Entries {
		ids = append(ids, e.ID.String())
	}
	return strings.Join(ids, " ")
}

// add returns a change that adds entries in a data center.
func add(seen causal.Record, line value.Line, ids ...uint64) *value.Change {
	c := value.ChangeOf(seen)
	for _, ms := range ids {
		c.Stream().Append(value.StreamID{Ms: ms}, line, []string{"f", "v"})
	}
	return c
}

// startAt returns a change that creates a group.
func startAt(seen causal.Record, line value.Line, ms uint64) *value.Change {
	c := value.ChangeOf(seen)
	c.Stream().Start("g", line, value.StreamID{Ms: ms}, value.UnknownRead)
	return c
}

// delivers lets a group read, and returns the record with what it has read.
func delivers(t *testing.T, seen causal.Record, line value.Line, hlc causal.HLC, want string) causal.Record {
	t.Helper()
	c := value.ChangeOf(seen)
	s := c.Stream()
	if got := strings.Join(readGroup(s, s.Group("g"), "c", line, hlc), " "); got != want {
		t.Errorf("line %d is delivered %q, want %q", line, got, want)
	}
	return value.Shipped().Join(seen, at(hlc, topology.Origin(1+16*(line-1)), c))
}

// Two data centers add entries at the same time, and a group reads in one of them. What the other one has added arrives
// after an entry with a greater id was delivered, and is delivered then.
func TestAGroupIsDeliveredEntriesThatArriveLate(t *testing.T) {
	types := value.Shipped()
	stream := types.Join(at(10, 1, add(causal.Record{}, 1, 100)), at(20, 1, startAt(at(10, 1, add(causal.Record{}, 1, 100)), 1, 0)))
	late := at(30, 1, add(stream, 1, 200, 210))
	here := types.Join(stream, at(31, 17, add(stream, 2, 300)))
	here = delivers(t, here, 2, 40, "100-0 300-0")
	here = delivers(t, types.Join(here, late), 2, 50, "200-0 210-0")
	here = delivers(t, here, 1, 60, "")
	if got := idsOf(here); got != "100-0 200-0 210-0 300-0" {
		t.Errorf("the stream is %s", got)
	}
}

// A group that is created at the end has read what its creator knows of, and is delivered what arrives late.
func TestAGroupThatBeginsAtTheEndIsDeliveredWhatArrivesLate(t *testing.T) {
	types := value.Shipped()
	stream := at(10, 1, add(causal.Record{}, 1, 100))
	late := at(30, 1, add(stream, 1, 200))
	here := types.Join(stream, at(31, 17, add(stream, 2, 300)))
	here = types.Join(here, at(40, 17, startAt(here, 2, 300)))
	delivers(t, types.Join(here, late), 2, 50, "200-0")
}

// Two data centers read the same group at the same time. Each entry is delivered at least once, and none again when
// both have heard of each other, although one of them has read less, and later.
func TestWhatTwoDataCentersHaveReadAddsUp(t *testing.T) {
	types := value.Shipped()
	stream := at(10, 1, add(causal.Record{}, 1, 100))
	stream = types.Join(stream, at(20, 1, startAt(stream, 1, 0)))
	more := types.Join(stream, at(30, 1, add(stream, 1, 200)))
	here := delivers(t, more, 1, 40, "100-0 200-0")
	there := delivers(t, stream, 2, 50, "100-0")
	both := types.Join(here, there)
	delivers(t, both, 1, 60, "")
	delivers(t, both, 2, 60, "")
	c := value.ChangeOf(both)
	if p := c.Stream().Group("g").Pending(); len(p) != 2 || p[0].AtMs != 50 {
		t.Errorf("pending: %v", p)
	}
}

// An empty stream goes on where it was, also if another data center has emptied it.
func TestAnEmptyStreamRemembersItsLastID(t *testing.T) {
	types := value.Shipped()
	stream := at(10, 1, add(causal.Record{}, 1, 100, 200))
	c := value.ChangeOf(stream)
	c.Stream().Delete(value.StreamID{Ms: 200}, 2)
	c.Stream().RemoveFirst(1)
	stream = types.Join(stream, at(20, 17, c))
	if !value.Exists(stream.Value) || value.KindOf(stream.Value) != value.Stream {
		t.Error("the empty stream does not exist")
	}
	s := value.ChangeOf(stream).Stream()
	if want := (value.StreamID{Ms: 200}); s.Last != want || s.MaxDeleted != want || s.Added != 2 || len(s.Entries) != 0 {
		t.Errorf("last %v, deleted %v, added %d, entries %v", s.Last, s.MaxDeleted, s.Added, s.Entries)
	}
}

// A key that is deleted in one data center, while another one adds an entry, has that entry only.
func TestADeletedStreamHasWhatWasAddedAtTheSameTime(t *testing.T) {
	types := value.Shipped()
	stream := at(10, 1, add(causal.Record{}, 1, 100))
	deleted := value.ChangeOf(stream)
	deleted.Clear()
	both := types.Join(types.Join(stream, at(30, 1, deleted)), at(20, 17, add(stream, 2, 200)))
	if got := idsOf(both); got != "200-0" {
		t.Errorf("the stream is %s", got)
	}
	if s := value.ChangeOf(both).Stream(); s.Last.Ms != 200 {
		t.Errorf("its last id is %v", s.Last)
	}
}

func TestDamagedRowsOfAStreamAreRefused(t *testing.T) {
	for _, row := range [][2]string{{"", ""}, {"\x01", ""}, {"\x01" + strings.Repeat("x", 16), ""}, {"\x00\x01", "\x01"},
		{"\x01" + strings.Repeat("x", 16), "\x01\x01f"}, {"\x02\x01g", ""}, {"\x02\x09g\x01", "\x00"}, {"\x03\x01gc", ""},
		{"\x04\x01gx", "\x00\x02c"}, {"\x05", ""}, {"\x02\x01g\x01", "\x01\x01"}} {
		c := value.ChangeOf(causal.Record{})
		c.Add(value.Stream, row[0], row[1])
		v := c.Value()
		if value.Shipped().Accepts(&v) {
			t.Errorf("%q is accepted", row)
		}
	}
}
