package process

import (
	"testing"

	"github.com/causalstore/causalstore/topology"
)

// Processes refuse data and peers with another layout of the same epoch. Where maps show a data center is not part of
// it.
func TestTheLayoutIsTheSameWithoutPlaces(t *testing.T) {
	without := topology.Default()
	for i := range without.DCs {
		without.DCs[i].Place = nil
	}
	if layoutDigest(without) != layoutDigest(topology.Default()) {
		t.Error("the layout depends on the places of data centers on the map")
	}
}
