package embedded

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// Pebble uses a new manifest before that is noted, and then removes the old one: a crash in between is no loss.
func TestAManifestThatIsNewerThanTheNotedOneIsNoLoss(t *testing.T) {
	const inUse, content = 5, "the content of a manifest"
	fs := vfs.NewMem()
	f, err := fs.Create(fmt.Sprintf("MANIFEST-%06d", inUse), vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write([]byte(content))
		err = errors.Join(err, f.Close())
	}
	marker, _, errMarker := atomicfs.LocateMarker(fs, "", "manifest")
	if err = errors.Join(err, errMarker); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(marker.Move(fmt.Sprintf("MANIFEST-%06d", inUse)), marker.Close()); err != nil {
		t.Fatal(err)
	}
	size, digest := uint64(len(content)), xxhash.Sum64String(content)
	for what, c := range map[string]struct {
		noted  fileState
		isLoss bool
	}{
		"an older one": {fileState{manifest: inUse - 1, size: 1000, digest: 1}, false},
		"the same":     {fileState{manifest: inUse, size: size, digest: digest}, false},
		"the same, of which less": {fileState{manifest: inUse, size: 4, digest: xxhash.Sum64String(content[:4])},
			false},
		"the same, of which more":      {fileState{manifest: inUse, size: size + 1, digest: digest}, true},
		"the same, with other content": {fileState{manifest: inUse, size: size, digest: digest + 1}, true},
		"a newer one":                  {fileState{manifest: inUse + 1, size: size, digest: digest}, true},
		"a log that is gone":           {fileState{logs: []uint64{3}}, true},
		"nothing":                      {fileState{}, false},
	} {
		if err := newLedger(fs, "").check(c.noted); (err != nil) != c.isLoss {
			t.Errorf("%s was noted: %v", what, err)
		}
	}
}
