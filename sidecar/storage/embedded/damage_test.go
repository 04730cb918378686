package embedded

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// files are the contents of a directory by name.
type files map[string][]byte

func readFiles(t testing.TB, fs vfs.FS, dir string) files {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := files{}
	for _, name := range names {
		if info, err := fs.Stat(fs.PathJoin(dir, name)); err == nil && info.IsDir() {
			for of, b := range readFiles(t, fs, fs.PathJoin(dir, name)) {
				all[fs.PathJoin(name, of)] = b
			}
			continue
		}
		f, err := fs.Open(fs.PathJoin(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		all[name] = b
	}
	return all
}

// disk returns a file system with the files in the directory "store".
func (all files) disk(t testing.TB) vfs.FS {
	t.Helper()
	fs := vfs.NewMem()
	if err := fs.MkdirAll("store", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, b := range all {
		if err := fs.MkdirAll(fs.PathDir(fs.PathJoin("store", name)), 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := fs.Create(fs.PathJoin("store", name), vfs.WriteCategoryUnspecified)
		if err == nil {
			_, err = f.Write(bytes.Clone(b))
		}
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return fs
}

// with returns the files with another content of one of them; nil: without it.
func (all files) with(name string, b []byte) files {
	changed := maps.Clone(all)
	if changed[name] = b; b == nil {
		delete(changed, name)
	}
	return changed
}

// killed fills a store and returns its files as kill -9 leaves them.
func killed(t testing.TB) (files, contents) {
	t.Helper()
	disk := &crashDisk{MemFS: vfs.NewCrashableMem()}
	want := fill(t, mustOpen(t, "store", Options{FS: disk}))
	disk.cloning.Lock()
	defer disk.cloning.Unlock()
	return readFiles(t, disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 2))}),
		"store"), want
}

// closed fills a store and returns its files after it was closed.
func closed(t testing.TB) (files, contents) {
	t.Helper()
	fs := vfs.NewMem()
	s := mustOpen(t, "store", Options{FS: fs})
	want := fill(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return readFiles(t, fs, "store"), want
}

// contents are records by key, as they were acknowledged.
type contents map[string]causal.Record

func (c contents) apply(t testing.TB, s *Store, writes ...storage.Write) {
	t.Helper()
	for i := range writes {
		_, writes[i].KeyExists = c[writes[i].Key]
		if c[writes[i].Key] = writes[i].Record; writes[i].Delete {
			delete(c, writes[i].Key)
		}
	}
	if err := s.Apply(ctx, writes); err != nil {
		t.Fatal(err)
	}
}

// check returns how the contents of a store differ, or the error of a read.
func (c contents) check(s *Store) error {
	for _, key := range slices.Sorted(maps.Keys(c)) {
		got, found, err := s.Get(ctx, key)
		if err != nil {
			return err
		}
		if want := c[key]; !found || got.Version != want.Version || !bytes.Equal(got.Value.Data, want.Value.Data) {
			return fmt.Errorf("key %q: got %v, %v, want %v", key, got.Version, found, want.Version)
		}
	}
	n := 0
	err := s.Scan(ctx, func(string, causal.Record) error { n++; return nil })
	if err != nil {
		return err
	}
	length, err := s.Len(ctx)
	if err != nil {
		return err
	}
	if int(length) != len(c) || n != len(c) {
		return fmt.Errorf("len: %d, of a scan %d, want %d", length, n, len(c))
	}
	return nil
}

// fill writes until the store has some tables, and batches in its log only.
func fill(t testing.TB, s *Store) contents {
	t.Helper()
	c, rng := contents{}, rand.New(rand.NewPCG(1, 2))
	value := func() string {
		b := make([]byte, 50+rng.IntN(200))
		for i := range b {
			b[i] = byte(rng.IntN(256))
		}
		return string(b)
	}
	for i := range 900 {
		w := storage.Write{Key: fmt.Sprint("key ", rng.IntN(400)), Record: record(i+1, value())}
		w.Delete = rng.IntN(10) == 0
		c.apply(t, s, w)
		if i == 300 || i == 600 {
			if err := s.db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.SetMeta(ctx, "name", []byte("value")); err != nil {
		t.Fatal(err)
	}
	return c
}

// places returns offsets in a file: its beginning, its end, and some in between.
func places(size, inBetween int) (offsets []int) {
	ends := 24
	if raceDetector {
		ends = 2
	}
	for i := range min(size, ends) {
		offsets = append(offsets, i, size-1-i)
	}
	for i := range min(size, inBetween) {
		offsets = append(offsets, i*size/inBetween)
	}
	slices.Sort(offsets)
	return slices.Compact(offsets)
}

// openDamaged opens a store that may be damaged and returns whether it says so, and when. Else it has everything that
// was acknowledged.
func openDamaged(t testing.TB, fs vfs.FS, want contents, what string) string {
	t.Helper()
	opts := Options{FS: fs, Logger: slog.New(slog.DiscardHandler)}
	s, err := Open("store", opts)
	if err != nil {
		if !errors.Is(err, storage.ErrDataLost) {
			t.Errorf("%s: open: %v", what, err)
		}
		return "open"
	}
	err = want.check(s)
	if err == nil {
		if err := s.Close(); err != nil {
			t.Errorf("%s: close: %v", what, err)
		}
		return "intact"
	}
	if !errors.Is(err, storage.ErrDataLost) {
		t.Errorf("%s: %v", what, err)
	}
	for _, err := range []error{s.Ping(ctx), s.Apply(ctx, []storage.Write{{Key: "k"}}), s.SetMeta(ctx, "m", nil)} {
		if !errors.Is(err, storage.ErrDataLost) {
			t.Errorf("%s: after that: %v", what, err)
		}
	}
	_ = s.Close() // it has failed
	if _, err := Open("store", opts); !errors.Is(err, storage.ErrDataLost) {
		t.Errorf("%s: the loss was found in a read, and the next open says: %v", what, err)
	}
	return "read"
}

// Everything that was acknowledged is there after each damage of each file, or the store knows that it has lost
// something.
func TestADamagedStoreHasEverythingOrKnowsOfItsLoss(t *testing.T) {
	for how, end := range map[string]func(testing.TB) (files, contents){"closed": closed, "killed": killed} {
		t.Run(how, func(t *testing.T) {
			all, want := end(t)
			if openDamaged(t, all.disk(t), want, "as it was") != "intact" {
				t.Fatal("the store is not intact")
			}
			outcomes := map[string]int{}
			try := func(what, name string, b []byte) {
				t.Helper()
				kind := name[:min(len(name), 4)]
				outcomes[kind+": "+openDamaged(t, all.with(name, b).disk(t), want, name+" "+what)]++
			}
			for _, name := range slices.Sorted(maps.Keys(all)) {
				content := all[name]
				try("removed", name, nil)
				inBetween := 40
				switch {
				case raceDetector: // one goroutine does all of this
					inBetween = 3
				case strings.HasSuffix(name, ".log"):
					inBetween = 120
				}
				for _, at := range places(len(content), inBetween) {
					flipped := bytes.Clone(content)
					flipped[at] ^= 1 << (at % 8)
					try(fmt.Sprint("with a flipped bit at ", at), name, flipped)
					try(fmt.Sprint("cut at ", at), name, content[:at])
				}
				for at := 0; at < len(content); at += 4096 {
					zeroed := bytes.Clone(content)
					clear(zeroed[at:min(at+512, len(content))])
					try(fmt.Sprint("with zeros at ", at), name, zeroed)
				}
			}
			for _, outcome := range slices.Sorted(maps.Keys(outcomes)) {
				t.Log(outcome, outcomes[outcome])
			}
		})
	}
}

// A compaction reads tables that nobody else reads.
func TestDamageThatACompactionFindsIsNoted(t *testing.T) {
	fs := vfs.NewMem()
	s := mustOpen(t, "store", Options{FS: fs})
	want := contents{}
	for i := range 200 {
		want.apply(t, s, storage.Write{Key: fmt.Sprint("key ", i), Record: record(i+1, strings.Repeat("v", 100))})
	}
	if err := errors.Join(s.db.Flush(), s.Close()); err != nil {
		t.Fatal(err)
	}
	all := readFiles(t, fs, "store")
	for name, content := range all {
		if strings.HasSuffix(name, ".sst") {
			content[len(content)/3] ^= 8
		}
	}
	opts := Options{FS: all.disk(t), Logger: slog.New(slog.DiscardHandler)}
	s, err := Open("store", opts)
	if err != nil {
		t.Fatal(err)
	}
	// Something else in the same range, so that the tables are not only moved.
	if err := s.db.Set(append([]byte{prefixData}, "key 100"...), []byte("x"), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	compaction, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.db.Compact(compaction, []byte{prefixData}, []byte{prefixData + 1}, false) }()
	waitFor(t, "the compaction to find the damage", func() bool { return errors.Is(s.Ping(ctx), storage.ErrDataLost) })
	cancel() // Pebble repeats it
	<-ended
	_ = s.Close() // it has failed
	if _, err := Open("store", opts); !errors.Is(err, storage.ErrDataLost) {
		t.Errorf("the next open: %v", err)
	}
}

// The mutation: a store that takes what Pebble has found for everything there was. So the check above can fail.
func TestTheCheckNoticesAStoreThatTrustsWhatItFinds(t *testing.T) {
	all, want := killed(t)
	for _, kind := range []string{".log", "MANIFEST"} {
		missed := 0
		for name, content := range all {
			if !strings.Contains(name, kind) {
				continue
			}
			for _, at := range places(len(content), 10) {
				s, err := Open("store", Options{FS: all.with(name, content[:at]).disk(t),
					Logger: slog.New(slog.DiscardHandler), trusting: true})
				if err != nil {
					continue
				}
				if err := want.check(s); err != nil && !errors.Is(err, storage.ErrDataLost) {
					missed++
				}
				_ = s.Close()
			}
		}
		if missed == 0 {
			t.Errorf("no cut of a %s was missed", kind)
		}
	}
}

func TestOpenOfAStoreWithoutItsWatermarkFails(t *testing.T) {
	all, want := killed(t)
	if got := openDamaged(t, all.with(watermarkName, nil).disk(t), want, "without the watermark"); got != "open" {
		t.Error(got)
	}
}

func TestAStoreOfAnEarlierVersionGetsAWatermark(t *testing.T) {
	fs := vfs.NewMem()
	db, err := pebble.Open("store", &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatWALSyncChunks,
		Logger: logger{slog.New(slog.DiscardHandler), nil}})
	if err != nil {
		t.Fatal(err)
	}
	want := contents{}
	for i := range 50 {
		key := fmt.Sprint("key ", i)
		want[key] = record(i+1, "value")
		// As an earlier version has written it.
		value := append([]byte{0xc5, 1, 0}, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil,
			uint64(i+1)), 1)...)
		value = append(binary.BigEndian.AppendUint16(value, uint16(xxhash.Sum64(value))), "value"...)
		if err := db.Set(append([]byte{prefixData}, key...), value, pebble.Sync); err != nil {
			t.Fatal(err)
		}
		if i == 25 {
			if err := db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(db.Set(countKey, binary.AppendUvarint(nil, 50), pebble.Sync), db.Close()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := openDamaged(t, fs, want, "adopted"); got != "intact" {
			t.Fatal(got)
		}
	}
	if got := openDamaged(t, readFiles(t, fs, "store").with(watermarkName, nil).disk(t), want,
		"without the new watermark"); got != "open" {
		t.Error(got)
	}
}

// lost returns a disk with a store that has lost the end of its log, and what is missing at most.
func lost(t *testing.T) vfs.FS {
	t.Helper()
	all, _ := killed(t)
	logs := slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(name string) bool {
		return !strings.HasSuffix(name, ".log")
	})
	last := logs[len(logs)-1]
	return all.with(last, all[last][:len(all[last])/2]).disk(t)
}

func mark(storage.Store, Rest) ([]storage.Meta, error) {
	return []storage.Meta{{Name: "mark", Value: []byte("lost")}}, nil
}

func TestRenewBeginsWithAnEmptyStoreAndItsMark(t *testing.T) {
	for _, keep := range []bool{true} {
		fs, opts := lost(t), Options{Logger: slog.New(slog.DiscardHandler)}
		opts.FS = fs
		for range 2 { // it remains lost
			if _, err := Open("store", opts); !errors.Is(err, storage.ErrDataLost) {
				t.Fatal(err)
			}
		}
		s, err := Renew("store", opts, mark)
		if err != nil {
			t.Fatal(err)
		}
		want := contents{}
		want.apply(t, s, storage.Write{Key: "new", Record: record(1, "v")})
		for range 2 {
			if err := want.check(s); err != nil {
				t.Error(err)
			}
			if b, _, err := s.Meta(ctx, "mark"); string(b) != "lost" || err != nil {
				t.Errorf("the mark is %q, %v", b, err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if s, err = Open("store", opts); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		names, err := fs.List(fs.PathJoin("store", damagedNames[0]))
		if kept := slices.ContainsFunc(names, func(name string) bool {
			return strings.HasSuffix(name, ".sst")
		}); kept != keep {
			t.Errorf("keep is %v, and the folder has %v, %v", keep, names, err)
		}
	}
}

// A disk has room for two copies, and not for one of each loss.
func TestRenewKeepsWhatTheFirstLossHasLeft(t *testing.T) {
	fs, opts := lost(t), Options{Logger: slog.New(slog.DiscardHandler)}
	opts.FS = fs
	var first []string
	for i := range 2 {
		s, err := Renew("store", opts, mark)
		if err != nil {
			t.Fatal(err)
		}
		contents{}.apply(t, s, storage.Write{Key: "new", Record: record(1, "v")})
		if err := errors.Join(s.db.Flush(), s.Close()); err != nil {
			t.Fatal(err)
		}
		names, err := fs.List(fs.PathJoin("store", damagedNames[0]))
		if slices.Sort(names); err != nil || len(names) == 0 {
			t.Fatalf("%v are kept: %v", names, err)
		}
		if first == nil {
			first = names
		}
		if !slices.Equal(names, first) {
			t.Errorf("after loss %d %v are kept, and %v of the first one", i+1, names, first)
		}
	}
}

// What Renew has kept gives way if the disk is full, and is removed when nobody needs it.
func TestWhatIsKeptOfADamagedStoreIsRemoved(t *testing.T) {
	for _, becomesFull := range []bool{false, true} {
		fs, opts := lost(t), Options{Logger: slog.New(slog.DiscardHandler)}
		kept := fs.PathJoin("store", damagedNames[0])
		var full atomic.Bool
		opts.FS = errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if _, err := fs.Stat(kept); full.Load() && err == nil && op.Kind == errorfs.OpFileWrite {
				return syscall.ENOSPC
			}
			return nil
		}))
		s, err := Renew("store", opts, mark)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fs.Stat(kept); err != nil {
			t.Error(err)
		}
		s.SpareDamaged()
		if full.Store(becomesFull); !becomesFull {
			err = s.RemoveDamaged()
		}
		want := contents{}
		want.apply(t, s, storage.Write{Key: "new", Record: record(1, "v")})
		if err = errors.Join(err, want.check(s), s.Close()); err != nil {
			t.Error(err)
		}
		if _, err := fs.Stat(kept); err == nil {
			t.Errorf("full: %v; it is still there", becomesFull)
		}
	}
}

// The log of a member, or of a coordinator, may have its folder in that of a store.
func TestRenewLeavesFilesOfOthersAlone(t *testing.T) {
	for _, keep := range []bool{true} {
		fs, opts := lost(t), Options{Logger: slog.New(slog.DiscardHandler)}
		opts.FS = fs
		folder := fs.PathJoin("store", "log")
		err := fs.MkdirAll(folder, 0o755)
		identity := fs.PathJoin("store", "identity.json")
		for _, name := range []string{fs.PathJoin(folder, "00000000000000000001.log"), identity} {
			var f vfs.File
			if err == nil {
				f, err = fs.Create(name, vfs.WriteCategoryUnspecified)
			}
			if err == nil {
				err = f.Close()
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		s, err := Renew("store", opts, mark)
		if err == nil {
			err = s.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		if names, err := fs.List(folder); err != nil || len(names) != 1 {
			t.Errorf("keep is %v, and the folder of a log has %v, %v", keep, names, err)
		}
		if _, err := fs.Stat(identity); err != nil {
			t.Errorf("keep is %v: %v", keep, err)
		}
	}
}

// Whenever Renew is stopped, the store is lost, or renewed with its mark.
func TestACrashInRenewDoesNotMakeALostStoreAnEmptyOne(t *testing.T) {
	original := readFiles(t, lost(t), "store")
	for stop := int64(0); ; stop++ {
		fs := original.disk(t)
		failing, done := failingAfter(fs, stop)
		s, err := renewUntilFatal(Options{FS: failing, Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			if err := s.Close(); err != nil && done() {
				t.Fatal(err)
			}
			if done() {
				t.Logf("%d points", stop)
				return
			}
		}
		after, err := Open("store", Options{FS: readFiles(t, fs, "store").disk(t),
			Logger: slog.New(slog.DiscardHandler)})
		if errors.Is(err, storage.ErrDataLost) {
			continue
		}
		if err != nil {
			t.Fatalf("stopped at write %d: %v", stop, err)
		}
		if b, _, err := after.Meta(ctx, "mark"); string(b) != "lost" || err != nil {
			t.Errorf("stopped at write %d: the mark is %q, %v", stop, b, err)
		}
		if err := after.Close(); err != nil {
			t.Error(err)
		}
	}
}

// failingAfter returns a file system that fails after some writes, and whether it has had fewer.
func failingAfter(fs vfs.FS, writes int64) (failing vfs.FS, done func() bool) {
	left := &atomic.Int64{}
	left.Store(writes)
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && left.Add(-1) < 0 {
			return errorfs.ErrInjected
		}
		return nil
	})), func() bool { return left.Load() >= 0 }
}

// renewUntilFatal is Renew, which may end with what ends the process otherwise.
func renewUntilFatal(opts Options) (s *Store, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("fatal: %v", r)
		}
	}()
	return Renew("store", opts, mark)
}

func TestALostStoreIsNotThatOfSomebodyElse(t *testing.T) {
	someone := errors.New("it belongs to somebody else")
	_, err := Open("store", Options{FS: lost(t), Logger: slog.New(slog.DiscardHandler),
		CheckOwner: func(s storage.Store) error {
			if b, found, err := s.Meta(ctx, "name"); err != nil || found {
				t.Errorf("%q, %v, %v", b, found, err)
			}
			return someone
		}})
	if !errors.Is(err, someone) || errors.Is(err, storage.ErrDataLost) {
		t.Error(err)
	}
}
