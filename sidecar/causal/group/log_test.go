package group

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

// fill appends n records with a stamp.
func fill(l *log, s Stamp, n int) {
	for range n {
		l.append(Record{Stamp: s}, 0)
	}
}

func TestMatchFindsWhereLogsDiffer(t *testing.T) {
	a, b := Stamp{1, 1}, Stamp{1, 2}
	var p, q log
	fill(&p, a, 10)
	fill(&q, a, 15)
	fill(&p, b, 5)
	for _, c := range []struct {
		name    string
		of      func() (*log, *log)
		want    uint64
		nothing bool
	}{
		{name: "another tail", of: func() (*log, *log) { return &p, &q }, want: 10},
		{name: "the other way", of: func() (*log, *log) { return &q, &p }, want: 10},
		{name: "empty", of: func() (*log, *log) { return &p, &log{} }, want: 0},
		{name: "collected here", of: func() (*log, *log) {
			l := log{records: slices.Clone(p.records), runs: slices.Clone(p.runs)}
			l.collect(11)
			return &l, &q
		}, want: 10},
		{name: "collected beyond the other", of: func() (*log, *log) {
			l := log{records: slices.Clone(p.records), runs: slices.Clone(p.runs)}
			l.collect(12)
			return &l, &q
		}, nothing: true},
		{name: "collected there", of: func() (*log, *log) {
			l := log{records: slices.Clone(q.records), runs: slices.Clone(q.runs)}
			l.truncate(11)
			l.collect(9)
			return &p, &l
		}, want: 10},
	} {
		mine, theirs := c.of()
		got, ok := mine.match(theirs.first(), theirs.last(), theirs.tail())
		if ok == c.nothing || ok && got != c.want {
			t.Errorf("%s: %d, %v; want %d", c.name, got, ok, c.want)
		}
	}
}

// TestTheDiskHoldsWhatTheLogHolds applies random changes to a log and to a disk, of which the entries that may go do
// go.
func TestTheDiskHoldsWhatTheLogHolds(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var entries []Entry
		var l log
		index := uint64(1)
		add := func(e Entry) uint64 {
			e.Index = index
			index++
			entries = append(entries, e)
			return e.Index
		}
		state, base := add(Entry{Kind: EntryState, State: State{Life: seed}}), uint64(0)
		stamp := Stamp{1, 1}
		for range 60 {
			switch rng.IntN(6) {
			case 0:
				pos := l.first() + uint64(rng.IntN(int(l.last()-l.first())+2))
				l.truncate(pos)
				add(Entry{Kind: EntryTruncate, Position: pos})
				stamp.Life++
			case 1:
				if pos := l.first() + uint64(rng.IntN(int(l.last()-l.first())+2)); pos > l.first() {
					l.collect(pos)
					base = add(Entry{Kind: EntryBase, Position: pos, Anchor: l.stamp(pos - 1)})
					state = add(Entry{Kind: EntryState, State: State{Life: seed}})
				}
			default:
				r := Record{Stamp: stamp, Data: []byte{byte(rng.IntN(256))}}
				l.append(r, add(Entry{Kind: EntryRecord, Position: l.last() + 1, Record: r}))
			}
		}
		if base > 0 {
			needed := min(base, state)
			if len(l.records) > 0 {
				needed = min(needed, l.records[0].index)
			}
			entries = entries[rng.IntN(int(needed)):]
		}
		var image Image
		for i := range entries {
			if err := image.Apply(&entries[i]); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		if err := image.Check(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if image.log.first() != l.first() || image.log.last() != l.last() {
			t.Fatalf("seed %d: the disk holds %d to %d, the log %d to %d", seed, image.log.first(), image.log.last(),
				l.first(), l.last())
		}
		for pos := l.first() - 1; pos <= l.last(); pos++ {
			if image.log.stamp(pos) != l.stamp(pos) {
				t.Fatalf("seed %d: at %d the disk has %v, the log %v", seed, pos, image.log.stamp(pos), l.stamp(pos))
			}
		}
	}
}

func TestADiskThatLacksEntriesIsRefused(t *testing.T) {
	state := Entry{Index: 1, Kind: EntryState}
	for what, entries := range map[string][]Entry{
		"in between": {state, {Index: 3, Kind: EntryRecord, Position: 2}},
		"record 5, with which the log begins": {state, {Index: 2, Kind: EntryBase, Position: 5},
			{Index: 3, Kind: EntryRecord, Position: 6}},
		"the state": {{Index: 1, Kind: EntryRecord, Position: 1}},
		"all before record 5, and from where the log begins": {{Index: 8, Kind: EntryRecord, Position: 5},
			{Index: 9, Kind: EntryState}},
	} {
		var image Image
		var err error
		for i := 0; i < len(entries) && err == nil; i++ {
			err = image.Apply(&entries[i])
		}
		if err == nil {
			err = image.Check()
		}
		if !errors.Is(err, ErrGap) {
			t.Errorf("missing is %s: %v", what, err)
		}
	}
}

// The other log goes on behind what this one has: it has collected what they have in common.
func TestALogDoesNotMatchAnotherOneWhereThatHasCollected(t *testing.T) {
	var l log
	for range 3 {
		l.append(Record{Stamp: Stamp{1, 1}}, 1)
	}
	if pos, ok := l.match(6, 8, []Run{{Stamp{1, 1}, 5}, {Stamp{2, 2}, 6}}); ok || pos != 0 {
		t.Errorf("they match up to %d, %v", pos, ok)
	}
	if pos, ok := l.match(3, 8, []Run{{Stamp{1, 1}, 2}, {Stamp{2, 2}, 4}}); !ok || pos != 3 {
		t.Errorf("they match up to %d, %v; want 3", pos, ok)
	}
}
