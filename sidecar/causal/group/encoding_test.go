package group

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sampleEntries() []Entry {
	p, q := ID{"p", 7}, ID{"q", 1 << 60}
	return []Entry{
		{Index: 3, Kind: EntryState},
		{Index: 4, Kind: EntryState, State: State{Life: 3, Cluster: "c", Session: Stamp{5, 3}, Pending: []ID{q},
			Commit: 99,
			Config: Config{Group: 7, Epoch: 5, Members: []ID{p, q}, Primary: p, Nonce: Nonce{7, 2, 1}}}},
		{Index: 4, Kind: EntryState,
			State: State{Life: 3, Pending: []ID{q}, Commit: 99,
				Config: Config{Group: 7, Epoch: 5, Members: []ID{p}, Primary: p,
					Nonce: Nonce{7, 2, 1}, Replaced: []uint64{3, 1 << 60}}}},
		{Index: 5, Kind: EntryRecord, Position: 1, Record: Record{Stamp: Stamp{5, 3}, Start: true}},
		{Index: 6, Kind: EntryRecord, Position: 1 << 40, Record: Record{Stamp: Stamp{5, 3}, Data: []byte("data")}},
		{Index: 7, Kind: EntryTruncate, Position: 9},
		{Index: 8, Kind: EntryBase, Position: 9, Anchor: Stamp{4, 1}},
		{Index: 9, Kind: EntryReset, Position: 10, Anchor: Stamp{4, 1}},
	}
}

func TestAnEntrySurvivesItsEncoding(t *testing.T) {
	for _, e := range sampleEntries() {
		b := e.AppendTo(nil)
		got, err := ParseEntry(e.Index, b)
		if err != nil {
			t.Fatalf("%v: %v", e, err)
		}
		if diff := cmp.Diff(e, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if e.Kind == EntryRecord {
			continue // its data goes to the end
		}
		for n := range b {
			if _, err := ParseEntry(e.Index, b[:n]); err == nil {
				t.Errorf("%d of %d bytes of %v were accepted", n, len(b), e)
			}
		}
		if _, err := ParseEntry(e.Index, append(b, 0)); err == nil {
			t.Errorf("a byte after %v was accepted", e)
		}
	}
}

func FuzzParseEntry(f *testing.F) {
	for _, e := range sampleEntries() {
		f.Add(e.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := ParseEntry(1, b)
		if err != nil {
			return
		}
		again, err := ParseEntry(1, e.AppendTo(nil))
		if diff := cmp.Diff(e, again); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	})
}
