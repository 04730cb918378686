package embedded

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/storage/conformance"
)

var ctx = context.Background()

func TestMain(m *testing.M) {
	// Pebble leaves one goroutine behind when it is refused the lock of a directory.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/cockroachdb/pebble/v2/vfs.(*diskHealthCheckingFS).startTickerLocked.func1"))
}

func mustOpen(t testing.TB, dir string, opts Options) *Store {
	t.Helper()
	s, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func record(n int, data string) causal.Record {
	return causal.Record{Version: causal.Version{HLC: causal.HLC(n), Origin: 1}, Value: causal.Value{Data: []byte(data)}}
}

func place(dir string, opts Options) conformance.Place {
	var current *Store
	return conformance.Place{
		Open: func(t *testing.T) storage.Store {
			current = mustOpen(t, dir, opts)
			return current
		},
		PutRaw: func(t *testing.T, key string, value []byte) {
			if err := current.db.Set(append([]byte{prefixData}, key...), value, pebble.Sync); err != nil {
				t.Fatal(err)
			}
		},
	}
}

func TestTheEngineKeepsTheContractOnDisk(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Place {
		return place(filepath.Join(t.TempDir(), "not", "there", "yet"), Options{})
	})
}

func TestTheEngineKeepsTheContractInMemoryWithTinyTables(t *testing.T) {
	cache := pebble.NewCache(1 << 20)
	defer cache.Unref()
	conformance.Run(t, func(t *testing.T) conformance.Place {
		return place("store", Options{FS: vfs.NewMem(), Cache: cache, MemTableBytes: 64 << 10})
	})
}

func TestAStoreThatIsOpenIsNotOpenedAgain(t *testing.T) {
	dir := t.TempDir()
	mustOpen(t, dir, Options{})
	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "already open") {
		t.Errorf("got %v", err)
	}
}

func TestOpeningAnExistingStoreIsFast(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	for i := range 200 {
		if err := s.Apply(ctx, []storage.Write{{Key: string(rune('a' + i)), Record: record(i, strings.Repeat("v", 1000))}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	best := time.Hour
	for range 5 {
		start := time.Now()
		s, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		best = min(best, time.Since(start))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("best of 5: %v", best)
	if best > time.Second {
		t.Errorf("opening took %v", best)
	}
}

func TestPebbleLogsAtDebugLevelOnly(t *testing.T) {
	var out strings.Builder
	s := mustOpen(t, "store", Options{FS: vfs.NewMem(), Logger: slog.New(slog.NewTextHandler(&out, nil))})
	if err := s.Apply(ctx, []storage.Write{{Key: "k", Record: record(1, "v")}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if out.Len() != 0 {
		t.Errorf("logged at info level or above:\n%s", out.String())
	}
}
