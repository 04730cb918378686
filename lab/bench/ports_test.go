package bench

import "testing"

func TestNoPortIsGivenTwice(t *testing.T) {
	addrs, err := freePorts(500) // of them, two would be the same nearly always if each were chosen by itself
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, addr := range addrs {
		if seen[addr] {
			t.Fatalf("%s is given twice", addr)
		}
		seen[addr] = true
	}
}
