package middleman

import (
	"fmt"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/value"
)

// keepExpired1s makes the middleman keep what has expired for a second.
func keepExpired1s(c *Config) { c.KeepMs, c.ExpiredMs = 10, 1000 }

func expiringAt(v causal.Version, ms int64) causal.Record {
	rec := record(v)
	rec.Value.ExpireAtMs = ms
	return rec
}

// pass lets time pass, during which everything becomes complete in all rings at once.
func (r *rig) pass(ms int64) {
	for until := r.now.WallMs + ms; r.now.WallMs < until; {
		r.raiseSV(hlcAt(r.now.WallMs))
		r.wait(purgeInterval)
	}
}

func (r *rig) keeps(key string) bool {
	_, kept := r.records[key]
	return kept
}

func TestWhatHasExpiredIsDroppedSomeTimeAfterItWasCompleteAndExpired(t *testing.T) {
	ruleHolds(t, causal.ExpiredByClock, func(r *rig) string {
		key, start := r.key(self, 0), r.now.WallMs
		r.put(key, expiringAt(version(hlcAt(start)), start+500))
		r.pass(1450)
		if !r.keeps(key) {
			return "it was dropped early"
		}
		r.pass(2000)
		if r.keeps(key) {
			return "it was not dropped"
		}
		if r.m.Stats().Expired != 1 || r.m.Expiring() != 0 {
			return fmt.Sprintf("%d were counted, %d are noted", r.m.Stats().Expired, r.m.Expiring())
		}
		return ""
	}, keepExpired1s)
}

// EXPIRE of a data center that is cut off is on its way, and the horizon does not pass it.
func TestWhatHasExpiredIsKeptWhileAWriteMayBeOnItsWay(t *testing.T) {
	ruleHolds(t, causal.ExpiredByClock, func(r *rig) string {
		key, start := r.key(self, 0), r.now.WallMs
		r.put(key, expiringAt(version(hlcAt(start)), start+500))
		r.raiseSV(hlcAt(start + 400))
		r.wait(time.Minute)
		if !r.keeps(key) {
			return "it was dropped while a data center was cut off"
		}
		r.put(key, expiringAt(version(hlcAt(start+450)), start+3_600_000))
		r.pass(5000)
		if !r.keeps(key) || r.m.Expiring() != 1 {
			return "it was dropped though it has not expired"
		}
		return ""
	}, keepExpired1s)
}

// Two rings have a hash that has expired, and one drops it. A client of a third data center has read just before it
// arrived there, and found nothing. What it writes is in the rings before one of them drops anything, or they differ.
func TestAWriteThatHasNotSeenWhatExpiredIsThereBeforeThatIsDropped(t *testing.T) {
	for waitMs, differ := range map[int64]bool{0: true, 1000: false} {
		east := newRig(t, keepExpired1s, func(c *Config) { c.Types, c.ExpiredMs = value.Shipped(), waitMs })
		west := newRig(t, keepExpired1s, func(c *Config) { c.Types, c.ExpiredMs = value.Shipped(), 1<<40 })
		key, start := east.key(self, 0), east.now.WallMs
		hash := value.ChangeOf(causal.Record{})
		hash.Add(value.Hash, "a", "1")
		hash.ExpireAt(start + 100)
		unseen := causal.Record{Version: causal.Version{HLC: hlcAt(start + 720), Origin: 2},
			Value: changed(causal.Record{}, causal.Version{}, "c").Value}
		for _, r := range []*rig{east, west} {
			r.put(key, causal.Record{Version: version(hlcAt(start)), Value: hash.Value()})
			r.wait(600 * time.Millisecond)
			r.raiseSV(hlcAt(start + 600)) // what had to wait becomes complete, all at once
			r.wait(purgeInterval)
			r.raiseSV(hlcAt(start + 715))
			r.waitForPurges()
			r.put(key, unseen)
			r.pass(4000)
		}
		e, w := value.CollectionOf(east.records[key].Value), value.CollectionOf(west.records[key].Value)
		if (e.Len() != w.Len()) != differ {
			t.Errorf("after %d ms the east has %d fields, the west %d", waitMs, e.Len(), w.Len())
		}
	}
}

func TestWhatExpiresIsFoundAgainAfterAStart(t *testing.T) {
	r := newRig(t, keepExpired1s)
	key, start := r.key(self, 0), r.now.WallMs
	r.put(key, expiringAt(version(hlcAt(start)), start+500))
	r.pass(1000)
	r.restart()
	r.m.NoteTombstone(key, r.records[key])
	r.fail = func(op StorageOp) bool { return op.Kind == StorageDelete }
	r.pass(4000)
	r.fail = nil
	r.pass(300)
	if r.keeps(key) {
		t.Error("it is still there")
	}
}

func TestAPutThatComesAgainDoesNotBringBackWhatWasDropped(t *testing.T) {
	r := newRig(t, keepExpired1s)
	key, start := r.key(self, 0), r.now.WallMs
	rec := expiringAt(version(hlcAt(start)), start+500)
	r.put(key, rec)
	r.pass(4000)
	if r.horizon < rec.Version.HLC || r.keeps(key) {
		t.Fatalf("the horizon is %v, and the value is there: %v", r.horizon, r.keeps(key))
	}
	r.restart()
	r.put(key, rec)
	if r.keeps(key) {
		t.Error("it is there again")
	}
}

func TestAValueThatExpiresSoonerIsDroppedSooner(t *testing.T) {
	r := newRig(t, keepExpired1s)
	sooner, later, start := r.key(self, 0), r.key(self, 1), r.now.WallMs
	for i := range int64(50) {
		r.put(later, expiringAt(version(hlcAt(start+i)), start+i+3000))
	}
	r.put(sooner, expiringAt(version(hlcAt(start+60)), start+3_600_000))
	r.put(sooner, expiringAt(version(hlcAt(start+61)), start+100))
	if n := len(r.m.expiring.order); n > 3 {
		t.Errorf("%d times are noted of two keys", n)
	}
	r.pass(3000)
	if r.keeps(sooner) || !r.keeps(later) {
		t.Errorf("the one that expires sooner is there: %v, the other one: %v", r.keeps(sooner), r.keeps(later))
	}
	r.pass(4000)
	if r.keeps(later) {
		t.Error("the one that expires later is still there")
	}
}

func TestOfTooManyDeadlinesTheLaterOnesAreScannedForAgain(t *testing.T) {
	r := newRig(t, keepExpired1s)
	r.m.expiring.max = 16
	start := r.now.WallMs
	for i := range 40 {
		r.put(r.key(self, i), expiringAt(version(hlcAt(start+int64(i))), start+1000-int64(i)))
	}
	if n := len(r.m.expiring.order); n > 16 {
		t.Fatalf("%d are noted", n)
	}
	for range 80 {
		r.pass(200)
		if r.m.WantsScan() {
			for key, rec := range r.records {
				r.m.NoteTombstone(key, rec)
			}
		}
	}
	if len(r.records) != 0 {
		t.Errorf("%d of 40 are left", len(r.records))
	}
}
