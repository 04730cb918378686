package middleman

import (
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/value"
)

// times is a type of values that merge: the HLCs of all writes, which are of one origin and below 256. The data are the
// HLC up to which a register has overwritten them, and all but the newest.
type times struct{}

const timesType causal.TypeID = 200

// timesAt returns the value of writes at times in ascending order, which has met a register at overwritten.
func timesAt(overwritten byte, hlcs ...byte) causal.Record {
	last := len(hlcs) - 1
	return causal.Record{Version: version(causal.HLC(hlcs[last])),
		Value: causal.Value{Type: timesType, Data: append([]byte{overwritten}, hlcs[:last]...)}}
}

func timesOf(r causal.Record) (overwritten byte, hlcs []byte) {
	return r.Value.Data[0], append(slices.Clone(r.Value.Data[1:]), byte(r.Version.HLC))
}

func (times) Join(a, b causal.Record) causal.Record {
	upTo, hlcs := timesOf(a)
	other, more := timesOf(b)
	hlcs = append(hlcs, more...)
	slices.Sort(hlcs)
	upTo = max(upTo, other)
	hlcs = slices.DeleteFunc(slices.Compact(hlcs), func(h byte) bool { return h <= upTo })
	return timesAt(upTo, hlcs...)
}

func (times) Overwrite(r, register causal.Record) (causal.Record, bool) {
	upTo, hlcs := timesOf(r)
	upTo = max(upTo, byte(register.Version.HLC))
	if hlcs = slices.DeleteFunc(hlcs, func(h byte) bool { return h <= upTo }); len(hlcs) == 0 {
		return causal.Record{}, false
	}
	return timesAt(upTo, hlcs...), true
}

func (times) Writes(r causal.Record) iter.Seq[causal.Record] {
	return func(yield func(causal.Record) bool) {
		_, hlcs := timesOf(r)
		for _, h := range hlcs {
			if !yield(timesAt(0, h)) {
				return
			}
		}
	}
}

// newCopyingRig returns a rig whose middleman has lost its data, and gets them back from a donor whose horizon is 20,
// which is durable here.
func newCopyingRig(t *testing.T, keys ...string) *rig {
	t.Helper()
	types, err := (*value.Types)(nil).With(timesType, times{})
	if err != nil {
		t.Fatal(err)
	}
	r := newLostRig(t, func(c *Config) { c.Types = types })
	r.wait(time.Second)
	r.answerHellos(bothCoordinators)
	for range 20 {
		r.wait(100 * time.Millisecond)
		for _, m := range r.received(causal.KindScan, donorNode) {
			if m.Scan().After == "" {
				r.step(causal.ScanReply{ID: m.Scan().ID, Map: r.topo.Map(1), Keys: keys, Next: "more", Horizon: 20,
					TellsHorizon: true}.Message(donorNode, self))
			}
		}
	}
	if r.horizon != 20 {
		t.Fatalf("the horizon is %v", r.horizon)
	}
	return r
}

func (r *rig) checkTimes(key string, want ...byte) {
	r.t.Helper()
	if _, hlcs := timesOf(r.records[key]); !slices.Equal(hlcs, want) {
		r.t.Errorf("%s has the writes %v, want %v", key, hlcs, want)
	}
}

// A key is missing since it was lost: the horizon, which is above what the donor has of it, says nothing about it. A
// write that comes before the copy is joined with that.
func TestAWriteThatMergesBeforeItsKeyIsCopiedLosesNothingBelowTheHorizon(t *testing.T) {
	r := newCopyingRig(t, "k")
	r.put("k", timesAt(0, 30))
	r.checkTimes("k", 30)
	r.donate(map[string]causal.Record{"k": timesAt(0, 5, 7)}, 20)
	if p, _ := r.m.Backfill(); p.Stage != "catching up" {
		t.Fatalf("%+v", p)
	}
	r.checkTimes("k", 5, 7, 30)
}

// The donor has deleted the key, and dropped the tombstone, so it does not list it. What was written here before that
// was known must remember it: a coordinator may send an overwritten write again.
func TestAWriteThatMergesRemembersATombstoneThatTheDonorHasDropped(t *testing.T) {
	r := newCopyingRig(t)
	r.put("k", timesAt(0, 30))
	r.donate(nil, 20)
	r.put("fresh", timesAt(0, 40)) // when all is copied
	for _, key := range []string{"k", "fresh"} {
		if upTo, hlcs := timesOf(r.records[key]); upTo != 20 || len(hlcs) != 1 {
			t.Errorf("%s has the writes %v, and remembers that those up to %d were overwritten; want 20", key, hlcs,
				upTo)
		}
	}
}

// Keys are written for the first time all the while. Those that come when all that the donor has was copied were not
// lost, so nobody is asked for them, and the copying ends.
func TestABackfillEndsWhileKeysThatMergeAreWrittenForTheFirstTime(t *testing.T) {
	r := newCopyingRig(t)
	for i := range byte(100) {
		r.put(fmt.Sprint("k", i), timesAt(0, 30+i))
		r.wait(100 * time.Millisecond)
		r.donateOnce(nil, 20)
	}
	if p, _ := r.m.Backfill(); p.Stage != "catching up" {
		t.Errorf("%+v", p)
	}
}
