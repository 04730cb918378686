package embedded

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// crashWriter applies its batches one after another, to its own keys.
type crashWriter struct {
	name           string
	batches        [][]storage.Write
	begun, applied atomic.Int64
}

func newCrashWriter(rng *rand.Rand, name string, n int) *crashWriter {
	w := &crashWriter{name: name, batches: make([][]storage.Write, n)}
	exists := make(map[string]bool)
	for i := range w.batches {
		for range 1 + rng.IntN(4) {
			write := storage.Write{Key: name + strconv.Itoa(rng.IntN(12)), Delete: rng.IntN(4) == 0}
			if !write.Delete {
				write.Record = record(i, strings.Repeat("v", rng.IntN(2000)))
			}
			write.KeyExists, exists[write.Key] = exists[write.Key], !write.Delete
			w.batches[i] = append(w.batches[i], write)
		}
	}
	return w
}

func (w *crashWriter) run(s *Store) error {
	for i, batch := range w.batches {
		w.begun.Add(1)
		if err := s.Apply(ctx, batch, storage.Meta{Name: w.name, Value: []byte(strconv.Itoa(i + 1))}); err != nil {
			return err
		}
		w.applied.Add(1)
	}
	return nil
}

// after returns the contents of the writer's keys after n batches.
func (w *crashWriter) after(n int64) map[string]causal.Record {
	contents := make(map[string]causal.Record)
	for _, batch := range w.batches[:n] {
		for _, write := range batch {
			if delete(contents, write.Key); !write.Delete {
				contents[write.Key] = write.Record
			}
		}
	}
	return contents
}

// crashDisk is a MemFS whose ReuseForWrite and CrashClone exclude each other. Otherwise they can deadlock, because
// ReuseForWrite takes the same read lock twice (cockroachdb/pebble#5993).
type crashDisk struct {
	*vfs.MemFS
	cloning sync.RWMutex
}

func (d *crashDisk) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	d.cloning.RLock()
	defer d.cloning.RUnlock()
	return d.MemFS.ReuseForWrite(from, to, category)
}

func (d *crashDisk) crash(rng *rand.Rand) *vfs.MemFS {
	d.cloning.Lock()
	defer d.cloning.Unlock()
	return d.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
}

// crash is the disk as a crash left it, with how many batches of each writer were acknowledged before the crash, and
// how many had started by the end of it.
type crash struct {
	disk                  *vfs.MemFS
	acknowledged, started []int64
}

func takeCrash(rng *rand.Rand, disk *crashDisk, writers []*crashWriter) crash {
	var c crash
	for _, w := range writers {
		c.acknowledged = append(c.acknowledged, w.applied.Load())
	}
	c.disk = disk.crash(rng)
	for _, w := range writers {
		c.started = append(c.started, w.begun.Load())
	}
	return c
}

func TestCrashLosesNoAcknowledgedWriteAndTearsNoBatch(t *testing.T) {
	for range 5 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			disk := &crashDisk{MemFS: vfs.NewCrashableMem()}
			s := mustOpen(t, "store", Options{FS: disk, MemTableBytes: 64 << 10, separateFrom: 500,
				rewriteAge: time.Millisecond})
			if err := s.SetMeta(ctx, "name", []byte("kept")); err != nil {
				t.Fatal(err)
			}
			var writers []*crashWriter
			var running sync.WaitGroup
			var left atomic.Int64
			for i := range 3 {
				w := newCrashWriter(rng, string(rune('a'+i)), 150)
				writers = append(writers, w)
				left.Add(1)
				running.Go(func() {
					defer left.Add(-1)
					if err := w.run(s); err != nil {
						t.Errorf("writer %s: %v", w.name, err)
					}
				})
			}
			crashes := []crash{takeCrash(rng, disk, writers)}
			for left.Load() > 0 && len(crashes) < 40 {
				crashes = append(crashes, takeCrash(rng, disk, writers))
			}
			running.Wait()
			for _, c := range append(crashes, takeCrash(rng, disk, writers)) {
				checkCrash(t, c, writers)
			}
		})
	}
}

// checkCrash opens the store that the crash left. The keys of each writer must be as they were after the number of
// batches that the metadata in them say, which is between the acknowledged and the started ones.
func checkCrash(t *testing.T, c crash, writers []*crashWriter) {
	t.Helper()
	s, err := Open("store", Options{FS: c.disk, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got := make([]map[string]causal.Record, len(writers))
	keys := int64(0)
	err = s.Scan(ctx, func(key string, rec causal.Record) error {
		keys++
		w := key[0] - 'a'
		if got[w] == nil {
			got[w] = make(map[string]causal.Record)
		}
		rec.Value.Data = []byte(string(rec.Value.Data))
		got[w][key] = rec
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.Len(ctx); err != nil || n != keys {
		t.Errorf("len: got %d, %v; scan found %d", n, err, keys)
	}
	if b, found, err := s.Meta(ctx, "name"); string(b) != "kept" || !found || err != nil {
		t.Errorf("meta: got %q, %v, %v", b, found, err)
	}
	for i, w := range writers {
		n := int64(0) // batches, as the metadata in them say
		b, _, err := s.Meta(ctx, w.name)
		if err == nil && len(b) > 0 {
			n, err = strconv.ParseInt(string(b), 10, 64)
		}
		if err != nil || n < c.acknowledged[i] || n > c.started[i] {
			t.Errorf("writer %s: the metadata are those of batch %q, %v; want one from %d to %d", w.name, b, err,
				c.acknowledged[i], c.started[i])
			continue
		}
		if want := w.after(n); !maps.EqualFunc(want, got[i], func(a, b causal.Record) bool {
			return a.Version == b.Version && bytes.Equal(a.Value.Data, b.Value.Data)
		}) {
			t.Errorf(
				"writer %s: the contents are not those after the %d batches that the metadata count (-want +got):\n%s",
				w.name, n, cmp.Diff(want, got[i]))
		}
	}
}
