package node

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A coordinator that was moved by a copy of its files has the spare space too, with which it starts on a full disk.
func TestACopyOfAVolumeHasTheSpareSpace(t *testing.T) {
	original, moved := t.TempDir(), filepath.Join(t.TempDir(), "log")
	v := volume{vfs.Default, original}
	v.reserveSpare()
	if err := os.CopyFS(moved, os.DirFS(original)); err != nil {
		t.Fatal(err)
	}
	v = volume{vfs.Default, moved}
	v.reserveSpare()
	for _, dir := range []string{original, moved} {
		var s syscall.Stat_t
		if err := syscall.Stat(filepath.Join(dir, spareFile), &s); err != nil {
			t.Fatal(err)
		}
		if got := s.Blocks * 512; got < spareBytes {
			t.Errorf("the spare file in %s takes up %d bytes", dir, got)
		}
	}
	if !v.releaseSpare() {
		t.Error("there was no spare space")
	}
}

// What an interrupted start has left is completed.
func TestASpareFileThatIsTooShortIsWrittenAgain(t *testing.T) {
	fs := vfs.NewMem()
	v := volume{fs, ""}
	f, err := fs.Create(spareFile, diskCategory)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	v.reserveSpare()
	if info, err := fs.Stat(spareFile); err != nil || info.Size() != spareBytes {
		t.Error(info, err)
	}
}
