// Package conformance tests the contract of storage.Store on any engine.
package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// Place is a location that holds the data of one store.
type Place struct {
	// Open opens the store: empty the first time, and later with what the previous one held when it was closed.
	Open func(t *testing.T) storage.Store
	// PutRaw stores a value without an envelope, bypassing the open store.
	PutRaw func(t *testing.T, key string, value []byte)
}

// Run runs all tests of the contract; each gets its own place.
func Run(t *testing.T, newPlace func(t *testing.T) Place) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Place)
	}{
		{"MissingKeysAreNotFound", missing},
		{"KeysAndValuesAreBinarySafe", binarySafe},
		{"EmptyValuesMissingKeysAndTombstonesDiffer", emptyMissingTombstone},
		{"VersionsAndDeadlinesAreKept", versionsAndDeadlines},
		{"ValuesOf16MiBAreKept", bigValue},
		{"LaterWritesReplaceEarlierOnes", overwrite},
		{"DeletedKeysAreGone", deletion},
		{"WritesOfABatchApplyInOrder", batchOrder},
		{"LargeBatchesAreApplied", bigBatch},
		{"GetManyAnswersKeyByKey", getMany},
		{"GetManyReadsNoMoreThanItsBound", getManyBounded},
		{"DataReturnedByGetDoesNotChange", ownedData},
		{"MetadataIsSeparateFromKeys", metadata},
		{"MetadataOfABatchIsAppliedWithIt", batchMetadata},
		{"ClearRemovesEveryKeyAndKeepsMetadata", clearing},
		{"ScanVisitsEveryKey", scan},
		{"ScanStopsAtTheFirstError", scanStops},
		{"ScanCallbacksMayUseTheStore", scanReenters},
		{"KeysNamesEveryKey", keyNames},
		{"ReopeningKeepsEverything", reopening},
		{"CallsWithAnEndedContextDoNothing", endedContext},
		{"CallsOfAClosedStoreReturnErrClosed", closed},
		{"ForeignValuesAreReported", foreign},
		{"ForeignValuesCanBeOverwrittenAndDeleted", foreignReplaced},
		{"ConcurrentCallsDoNotInterfere", concurrent},
		{"RandomOperationsAgreeWithAModel", model},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, newPlace(t)) })
	}
}

// testTimeout bounds each test, so that it fails instead of hanging.
const testTimeout = 30 * time.Second

// tester wraps a store and fails the test on unexpected results.
type tester struct {
	*testing.T
	storage.Store
	ctx context.Context
}

func open(t *testing.T, p Place) tester {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	s := p.Open(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return tester{t, s, ctx}
}

// apply applies the writes, with KeyExists filled in from what the store holds.
func (s tester) apply(writes ...storage.Write) {
	s.Helper()
	exists := make(map[string]bool)
	for i := range writes {
		w := &writes[i]
		if _, known := exists[w.Key]; !known {
			_, found, err := s.Get(s.ctx, w.Key)
			if err != nil && !errors.Is(err, storage.ErrForeign) {
				s.Fatalf("get %.40q before a write: %v", w.Key, err)
			}
			exists[w.Key] = found || err != nil
		}
		w.KeyExists = exists[w.Key]
		exists[w.Key] = !w.Delete
	}
	if err := s.Apply(s.ctx, writes); err != nil {
		s.Fatalf("apply: %v", err)
	}
}

func (s tester) wantRecord(key string, want causal.Record) {
	s.Helper()
	got, found, err := s.Get(s.ctx, key)
	if err != nil || !found {
		s.Errorf("get %.40q: found %v, %v", key, found, err)
		return
	}
	if !same(want, got) {
		s.Errorf("get %.40q: got %.200v, want %.200v", key, fmt.Sprint(got), fmt.Sprint(want))
	}
}

func (s tester) wantMissing(key string) {
	s.Helper()
	if rec, found, err := s.Get(s.ctx, key); found || err != nil {
		s.Errorf("get %.40q: got %v, found %v, %v; want it missing", key, rec, found, err)
	}
}

func (s tester) wantLen(want int64) {
	s.Helper()
	if n, err := s.Len(s.ctx); err != nil || n != want {
		s.Errorf("len: got %d, %v; want %d", n, err, want)
	}
}

func (s tester) wantContents(want map[string]causal.Record) {
	s.Helper()
	got := make(map[string]causal.Record)
	err := s.Scan(s.ctx, func(key string, rec causal.Record) error {
		rec.Value.Data = append([]byte(nil), rec.Value.Data...)
		got[key] = rec
		return nil
	})
	if err != nil {
		s.Errorf("scan: %v", err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.Comparer(same)); diff != "" {
		s.Errorf("scan (-want +got):\n%s", diff)
	}
}

func same(a, b causal.Record) bool {
	return a.Version == b.Version && a.Value.ExpireAtMs == b.Value.ExpireAtMs &&
		a.Value.Tombstone == b.Value.Tombstone &&
		bytes.Equal(a.Value.Data, b.Value.Data)
}

// record returns a record with the given data, and with a version derived from n.
func record(n int, data string) causal.Record {
	return causal.Record{
		Version: causal.Version{HLC: causal.HLCAt(1_700_000_000_000 + int64(n)), Origin: 5},
		Value:   causal.Value{Data: []byte(data)},
	}
}

func tombstone(n int) causal.Record {
	rec := record(n, "")
	rec.Value = causal.Value{Tombstone: true}
	return rec
}

func set(key string, rec causal.Record) storage.Write { return storage.Write{Key: key, Record: rec} }

func remove(key string) storage.Write { return storage.Write{Key: key, Delete: true} }
