package shard

import (
	"errors"
	"fmt"
	"slices"

	"github.com/causalstore/causalstore/topology"
)

// MigrationState is how far a middleman has come in a resharding, as its storage holds it. The zero MigrationState is
// that of a storage that was never used.
type MigrationState struct {
	// Map is the slot map whose slots the storage holds; 0: it holds nothing that may be served.
	Map topology.MapID
	// Stopped says that nothing is served under Map any more: slots were handed to others, or are about to be. Without
	// a Map, it says that slots are being taken in for the first time.
	Stopped bool
	// HoldsMovedSlots says that the storage also holds slots that were given away.
	HoldsMovedSlots bool
}

// CheckState says why a middleman cannot start under a topology on a storage with the given state, or nil.
func CheckState(t *topology.Topology, self topology.Node, s MigrationState) error {
	ring := t.RingOf(self.DC)
	before := t.WithOldMaps(topology.RingsOf(ring))
	wasMember := slices.Contains(before.RingMiddlemen(ring), self)
	fits := s.Map == t.Map(ring) || s.Map == before.Map(ring) || !wasMember
	switch {
	case s.Stopped && s.Map == 0:
		fits = !wasMember // it does not have what it would have to serve
	case s.Stopped:
		// it may have given away what it would have to serve
		fits = t.Resharding().Has(ring) && s.Map == before.Map(ring)
	case s.Map == 0:
		fits = true
	}
	if fits {
		return nil
	}
	if t.Resharding().Has(ring) {
		return errors.New(
			"the storage is in the middle of another resharding: configure the numbers of shards of that resharding, " +
				"with shardsBefore, wait until it has ended, and then start the next one")
	}
	return fmt.Errorf("the storage holds the slots of other numbers of shards than the topology of ring %q has; "+
		"a resharding has not ended here: put shardsBefore back until it has", t.Rings[ring].Name)
}

// phase is what a mover does.
type phase uint8

const (
	phaseCopying  phase = iota // the old map is served, if this middleman is in it, and copies are taken in
	phaseStopping              // the middleman is to stop serving
	phaseStopped               // nothing is served, and the rest is taken in
	phaseSwitched              // the new map is served, if this middleman is in it
)
