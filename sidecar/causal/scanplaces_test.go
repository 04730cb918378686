package causal

import (
	"strings"
	"testing"
)

func TestScanPlacesForgetTheOldest(t *testing.T) {
	p := ScanPlaces{Start: 1<<64 - 5} // the numbers wrap around
	first := p.Add("first")
	var last uint64
	for range maxScanPlaces {
		last = p.Add("later")
		if last == 0 || last >= 1<<ScanPlaceBits {
			t.Fatalf("number %d", last)
		}
	}
	if _, ok := p.Find(first); ok {
		t.Error("the oldest place is still known")
	}
	if place, ok := p.Find(last); !ok || place != "later" || len(p.places) != maxScanPlaces {
		t.Errorf("%d places, the last is %q", len(p.places), place)
	}
	for range 9 {
		last = p.Add(strings.Repeat("k", maxScanPlaceBytes/8))
	}
	if _, ok := p.Find(last); !ok || len(p.places) != 8 || p.bytes != maxScanPlaceBytes {
		t.Errorf("%d places of %d bytes", len(p.places), p.bytes)
	}
	if other := (&ScanPlaces{Start: 77}).Add("x"); other == (&ScanPlaces{Start: 78}).Add("x") {
		t.Error("two lives give the same numbers")
	}
}
