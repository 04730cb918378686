package member

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
)

var someRecord = causal.Record{Version: causal.Version{HLC: 1 << 60, Origin: 1 << 31},
	Value: causal.Value{Data: []byte("data"), ExpireAtMs: -5}}

var someChange = Change{
	Writes: []Write{
		{Key: "a", Record: someRecord, KeyExists: true},
		{Key: "", Delete: true},
		{Key: "t", Record: causal.Record{Version: causal.Version{HLC: 2}, Value: causal.Value{Tombstone: true}}},
		{Key: "m",
			Record: causal.Record{Version: causal.Version{HLC: 3},
				Value: causal.Value{Data: []byte("merges"), Type: 255}}, KeyExists: true},
		{Key: "gone", Delete: true, KeyExists: true},
	},
	Meta: []Meta{{"horizon", []byte{1}}, {"empty", nil}},
}

func TestWhatIsEncodedIsReadAsItWas(t *testing.T) {
	for _, c := range []Change{{}, someChange} {
		b := c.AppendTo(nil)
		got, err := ParseChange(b)
		if diff := cmp.Diff(c, got); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
		if len(b) > c.SizeHint() {
			t.Errorf("%d bytes, and the hint is %d", len(b), c.SizeHint())
		}
	}
	for _, a := range []Applied{{Volume: 1}, {Group: 1 << 63, Volume: 2, Position: 3,
		Stamp: group.Stamp{Epoch: 4, Life: 5}, Exact: 6, Copying: true}} {
		got, err := ParseApplied(a.AppendTo(nil))
		if diff := cmp.Diff(a, got); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	}
	request := &copyRequest{From: 1, To: 2, ID: 3, Page: 4, After: "after"}
	got, _, err := parseCopy(request.appendTo(nil))
	if diff := cmp.Diff(request, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	for _, c := range []*copyChunk{{From: 1, To: 2, ID: 3, Page: 4, Restart: true},
		{From: 1, To: 2, ID: 3, Page: 4, Start: 5, Stamp: group.Stamp{Epoch: 6, Life: 7},
			Exact: 8, Next: "next", Meta: someChange.Meta,
			Records: []causal.Moved{{Key: "k", Record: someRecord}, {Key: "m", Record: someChange.Writes[3].Record},
				{Record: causal.Record{Value: causal.Value{Tombstone: true}}}}}} {
		_, got, err := parseCopy(c.appendTo(nil))
		if diff := cmp.Diff(c, got); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	}
}

// encodings returns one of each, with what reads it.
func encodings() map[string]struct {
	b    []byte
	read func([]byte) error
} {
	type e = struct {
		b    []byte
		read func([]byte) error
	}
	readCopy := func(b []byte) error { _, _, err := parseCopy(b); return err }
	return map[string]e{
		"change": {someChange.AppendTo(nil), func(b []byte) error { _, err := ParseChange(b); return err }},
		"marker": {(&Applied{Group: 1, Volume: 300, Position: 3}).AppendTo(nil), func(b []byte) error {
			_, err := ParseApplied(b)
			return err
		}},
		"request": {(&copyRequest{From: 1, To: 2, ID: 3, Page: 4, After: "after"}).appendTo(nil), readCopy},
		"chunk": {(&copyChunk{From: 1, To: 2, ID: 3, Page: 4, Meta: someChange.Meta,
			Records: []causal.Moved{{Key: "k", Record: someRecord}}}).appendTo(nil), readCopy},
	}
}

func TestWhatIsCutOrHasMoreOrIsOfAnotherVersionIsRefused(t *testing.T) {
	for name, e := range encodings() {
		if err := e.read(e.b); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for n := range e.b {
			if e.read(e.b[:n]) == nil {
				t.Errorf("%s: %d of %d bytes are taken", name, n, len(e.b))
			}
		}
		if e.read(append(bytes.Clone(e.b), 0)) == nil {
			t.Errorf("%s: a byte too many is taken", name)
		}
		other := bytes.Clone(e.b)
		other[0]++
		if e.read(other) == nil {
			t.Errorf("%s: another format is taken", name)
		}
	}
}

func FuzzWhatIsReadIsBounded(f *testing.F) {
	for _, e := range encodings() {
		f.Add(e.b)
	}
	f.Add([]byte{changeFormat, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := ParseChange(b); err == nil {
			again, err := ParseChange(c.AppendTo(nil))
			if diff := cmp.Diff(c, again); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
		}
		_, _ = ParseApplied(b)
		if _, chunk, err := parseCopy(b); err == nil && chunk != nil {
			_, again, err := parseCopy(chunk.appendTo(nil))
			if diff := cmp.Diff(chunk, again); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
		}
	})
}
