package redis

import (
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/storage"
)

func TestWritesAndDeletionsOfOneApplyKeepTheirOrder(t *testing.T) {
	p := mustStart(t, t.TempDir())
	s, ctx := mustOpen(t, optionsOf(p)), testContext(t)
	del := func(key string) storage.Write { return storage.Write{Key: key, Delete: true} }
	put := func(key, data string) storage.Write { return set(key, data)[0] }
	mustApply(t, s, []storage.Write{put("old", "v"), put("older", "v")})
	mustApply(t, s, []storage.Write{
		put("a", "1"), put("b", "1"), del("a"), del("old"), put("\x00odd", "2"), put("b", "2"), put("older", "2"),
		del("older"), put("a", "3"),
	})
	results, err := s.GetMany(ctx, []string{"a", "b", "old", "\x00odd", "older"}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"3", "2", "", "2", ""} {
		if r := results[i]; r.Err != nil || r.Found != (want != "") || string(r.Record.Value.Data) != want {
			t.Errorf("key %d: got %+v, want %q", i, r, want)
		}
	}
}

func TestABatchIsBuiltAnewAfterItsRelease(t *testing.T) {
	b := new(batch)
	for _, size := range []int{3, 700, 2} {
		var writes []storage.Write
		for range size {
			writes = append(writes, set("k", strings.Repeat("v", size))...)
		}
		commands := b.build(writes)
		if len(commands) != 1 || len(commands[0]) != 1+2*size {
			t.Fatalf("%d writes: %d commands", size, len(commands))
		}
		for i := range writes {
			value, err := commands[0][2+2*i].(*envelope).MarshalBinary()
			if rec, errDecode := storage.DecodeRecord("k", value); err != nil || errDecode != nil ||
				len(rec.Value.Data) != size {
				t.Fatalf("write %d of %d: got %d bytes, %v, %v", i, size, len(rec.Value.Data), err, errDecode)
			}
		}
		b.release()
	}
}
