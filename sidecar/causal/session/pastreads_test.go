package session

import (
	"fmt"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// readWithPast reads a complete version of a key, of which the greatest HLC in its past is known.
func (r *rig) readWithPast(key string, v causal.Version, past causal.HLC) {
	r.startGet(key)
	r.replyGet(r.request(causal.KindGet), causal.GetReply{Record: record(v), Status: causal.Stable, Ring: near,
		Past: past})
}

// from returns the HLC from which on a key is asked for.
func (r *rig) from(key string) causal.HLC {
	r.startGet(key)
	g := r.request(causal.KindGet).Get()
	return g.From()
}

func TestOtherKeysAreReadFromThePastOfWhatWasSeen(t *testing.T) {
	showsFault(t, causal.PastIgnored, func(r *rig) string {
		r.leaveOut()
		r.readWithPast("y", version(at(1900)), at(1700))
		if from := r.from("x"); from != at(1700) {
			return fmt.Sprintf("x is read from %d ms, want 1700 ms", from.WallMs())
		}
		return ""
	}, snapshotReads, leftOutOne)
}

func TestAKeyIsReadFromTheVersionThatWasSeen(t *testing.T) {
	showsFault(t, causal.ReadKeyForgotten, func(r *rig) string {
		r.leaveOut()
		r.readWithPast("y", version(at(1900)), at(1700))
		r.readWithPast("y", version(at(1900)), at(1700))
		if from := r.from("y"); from != at(1900) {
			return fmt.Sprintf("y is read from %d ms, want 1900 ms", from.WallMs())
		}
		r.startMGet("x", "y")
		if m := r.sent(causal.KindGet); m[0].Get().Cut != at(2000) {
			return fmt.Sprintf("an MGET of y is read at %d ms", m[0].Get().Cut.WallMs())
		}
		return ""
	}, snapshotReads, leftOutOne)
}

func TestAVersionThatWasSeenAsCompleteDoesNotBindLater(t *testing.T) {
	r := newRig(t, snapshotReads, leftOutOne)
	r.leaveOut()
	r.readWithPast("y", version(at(1900)), at(1700))
	r.read("y", version(at(1900)), causal.InFlight, far) // by a shard that does not know it
	if bound, _ := r.bound(); bound {
		t.Error("it binds the session")
	}
	r.read("y", version(at(1950)), causal.InFlight, far)
	if bound, _ := r.bound(); !bound {
		t.Error("a version that is in-flight does not bind the session")
	}
	if from := r.from("x"); from < at(1950) {
		t.Errorf("x is read from %d ms, and what the session has read at 1950 ms may follow a newer one", from.WallMs())
	}
}

func TestAnUnknownPastIsAllThatIsOlder(t *testing.T) {
	r := newRig(t, snapshotReads, leftOutOne)
	r.leaveOut()
	r.readWithPast("y", version(at(1900)), 0)
	if from := r.from("x"); from != at(1900) {
		t.Errorf("x is read from %d ms, want 1900 ms", from.WallMs())
	}
}

func TestVersionsThatAreKeptByKeyAreBounded(t *testing.T) {
	p := pastReads{above: map[string]causal.Version{}}
	for i := range maxPastReads {
		p.add(fmt.Sprint(i), version(at(int64(1000+i))), at(10), at(20), causal.Mutations{})
	}
	p.add("one more", version(at(5000)), at(10), at(20), causal.Mutations{})
	if want := at(1000 + maxPastReads - 1); p.upTo != want || len(p.above) != 1 {
		t.Errorf("%d are kept by key, and others count up to %d ms, want %d ms", len(p.above), p.upTo.WallMs(),
			want.WallMs())
	}
	for i := range maxPastReads - 1 {
		p.add(fmt.Sprint(i), version(at(int64(6000+i))), at(10), at(20), causal.Mutations{})
	}
	p.add("next", version(at(9000)), at(10), at(8000), causal.Mutations{})
	if p.upTo != at(1000+maxPastReads-1) || len(p.above) != 1 {
		t.Errorf("%d are kept by key that the base has passed", len(p.above))
	}
}
