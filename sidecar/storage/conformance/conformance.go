// Package conformance is the contract of storage.Store as tests, run on every engine.
package conformance

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// Place is where one store lives.
type Place struct {
	// Open opens the store there: empty the first time, and with what it held once the one before was closed.
	Open func(t *testing.T) storage.Store
	// PutRaw stores a value without an envelope, past the store that is open.
	PutRaw func(t *testing.T, key string, value []byte)
}

// Run runs the whole contract; each test gets a place of its own.
func Run(t *testing.T, newPlace func(t *testing.T) Place) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Place)
	}{
		{"AMissingKeyIsNotFound", missing},
		{"KeysAndValuesAreBinary", binarySafe},
		{"EmptyValueMissingKeyAndTombstoneDiffer", emptyMissingTombstone},
		{"VersionsAndDeadlinesAreKept", versionsAndDeadlines},
		{"AValueOf16MiBIsKept", bigValue},
		{"ALaterWriteReplacesAnEarlierOne", overwrite},
		{"ADeletedKeyIsGone", deletion},
		{"WritesOfOneBatchApplyInOrder", batchOrder},
		{"ABatchOfManyWritesIsApplied", bigBatch},
		{"GetManyAnswersKeyByKey", getMany},
		{"WhatGetReturnedStaysAsItWas", ownedData},
		{"MetadataIsApartFromKeys", metadata},
		{"ScanVisitsEveryKey", scan},
		{"ScanStopsAtTheFirstError", scanStops},
		{"TheStoreCanBeUsedFromInsideAScan", scanReenters},
		{"EverythingIsThereAfterReopening", reopening},
		{"AnEndedContextDoesNothing", endedContext},
		{"AClosedStoreSaysSo", closed},
		{"ForeignValuesAreReported", foreign},
		{"AForeignValueCanBeOverwrittenAndDeleted", foreignReplaced},
		{"ConcurrentCallsDoNotDisturbOneAnother", concurrent},
		{"RandomOperationsAgreeWithAMap", model},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, newPlace(t)) })
	}
}

// bound is how long one call may take before the test fails rather than hangs.
const bound = 30 * time.Second

// tester calls a store and fails the test on any error.
type tester struct {
	*testing.T
	storage.Store
	ctx context.Context
}

func open(t *testing.T, p Place) tester {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	t.Cleanup(cancel)
	s := p.Open(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return tester{t, s, ctx}
}

func (s tester) apply(writes ...storage.Write) {
	s.Helper()
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
	return a.Version == b.Version && a.Value.ExpireAtMs == b.Value.ExpireAtMs && a.Value.Tombstone == b.Value.Tombstone &&
		bytes.Equal(a.Value.Data, b.Value.Data)
}

// record returns a record with the data, and a version made of n.
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
