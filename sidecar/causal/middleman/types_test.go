package middleman

import (
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// ofUnknownType returns a record of a type that nobody knows here.
func ofUnknownType(v causal.Version) causal.Record {
	r := record(v)
	r.Value.Type = 1
	return r
}

func TestAPutOfAnUnknownTypeIsNotTakenAndNotAcknowledged(t *testing.T) {
	r := newRig(t)
	r.put(r.key(self, 0), ofUnknownType(version(10)))
	r.wait(time.Second)
	if acked := r.acked(coordinator); len(acked) > 0 || len(r.records) > 0 || r.m.Stats().UnknownTypes != 1 {
		t.Errorf("acknowledged %v, stored %v, counted %d", acked, r.records, r.m.Stats().UnknownTypes)
	}
}

func TestARecordOfAnUnknownTypeIsNeitherShownNorReplaced(t *testing.T) {
	r := newRig(t)
	key := r.key(self, 0)
	r.records[key] = ofUnknownType(version(5))
	if reply := r.mustGet(causal.Get{Key: key}); reply.Err != causal.ErrStorage {
		t.Errorf("it is read as %+v", reply)
	}
	r.put(key, record(version(10)))
	if acked := r.acked(coordinator); len(acked) > 0 || r.records[key].Version != version(5) {
		t.Errorf("acknowledged %v, stored %+v", acked, r.records[key])
	}
}
