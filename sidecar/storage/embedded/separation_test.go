package embedded

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// readCounter is a file system that counts what is read from it.
type readCounter struct {
	vfs.FS
	bytes atomic.Int64
}

func (c *readCounter) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := c.FS.Open(name, opts...)
	if err != nil {
		return nil, err
	}
	return countedFile{f, c}, nil
}

type countedFile struct {
	vfs.File
	c *readCounter
}

func (f countedFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	f.c.bytes.Add(int64(n))
	return n, err
}

// withLargeValue returns a store of small values and a large one, all in one table, with the names of the small ones.
func withLargeValue(t testing.TB, dir string, opts Options, size int) (s *Store, small []string) {
	s = mustOpen(t, dir, opts)
	var writes []storage.Write
	for i := range 2000 {
		small = append(small, fmt.Sprintf("user:%04d", i))
		writes = append(writes, storage.Write{Key: small[i], Record: record(i+1, strings.Repeat("v", 100))})
	}
	large := []storage.Write{{Key: "user:large", Record: record(1, string(incompressible(size)))}}
	for _, w := range [][]storage.Write{writes, large} {
		if err := s.Apply(ctx, w); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := s.db.Compact(ctx, []byte{0}, []byte{255}, false); err != nil {
		t.Fatal(err)
	}
	return s, small
}

func incompressible(n int) []byte {
	b, x := make([]byte, n), uint64(1)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return b
}

// readNeighbors reads the keys before the large value, while memtables take what they may of the cache.
func readNeighbors(t testing.TB, s *Store, small []string) {
	for range 2000 / 20 {
		for _, key := range small[len(small)-20:] {
			if _, found, err := s.Get(ctx, key); !found || err != nil {
				t.Fatal(found, err)
			}
		}
	}
}

func TestALargeValueDoesNotSlowDownTheKeysBeforeIt(t *testing.T) {
	const size = causal.MaxValueBytes
	counter := &readCounter{FS: vfs.NewMem()}
	s, small := withLargeValue(t, "store", Options{FS: counter}, size)
	before := counter.bytes.Load()
	readNeighbors(t, s, small)
	if n := counter.bytes.Load() - before; n > 256<<10 {
		t.Errorf("2000 reads of small values have read %d bytes", n)
	}
	rec, found, err := s.Get(ctx, "user:large")
	if err != nil || !found || string(rec.Value.Data) != string(incompressible(size)) {
		t.Errorf("the large value: %v, %v, %d bytes", err, found, len(rec.Value.Data))
	}
	readNeighbors(t, s, small)
	if n := counter.bytes.Load() - before - size; n > 512<<10 {
		t.Errorf("with a read of the large value, %d bytes more than that were read", n)
	}
}

// The block cache shares its memory with the memtables: two, and a batch with a large value that is not flushed yet.
func TestTheCacheHasRoomBesideMemtablesAndALargeBatch(t *testing.T) {
	if room := DefaultCacheBytes - 2*DefaultMemTableBytes - causal.MaxValueBytes; room < 8<<20 {
		t.Errorf("%d bytes are left for blocks", room)
	}
}

func TestAStoreOfAnEarlierVersionIsOpenedAndUpgraded(t *testing.T) {
	fs := vfs.NewMem()
	old := Options{FS: fs, Logger: slog.New(slog.DiscardHandler)}.pebble(new(Store))
	old.FormatMajorVersion = pebble.FormatWALSyncChunks
	old.EventListener = nil
	old.Experimental.ValueSeparationPolicy = nil
	db, err := pebble.Open("store", old)
	if err != nil {
		t.Fatal(err)
	}
	longKey := strings.Repeat("k", 5<<20) // as such a version has accepted
	want := map[string]causal.Record{"small": record(1, "v"), "large": record(2, strings.Repeat("v", 1<<20)),
		longKey: record(3, "v")}
	for key, rec := range want {
		if err := db.Set(append([]byte{prefixData}, key...), storage.AppendRecord(nil, key, rec),
			pebble.Sync); err != nil {
			t.Fatal(err)
		}
		if err := db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, "store", Options{FS: fs})
	check := func(when string) {
		t.Helper()
		for key, w := range want {
			if rec, found, err := s.Get(ctx, key); err != nil || !found || rec.Version != w.Version ||
				string(rec.Value.Data) != string(w.Value.Data) {
				t.Errorf("%s: %.10q: %v, %v, %v", when, key, rec.Version, found, err)
			}
		}
	}
	check("opened")
	if err := s.db.Compact(ctx, []byte{0}, []byte{255}, false); err != nil {
		t.Fatal(err)
	}
	check("compacted")
	if s.db.Metrics().BlobFiles.LiveCount == 0 {
		t.Error("a compaction does not separate the large value")
	}
}

// Overwritten large values are removed from the disk: tables are compacted, and files of values that are mostly garbage
// are rewritten.
func TestTheSpaceOfOverwrittenLargeValuesIsReclaimed(t *testing.T) {
	fs := vfs.NewMem()
	s := mustOpen(t, "store", Options{FS: fs, MemTableBytes: 64 << 10, separateFrom: 1 << 10})
	data := string(incompressible(20 << 10))
	const keys, rounds = 50, 100
	for i := range keys * rounds {
		w := storage.Write{Key: fmt.Sprintf("k%02d", (i*7919)%keys), Record: record(i+1, data), KeyExists: i >= keys}
		if err := s.Apply(ctx, []storage.Write{w}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.db.Compact(ctx, []byte{0}, []byte{255}, false); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the space to be reclaimed", func() bool {
		return s.db.Metrics().DiskSpaceUsage() < 4*keys*uint64(len(data))
	})
}
