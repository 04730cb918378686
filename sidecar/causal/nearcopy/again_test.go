package nearcopy

import "testing"

// A losing write has ended x10 for cuts from 20 on. Another answer with x10, which its cache sent from a copy that
// does not know, brings no news.
func TestAVersionThatComesAgainStaysBelowWhatEndsIt(t *testing.T) {
	r := newLeased(t)
	r.invalidate("x", 20)
	r.give("x", 10, 0)
	if _, ok := r.find("x", 25); ok {
		t.Error("x10 is served at 25, although another write comes after it at 20")
	}
	if rec, ok := r.find("x", 15); !ok || rec.Version.HLC != 10 {
		t.Errorf("at 15: %v, %t", rec, ok)
	}
}
