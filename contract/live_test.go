package contract

import (
	"testing"

	"github.com/causalstore/causalstore/topology"
)

func TestAChangeAppliesLiveWithPlacesToo(t *testing.T) {
	next := topology.Default()
	next.Epoch++
	next.DCs[0].Caches++
	next.DCs[1].Place = nil
	if !AppliesLive(topology.Default(), next) {
		t.Error("more caches need a restart where data centers have places")
	}
	next.DCs[0].Name = "another"
	if AppliesLive(topology.Default(), next) {
		t.Error("another data center needs no restart")
	}
}

func TestWhatAPersonDecidesAboutDataCentersAppliesLive(t *testing.T) {
	next := topology.Default()
	next.DCs[0].Exclusions = 1
	next.DCs[0].KeepsData = 1
	if !AppliesLive(topology.Default(), next) {
		t.Error("an exclusion, and that data count anyway, need a restart")
	}
}
