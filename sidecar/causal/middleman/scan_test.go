package middleman

import (
	"slices"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// scan asks for keys and returns the reply; false: there is none yet.
func (r *rig) scan(s causal.Scan) (causal.ScanReply, bool) {
	r.lastID++
	s.ID = r.lastID
	if s.Map == 0 {
		s.Map = r.m.slotMap()
	}
	r.step(s.Message(sidecar, self))
	return r.scanReply(s.ID)
}

func (r *rig) scanReply(id uint64) (causal.ScanReply, bool) {
	for _, m := range r.inbox {
		if m.Kind == causal.KindScanReply && m.RequestID() == id {
			return m.ScanReply(), true
		}
	}
	return causal.ScanReply{}, false
}

// A put is here and staged, and what a bound session has seen may depend on it.
func TestAScanOfABoundSessionNamesTheKeysOfPendingPuts(t *testing.T) {
	ruleHolds(t, causal.ScanPastStaged, func(r *rig) string {
		stored, staged, later := r.key(self, 0), r.key(self, 1), r.key(self, 2)
		r.put(stored, record(version(5)))
		r.put(staged, record(version(10)), after(version(7), r.key(peer, 0)))
		r.put(later, record(version(11)), after(version(7), r.key(peer, 0)))
		for seen, want := range map[causal.HLC][]string{0: {stored}, 9: {stored}, 10: {staged, stored}} {
			if reply, ok := r.scan(causal.Scan{Seen: seen}); !ok || !slices.Equal(reply.Keys, want) {
				return strings.Join(reply.Keys, " ") + " was named to a session that has seen " + version(seen).String()
			}
		}
		return ""
	})
}

// A put that is being written when the scan comes is not staged any more, and storage may not hold it yet.
func TestAScanNamesAPutThatIsBeingWritten(t *testing.T) {
	r := newRig(t)
	key := r.key(self, 0)
	r.hold = func(op StorageOp) bool { return op.Kind == StorageWrite }
	r.put(key, record(version(10)))
	if len(r.held) != 1 {
		t.Fatalf("%d writes are under way", len(r.held))
	}
	if reply, ok := r.scan(causal.Scan{Seen: 10}); !ok || !slices.Equal(reply.Keys, []string{key}) {
		t.Errorf("%+v", reply)
	}
}

// A put may be processed between the two lists: it is in the first one.
func TestAScanNamesAPutThatIsProcessedMeanwhile(t *testing.T) {
	r := newRig(t)
	key := r.key(self, 0)
	r.put(key, record(version(10)), after(version(7), r.key(peer, 0)))
	r.hold = func(op StorageOp) bool { return op.Kind == StorageScan }
	if _, ok := r.scan(causal.Scan{Seen: 10}); ok {
		t.Fatal("the scan was answered before storage was")
	}
	asked := r.lastID
	scanOp := r.held[0]
	r.held, r.hold = nil, nil
	r.step(causal.DepStatus{Version: version(7)}.Message(peer, self))
	if _, written := r.records[key]; !written {
		t.Fatal("the put was not written")
	}
	r.m.StorageDone(r.now, StorageResult{ID: scanOp.ID}) // what storage held before
	r.pump()
	if reply, ok := r.scanReply(asked); !ok || !slices.Equal(reply.Keys, []string{key}) {
		t.Errorf("%+v", reply)
	}
}

func TestAScanIsRefusedWhereItCouldMissKeys(t *testing.T) {
	r := newRig(t)
	if reply, _ := r.scan(causal.Scan{Map: r.m.slotMap() + 1}); reply.Err != causal.ErrMoved ||
		reply.Map != r.m.slotMap() {
		t.Errorf("under another slot map: %+v", reply)
	}
	r.fail = func(op StorageOp) bool { return op.Kind == StorageScan }
	if reply, _ := r.scan(causal.Scan{}); reply.Err != causal.ErrStorage || len(reply.Keys) > 0 {
		t.Errorf("storage fails: %+v", reply)
	}
	r.fail = nil
	r.restart()
	if reply, _ := r.scan(causal.Scan{Seen: 10}); reply.Err != causal.ErrStarting {
		t.Errorf("after a restart, before the lanes are received again: %+v", reply)
	}
	if reply, _ := r.scan(causal.Scan{}); reply.Err != causal.OK {
		t.Errorf("of an unbound session after a restart: %+v", reply)
	}
}

func TestAScanNamesNoKeyOfAnotherShard(t *testing.T) {
	r := newRig(t)
	own := r.key(self, 0)
	// left from before the shards changed
	r.records[own], r.records[r.key(peer, 0)] = record(version(1)), record(version(2))
	if reply, _ := r.scan(causal.Scan{}); !slices.Equal(reply.Keys, []string{own}) {
		t.Errorf("named %q", reply.Keys)
	}
}

// A scan continues by a number too, at whatever sidecar; a shard that has started again does not know it.
func TestAScanContinuesAtANumberedPlace(t *testing.T) {
	r := newRig(t)
	var keys []string
	for i := range 4 {
		keys = append(keys, r.key(self, i))
		r.put(keys[i], record(version(causal.HLC(5+i))))
	}
	first, ok := r.scan(causal.Scan{Limit: 2})
	if !ok || first.Next == "" || first.Place == 0 {
		t.Fatalf("first page: %+v", first)
	}
	byKey, _ := r.scan(causal.Scan{Limit: 2, After: first.Next})
	byPlace, ok := r.scan(causal.Scan{Limit: 2, Place: first.Place})
	if !ok || byPlace.Err != causal.OK || !slices.Equal(byPlace.Keys, byKey.Keys) || len(byKey.Keys) == 0 {
		t.Errorf("by its number %+v, by its key %+v", byPlace, byKey)
	}
	if unknown, ok := r.scan(causal.Scan{Limit: 2, Place: first.Place + 9}); !ok || unknown.Err != causal.ErrNotFound {
		t.Errorf("a number that it does not know: %+v", unknown)
	}
}
