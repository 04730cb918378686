package middleman

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Which keys a backfill is for, which keys of a storage that has lost some are given to others, and what becomes of
// those that nobody has, if a person has accepted that (PROTOCOL LOSS-12).

// gives reports whether another middleman may have records of the wanted keys from this storage, which has lost data.
func (s *shared) gives(to topology.Node, wanted causal.KeyRanges) bool {
	if s.cfg.Missing == nil || len(wanted) == 0 || to.Part != topology.Middleman {
		return false
	}
	return s.cfg.Broken.Has(causal.VouchesForLost) || len(s.cfg.Missing.Overlap(wanted)) == 0
}

// wants reports whether a key may have been lost.
func (b *backfill) wants(key string) bool { return b.cfg.Missing == nil || b.cfg.Missing.Has(key) }

// wantedOf returns the keys that are wanted of a donor, if it is known what was lost.
func (b *backfill) wantedOf(n topology.Node) causal.KeyRanges {
	if b.cfg.Missing == nil {
		return nil
	}
	return b.cfg.Missing.Without(b.accepted.lacks[n])
}

// acceptAfter is how long a donor may be silent until it counts as one that has nothing, if a person has accepted the
// loss.
const acceptAfter = time.Minute

// acceptedLoss is what becomes of keys that nobody has.
type acceptedLoss struct {
	told    map[topology.Node]causal.KeyRanges // what donors have said that they have lost, if they have all other keys
	lacks   map[topology.Node]causal.KeyRanges // what is not wanted of donors any more, since nobody has it
	silent  map[topology.Node]int64            // since when they are silent
	givenUp [topology.Slots]bool               // slots of which nobody has anything
}

func newAcceptedLoss() acceptedLoss {
	return acceptedLoss{told: map[topology.Node]causal.KeyRanges{}, lacks: map[topology.Node]causal.KeyRanges{},
		silent: map[topology.Node]int64{}}
}

// noteLacks takes which keys a donor has lost.
func (b *backfill) noteLacks(from topology.Node, r causal.ScanReply) {
	if r.Err == causal.ErrDataLost && len(r.Lacks) > 0 {
		b.accepted.told[from] = r.Lacks
	} else {
		delete(b.accepted.told, from)
	}
}

// noteSilence notes that the donors that were asked do not answer.
func (b *backfill) noteSilence(now causal.Now) {
	asked := map[topology.Node]bool{}
	if b.donor != nil {
		asked[b.donor.node] = true
	}
	for _, l := range b.lookups {
		if l.asked {
			asked[l.node] = true
		}
	}
	for n := range asked {
		since, isSilent := b.accepted.silent[n]
		if !isSilent {
			b.accepted.silent[n] = b.heardAt
		} else if now.Mono-since >= int64(acceptAfter) {
			b.withoutData[n] = true
		}
	}
}

// giveUp ends the search for what nobody has. A slot of which a donor has some keys is copied from that one, without
// the others.
func (b *backfill) giveUp() {
	t := b.configured
	if t == nil {
		return
	}
	for s := range topology.Slot(topology.Slots) {
		if !b.isWithNobody(t, s) {
			continue
		}
		partial := false
		for r := 0; r < len(t.Rings) && !partial; r++ {
			n := t.Owner(topology.RingID(r), s)
			if lacks := b.accepted.told[n]; topology.RingID(r) != b.ring && lacks != nil &&
				len(b.cfg.Missing.Without(lacks)) > 0 {
				partial = true
				b.accepted.lacks[n] = lacks
				delete(b.withoutData, n)
			}
		}
		if !partial {
			b.copied[s], b.accepted.givenUp[s] = true, true
		}
	}
}

// isGivenUp reports whether the key of a lookup is not wanted of its donor any more: what is here stays.
func (b *backfill) isGivenUp(l *lookup) bool {
	return b.accepted.givenUp[topology.SlotOf(l.key)] || b.accepted.lacks[l.node].Has(l.key)
}
