package embedded

import (
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/causalstore/causalstore/sidecar/storage"
)

func TestFailedSyncStopsTheStore(t *testing.T) {
	var broken atomic.Bool
	injector := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if broken.Load() && strings.HasSuffix(op.Path, ".log") &&
			(op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) {
			return errorfs.ErrInjected
		}
		return nil
	})
	s, err := Open("store", Options{FS: errorfs.Wrap(vfs.NewMem(), injector), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(ctx, []storage.Write{{Key: "k", Record: record(1, "durable")}}); err != nil {
		t.Fatal(err)
	}
	broken.Store(true)
	if err := s.Apply(ctx, []storage.Write{{Key: "k", Record: record(2, "lost")}}); !errors.Is(err,
		errorfs.ErrInjected) {
		t.Fatalf("apply on a broken disk: got %v", err)
	}
	broken.Store(false)
	if rec, _, err := s.Get(ctx, "k"); !errors.Is(err, errorfs.ErrInjected) ||
		!strings.Contains(err.Error(), "restart") {
		t.Errorf("get after a failed sync: got %+v, %v; want the disk error and what to do", rec, err)
	}
	if err := s.Ping(ctx); err == nil {
		t.Error("ping of a failed store returned no error")
	}
	if err := s.Close(); err == nil {
		t.Error("close of a failed store returned no error")
	}
}
