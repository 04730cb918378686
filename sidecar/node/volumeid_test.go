package node

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/causalstore/causalstore/sidecar/wal"
)

func newVolume(t *testing.T) (volume, uint64) {
	t.Helper()
	v := volume{vfs.NewMem(), "log"}
	if err := v.fs.MkdirAll(v.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if id, err := v.readID(); id != 0 || err != nil {
		t.Fatalf("a new volume has the id %d, %v", id, err)
	}
	id, err := v.writeID()
	if err != nil {
		t.Fatal(err)
	}
	return v, id
}

// setText replaces a file; "": removes it.
func setText(t *testing.T, v volume, name, text string) {
	t.Helper()
	err := v.fs.Remove(v.path(name))
	if text != "" {
		err = v.writeText(name, text)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func wantID(t *testing.T, v volume, what string, id uint64) {
	t.Helper()
	for range 2 {
		if got, err := v.readID(); got != id || err != nil {
			t.Fatalf("%s: the id is %d, %v, want %d", what, got, err, id)
		}
	}
}

func TestADamagedVolumeIDIsRepaired(t *testing.T) {
	for _, name := range []string{volumeFile, volumeCopyFile} {
		v, id := newVolume(t)
		intact, err := v.readText(name)
		if err != nil {
			t.Fatal(err)
		}
		for bit := range len(intact) * 8 {
			b := []byte(intact)
			b[bit/8] ^= 1 << (bit % 8)
			setText(t, v, name, string(b))
			wantID(t, v, name, id)
			setText(t, v, name, intact[:bit/8]+" ")
			wantID(t, v, name, id)
		}
		if text, err := v.readText(name); text != intact || err != nil {
			t.Errorf("%s was repaired to %q, %v, and was %q", name, text, err, intact)
		}
	}
}

func TestAVolumeOfAnEarlierVersionGetsACopyOfItsID(t *testing.T) {
	v, id := newVolume(t)
	setText(t, v, volumeCopyFile, "")
	wantID(t, v, "without a copy", id)
	setText(t, v, volumeFile, "damaged")
	wantID(t, v, "from the copy", id)
}

func TestAVolumeWhoseIDAndItsCopyAreDamagedIsDamaged(t *testing.T) {
	v, _ := newVolume(t)
	setText(t, v, volumeFile, "damaged")
	setText(t, v, volumeCopyFile, "damaged")
	if _, err := v.readID(); !isCorrupt(err) {
		t.Errorf("both are damaged: %v", err)
	}
}

func TestAVolumeWithoutItsIDGetsAnotherOne(t *testing.T) {
	v, id := newVolume(t)
	setText(t, v, volumeFile, "")
	wantID(t, v, "without the file", 0)
	next, err := v.writeID()
	if err != nil || next == id {
		t.Fatalf("the next id is %d, %v, after %d", next, err, id)
	}
	wantID(t, v, "with another id", next)
}

func isCorrupt(err error) bool {
	_, ok := errors.AsType[*wal.CorruptError](err)
	return ok
}
