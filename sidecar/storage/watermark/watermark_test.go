package watermark

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

const path = "dir/acknowledged"

func newDisk(t *testing.T) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewCrashableMem()
	root, err := fs.OpenDir("")
	if err = errors.Join(err, fs.MkdirAll("dir", 0o755), root.Sync(), root.Close()); err != nil {
		t.Fatal(err)
	}
	return fs
}

func mustCreate(t *testing.T, fs vfs.FS, value uint64, note string) *File {
	t.Helper()
	w, err := Create(fs, path, value, []byte(note))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func want(t *testing.T, fs vfs.FS, what string, value uint64, note string) {
	t.Helper()
	w, found, err := Open(fs, path)
	if err != nil || !found {
		t.Fatalf("%s: %v, %v", what, found, err)
	}
	if w.Value() != value || string(w.Note()) != note {
		t.Errorf("%s: %d with %q, want %d with %q", what, w.Value(), w.Note(), value, note)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

func ok(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, fs vfs.FS) []byte {
	t.Helper()
	f, err := fs.Open(path)
	ok(t, err)
	b, err := io.ReadAll(f)
	ok(t, err, f.Close())
	return b
}

func TestAWatermarkIsAsItWasWrittenLast(t *testing.T) {
	fs := newDisk(t)
	if _, found, err := Open(fs, path); found || err != nil {
		t.Fatal(found, err)
	}
	w := mustCreate(t, fs, 3, "a")
	want(t, fs, "created", 3, "a")
	ok(t, w.Raise(7), w.Raise(5))
	want(t, fs, "raised", 7, "a")
	ok(t, w.SetNote([]byte("longer"), false))
	want(t, fs, "with another note", 7, "longer")
	ok(t, w.Sync(), w.Raise(8), w.SetNote(nil, true), w.Raise(9))
	want(t, fs, "without a note", 9, "")
	ok(t, w.MarkLost(), w.Raise(10))
	want(t, fs, "lost", 9|lostBit, "")
	if value, known := w.Acknowledged(); value != 9 || !known || !w.IsLost() {
		t.Errorf("lost: acknowledged up to %d, %v", value, known)
	}
	if _, known := mustCreate(t, newDisk(t), Lost, "").Acknowledged(); known {
		t.Error("an earlier version has forgotten how far the store was acknowledged")
	}
	ok(t, w.Close(), w.Close(), w.Raise(11), w.Sync())
	if err := mustCreate(t, fs, 1, "").SetNote(make([]byte, MaxNote+1), false); err == nil {
		t.Error("a note that is too long was taken")
	}
}

// A power cut leaves what was synced last, or something later: never something earlier, and never nothing.
func TestAPowerCutLeavesWhatWasSynced(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		fs := newDisk(t)
		w := mustCreate(t, fs, 1, "note")
		value, synced := uint64(1), uint64(1)
		for range rng.IntN(20) {
			value++
			ok(t, w.Raise(value))
			if rng.IntN(4) == 0 {
				ok(t, w.Sync())
				synced = value
			}
		}
		after := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
		// What was not synced may be torn.
		b := content(t, after)
		at := int(w.next) * slotSpace
		for i := range rng.IntN(headSize + sumSize) {
			if w.isNew {
				b[at+i] ^= byte(rng.IntN(256))
			}
		}
		f, err := after.Create(path, category)
		ok(t, err)
		_, err = f.Write(b)
		ok(t, err, f.Close())
		r, found, err := Open(after, path)
		if err != nil || !found || r.Value() < synced || r.Value() > value {
			t.Fatalf("%v, %v: %d, want %d to %d", found, err, r.Value(), synced, value)
		}
		ok(t, r.Close(), w.Close())
	}
}

// Who opens the file relies on what it says, though the process that wrote it may have been killed before it synced
// that.
func TestAPowerCutLeavesWhatWasReadAndThatSomethingIsLost(t *testing.T) {
	powerCut := func(fs *vfs.MemFS) vfs.FS { return fs.CrashClone(vfs.CrashCloneCfg{}) }
	fs := newDisk(t)
	killed := mustCreate(t, fs, 1, "")
	ok(t, killed.Raise(7))
	w, _, err := Open(fs, path)
	ok(t, err)
	want(t, powerCut(fs), "after it was opened", 7, "")
	ok(t, w.Raise(8), w.MarkLost())
	want(t, powerCut(fs), "marked as lost", lostBit|8, "")
}

func TestAFlippedBitIsNoticedOrHarmless(t *testing.T) {
	fs := newDisk(t)
	w := mustCreate(t, fs, 5, "note")
	ok(t, w.Raise(6), w.Close())
	intact := content(t, fs)
	for _, both := range []bool{false, true} {
		for bit := range (headSize + len("note") + sumSize) * 8 {
			b := bytes.Clone(intact)
			b[bit/8] ^= 1 << (bit % 8)
			if both {
				b[slotSpace+bit/8] ^= 1 << (bit % 8)
			}
			f, err := fs.Create(path, category)
			ok(t, err)
			_, err = f.Write(b)
			ok(t, err, f.Close())
			r, found, err := Open(fs, path)
			if both {
				if !found || !errors.Is(err, ErrDamaged) {
					t.Fatalf("bit %d of both: %v, %v", bit, found, err)
				}
				continue
			}
			ok(t, err)
			if v := r.Value(); !slices.Contains([]uint64{5, 6}, v) {
				t.Fatalf("bit %d: %d", bit, v)
			}
			ok(t, r.Close())
		}
	}
}

func TestAFullDiskIsNoErrorButForWhatMustBeDurable(t *testing.T) {
	full := false
	fs := errorfs.Wrap(newDisk(t), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full && strings.HasPrefix(op.Path, path) && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return syscall.ENOSPC
		}
		return nil
	}))
	w := mustCreate(t, fs, 1, "")
	full = true
	ok(t, w.Raise(2), w.SetNote([]byte("x"), false), w.Sync())
	if err := w.SetNote([]byte("y"), true); !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	full = false
	ok(t, w.Raise(3))
	want(t, fs, "with space again", 3, "")
}
