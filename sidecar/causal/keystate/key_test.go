package keystate

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

func register(hlc causal.HLC, data string) causal.Record {
	return causal.Record{Version: causal.Version{HLC: hlc, Origin: 1}, Value: causal.Value{Data: []byte(data)}}
}

func TestACopyIsGoodUntilTheWriteAfterIt(t *testing.T) {
	c := Copy{Record: register(20, "b")}
	if !c.Withdraw(40) || !c.Withdraw(60) || c.Next != 40 {
		t.Fatalf("withdrawn at 40, then at 60: the write after it is at %d", c.Next)
	}
	if !c.Withdraw(10) || c.Next != 40 {
		t.Errorf("a write at 10, which it has won over, withdraws it: %+v", c)
	}
	for cut, want := range map[causal.HLC]bool{19: false, 20: true, 39: true, 40: false} {
		if c.IsAt(cut) != want {
			t.Errorf("at %d: %v", cut, !want)
		}
	}
	if !c.Answers(10, 30) || c.Answers(40, 50) || c.Answers(5, 10) {
		t.Error("it answers for what it has not, or does not for what it has")
	}
}

func TestACopyInThePlaceOfAnotherKeepsItsEnd(t *testing.T) {
	older, other := Copy{Record: register(20, "b")}, Copy{Record: register(20, "b"), Next: 30}
	if !older.Follow(&other) || older.Next != 30 {
		t.Errorf("the same version, of which the other copy was withdrawn at 30: %+v", older)
	}
	other.Record = register(25, "c")
	if older.Follow(&other) {
		t.Error("an older version takes the place of a newer one")
	}
}

func TestWritesThatLoseChangeNothing(t *testing.T) {
	stored, late := register(30, "c"), register(20, "b")
	joined, changed := Add(nil, stored, late)
	if changed || !IsStored(&joined, &stored, &late) || !IsOverwritten(&joined, &late) {
		t.Errorf("a write at 20 after one at 30: %+v, changed %v", joined, changed)
	}
	// It may be from before a restart, and not durable.
	if joined, changed = Add(nil, stored, stored); changed || IsStored(&joined, &stored, &stored) {
		t.Error("the same write need not be stored")
	}
}

func TestOwnWritesAndWhatIsFound(t *testing.T) {
	own, found := register(20, "own"), register(10, "found")
	if rec, isOwn := Overlay(nil, &found, &own); !isOwn || rec.Version.HLC != 20 {
		t.Errorf("own at 20 over 10: %+v, own %v", rec, isOwn)
	}
	found = register(30, "found")
	if rec, isOwn := Overlay(nil, &found, &own); isOwn || rec.Version.HLC != 30 {
		t.Errorf("own at 20 under 30: %+v, own %v", rec, isOwn)
	}
	if Hides(&own, 20) || !Hides(&own, 19) {
		t.Error("an own write hides what the session has seen, or does not hide what it has not")
	}
}

func TestArbitratingRegistersAllocatesNothing(t *testing.T) {
	a, b := register(10, "a"), register(20, "b")
	c := Copy{Record: a}
	n := testing.AllocsPerRun(100, func() {
		joined, _ := Add(nil, a, b)
		_ = IsStored(&joined, &a, &b)
		_, _ = Overlay(nil, &a, &b)
		_ = Unstable(nil, &a, func(causal.Version) bool { return false })
		_ = c.Withdraw(30)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
