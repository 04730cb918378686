package causal

import (
	"reflect"
	"testing"
)

func TestAStorageHasWhatItsLineageHas(t *testing.T) {
	l := Lineage{}.With(10, Position{Changes: 5}).With(20, Position{Changes: 50}).With(30, Position{Changes: 70})
	for _, c := range []struct {
		what  string
		heard Reach
		holds bool
	}{
		{"nothing was heard", Reach{}, true},
		{"of a start before the lineage", Reach{9, 1000}, true},
		{"of a start that ended there", Reach{10, 50}, true},
		{"of more in a start than came before the next one", Reach{10, 51}, false},
		{"of the last start but one", Reach{20, 70}, true},
		{"of more in the last start but one", Reach{20, 71}, false},
		{"of the present start", Reach{30, 1000}, true},
		{"of a start between those that the storage knows", Reach{25, 60}, false},
		{"of a later start", Reach{31, 1}, false},
	} {
		if l.Holds(c.heard) != c.holds {
			t.Errorf("%s: %v", c.what, !c.holds)
		}
	}
	// Another log counts from here on: how far the start before had come is not known.
	l = l.With(40, Position{Storage: 7, Changes: 1})
	if !l.Holds(Reach{30, 1000}) || l.Holds(Reach{20, 71}) || l.Holds(Reach{35, 0}) {
		t.Errorf("after the storage has become that of a group: %+v", l)
	}
	if !(Lineage{}).Holds(Reach{1, 1}) || (Lineage{}.With(1, Position{})).HasPast() || !l.HasPast() {
		t.Error("a lineage that has just begun has a past")
	}
}

func TestALineageIsReadAsItWasWrittenAndBounded(t *testing.T) {
	l := Lineage{}
	for i := range uint64(maxStarts + 10) {
		l = l.With(i+1, Position{Storage: i / 100, Changes: 2 * i})
	}
	if len(l.Starts) != maxStarts || l.Starts[0].Incarnation != 11 {
		t.Fatalf("%d starts, from %+v", len(l.Starts), l.Starts[0])
	}
	for _, want := range []Lineage{{}, {Storage: 3}, l} {
		if got, err := ParseLineage(want.Encode()); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v is read as %+v, %v", want, got, err)
		}
	}
	for _, b := range [][]byte{{}, {1, 5}, {1, 5, 0, 4, 0}, append(l.Encode(), 0)} {
		if got, err := ParseLineage(b); err == nil {
			t.Errorf("%v is read as %+v", b, got)
		}
	}
}
