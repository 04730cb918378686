// Package topology describes a deployment: data centres, the rings they form, and which shard of which ring owns a key.
//
// A Topology is immutable once built. A change is a new Topology with a higher epoch; parts refuse a lower one.
package topology

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Slots is the number of hash slots of the key space (PROTOCOL §2).
const Slots = 4096

// MaxRings bounds the rings of one deployment, because a RingSet is one machine word.
const MaxRings = 64

// MaxDCs bounds the data centres of one deployment, because the set of those that hold a copy is one machine word.
const MaxDCs = 64

// MaxCoordinators bounds the coordinators of one data centre.
const MaxCoordinators = 16

// DC is a data centre: its index in Topology.DCs.
type DC uint16

// RingID is a ring: its index in Topology.Rings.
type RingID uint8

// NoRing stands for "no particular ring".
const NoRing RingID = 255

// Slot is a hash slot, 0 to Slots-1.
type Slot uint16

// Origin numbers the coordinator that wrote a version; 0 is no origin. Origins are dense, so vectors are slices.
type Origin uint32

// Part is what a node does.
type Part uint8

// The parts of the data plane.
const (
	PartNone Part = iota
	Sidecar
	Coordinator
	Middleman
	Cache
)

var partNames = [...]string{"none", "sidecar", "coordinator", "middleman", "cache"}

func (p Part) String() string {
	if int(p) < len(partNames) {
		return partNames[p]
	}
	return fmt.Sprintf("part(%d)", uint8(p))
}

// Node names one process of the data plane. For a middleman, Index is its shard within the DC; for a sidecar it is
// a number that no other sidecar of the DC has ever had.
type Node struct {
	Index uint64
	DC    DC
	Part  Part
}

func (n Node) String() string { return fmt.Sprintf("%s-%d@dc%d", n.Part, n.Index, n.DC) }

// RingSet is a set of rings.
type RingSet uint64

// RingsOf returns the set of the given rings.
func RingsOf(rings ...RingID) RingSet {
	var s RingSet
	for _, r := range rings {
		s |= 1 << r
	}
	return s
}

// Has reports whether r is in the set.
func (s RingSet) Has(r RingID) bool { return r < MaxRings && s&(1<<r) != 0 }

// With returns the set with r added.
func (s RingSet) With(r RingID) RingSet { return s | 1<<r }

// Without returns the set with r taken out.
func (s RingSet) Without(r RingID) RingSet { return s &^ (1 << r) }

// Len returns the number of rings in the set.
func (s RingSet) Len() int { return bits.OnesCount64(uint64(s)) }

// DataCenter is one data centre.
type DataCenter struct {
	Name         string
	Ring         RingID
	Coordinators int
	// CoordinatorsBefore is the greater number of coordinators before the change that is under way; 0 is none.
	CoordinatorsBefore int
	Caches             int
	Shards             int
	// ShardsBefore is the number of shards before the change that is under way; 0 is none.
	ShardsBefore int
}

// Middlemen returns how many middlemen run in the DC: while its shards change, those that leave and those that come.
func (d *DataCenter) Middlemen() int { return max(d.Shards, d.ShardsBefore) }

func (d *DataCenter) shards(before bool) int {
	if before && d.ShardsBefore > 0 {
		return d.ShardsBefore
	}
	return d.Shards
}

// Ring is a set of data centres that hold one full copy of the data together.
type Ring struct {
	Name string
	DCs  []DC
}

// Topology is a whole deployment.
type Topology struct {
	Epoch uint64
	DCs   []DataCenter
	Rings []Ring
	// RTT[a][b] is the round-trip time between two DCs, in milliseconds, as declared. It is only the first guess of the probes.
	RTT [][]float64

	owners      [][]Node // ring -> slot -> middleman
	members     [][]Node // ring -> the middlemen that own slots in it
	maps        []MapID  // ring -> which of all possible owners these are
	before      RingSet  // rings with the owners of before the change
	firstOrigin []Origin // DC -> origin of its coordinator 0
	origins     int
}

// New checks dcs and rings and computes the slot map. RTT may be nil (all zero).
func New(epoch uint64, dcs []DataCenter, rings []Ring, rtt [][]float64) (*Topology, error) {
	t := &Topology{Epoch: epoch, DCs: dcs, Rings: rings, RTT: rtt}
	if err := t.check(); err != nil {
		return nil, err
	}
	if t.RTT == nil {
		t.RTT = make([][]float64, len(dcs))
		for i := range t.RTT {
			t.RTT[i] = make([]float64, len(dcs))
		}
	}
	next := Origin(1)
	for _, dc := range dcs {
		t.firstOrigin = append(t.firstOrigin, next)
		next += Origin(dc.Coordinators)
	}
	t.origins = int(next) - 1
	for r := range rings {
		t.place(RingID(r), false)
	}
	return t, nil
}

func (t *Topology) check() error {
	if len(t.Rings) == 0 || len(t.Rings) > MaxRings {
		return fmt.Errorf("rings: %d given; between 1 and %d are possible", len(t.Rings), MaxRings)
	}
	if len(t.DCs) > MaxDCs {
		return fmt.Errorf("dataCenters: %d given; at most %d are possible", len(t.DCs), MaxDCs)
	}
	names := make(map[string]bool, len(t.DCs))
	for i, dc := range t.DCs {
		switch {
		case dc.Name == "":
			return fmt.Errorf("data centre %d has no name", i)
		case names[dc.Name]:
			return fmt.Errorf("data centre %q is declared twice", dc.Name)
		case max(dc.Coordinators, dc.CoordinatorsBefore) > MaxCoordinators:
			return fmt.Errorf("data centre %q: it has more than %d coordinators; give fewer", dc.Name, MaxCoordinators)
		case dc.Shards < 1 || dc.Coordinators < 1 || dc.Caches < 0 || dc.ShardsBefore < 0:
			return fmt.Errorf("data centre %q: shards and coordinators must be at least 1, caches and shardsBefore at least 0", dc.Name)
		}
		names[dc.Name] = true
	}
	ringOf := make(map[DC]int, len(t.DCs))
	for r, ring := range t.Rings {
		if len(ring.DCs) == 0 {
			return fmt.Errorf("ring %q has no data centre; list at least one", ring.Name)
		}
		for _, dc := range ring.DCs {
			if int(dc) >= len(t.DCs) {
				return fmt.Errorf("ring %q names a data centre that is not declared", ring.Name)
			}
			if other, dup := ringOf[dc]; dup {
				return fmt.Errorf("data centre %q is in rings %q and %q; a data centre belongs to exactly one", t.DCs[dc].Name, t.Rings[other].Name, ring.Name)
			}
			ringOf[dc] = r
			t.DCs[dc].Ring = RingID(r)
		}
	}
	for i, dc := range t.DCs {
		if _, ok := ringOf[DC(i)]; !ok {
			return fmt.Errorf("data centre %q is in no ring; add it to one", dc.Name)
		}
	}
	return nil
}

// place gives every slot to the shard of the ring with the greatest rendezvous score.
func (t *Topology) place(r RingID, before bool) {
	var seeds []uint64
	var members []Node
	id := xxhash.New()
	for _, dc := range t.Rings[r].DCs {
		n := t.DCs[dc].shards(before)
		fmt.Fprintf(id, "%s/%d ", t.DCs[dc].Name, n)
		for i := range n {
			members = append(members, Node{DC: dc, Part: Middleman, Index: uint64(i)})
			seeds = append(seeds, xxhash.Sum64String(fmt.Sprintf("%s/%d", t.DCs[dc].Name, i)))
		}
	}
	owners := make([]Node, Slots)
	for slot := range owners {
		var best uint64
		for i, seed := range seeds {
			if score := mix(seed ^ mix(uint64(slot)+1)); i == 0 || score > best {
				best, owners[slot] = score, members[i]
			}
		}
	}
	if len(t.owners) == len(t.Rings) {
		t.owners[r], t.members[r], t.maps[r] = owners, members, mapID(id.Sum64())
		return
	}
	t.owners, t.members, t.maps = append(t.owners, owners), append(t.members, members), append(t.maps, mapID(id.Sum64()))
}

// mix is the finalizer of SplitMix64: it spreads neighbouring inputs over all 64 bits.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Owner returns the middleman that owns slot in ring r.
func (t *Topology) Owner(r RingID, slot Slot) Node { return t.owners[r][slot] }

// RingOf returns the ring of a DC.
func (t *Topology) RingOf(dc DC) RingID { return t.DCs[dc].Ring }

// AllRings returns the set of every ring.
func (t *Topology) AllRings() RingSet {
	if len(t.Rings) == MaxRings {
		return ^RingSet(0)
	}
	return 1<<len(t.Rings) - 1
}

// Origins returns the number of origins: 1 to Origins() are in use.
func (t *Topology) Origins() int { return t.origins }

// OriginOf returns the origin number of a coordinator.
func (t *Topology) OriginOf(n Node) Origin { return t.firstOrigin[n.DC] + Origin(n.Index) }

// CoordinatorOf is the inverse of OriginOf.
func (t *Topology) CoordinatorOf(o Origin) Node {
	for dc := len(t.DCs) - 1; dc >= 0; dc-- {
		if o >= t.firstOrigin[dc] {
			return Node{DC: DC(dc), Part: Coordinator, Index: uint64(o - t.firstOrigin[dc])}
		}
	}
	return Node{}
}

// Leader returns the node that exchanges the stability vectors of a DC with the other DCs.
func (t *Topology) Leader(dc DC) Node { return Node{DC: dc, Part: Coordinator} }

// CacheFor returns the cache of a DC that holds a key with the given Hash, and false if the DC has none.
func (t *Topology) CacheFor(dc DC, keyHash uint64) (Node, bool) {
	n := t.DCs[dc].Caches
	if n == 0 {
		return Node{}, false
	}
	return Node{DC: dc, Part: Cache, Index: keyHash >> 32 % uint64(n)}, true
}

// ByName returns the DC with that name.
func (t *Topology) ByName(name string) (DC, bool) {
	for i, dc := range t.DCs {
		if dc.Name == name {
			return DC(i), true
		}
	}
	return 0, false
}

// Nodes calls f for every coordinator, middleman and cache.
func (t *Topology) Nodes(f func(Node)) {
	for i, dc := range t.DCs {
		for _, p := range []struct {
			part Part
			n    int
		}{{Coordinator, dc.Coordinators}, {Middleman, dc.Middlemen()}, {Cache, dc.Caches}} {
			for j := range p.n {
				f(Node{DC: DC(i), Part: p.part, Index: uint64(j)})
			}
		}
	}
}

// Hash hashes a key, to tell copies of it apart.
func Hash(key string) uint64 { return xxhash.Sum64String(key) }

// Hashed returns the part of a key that its slot depends on: a non-empty {tag} in it alone, as in Redis Cluster, so that keys can
// be placed together; else all of it.
func Hashed(key string) string {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if n := strings.IndexByte(key[open+1:], '}'); n > 0 {
			return key[open+1 : open+1+n]
		}
	}
	return key
}

// SlotOf returns the slot of a key.
func SlotOf(key string) Slot { return Slot(xxhash.Sum64String(Hashed(key)) % Slots) }
