// Package topology describes a deployment: its data centers, the rings they form, and the shard that owns a key in each
// ring.
//
// A Topology is immutable. A change is a new Topology with a higher epoch; parts refuse lower epochs.
package topology

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Slots is the number of hash slots (docs/protocol/README.md, Names).
const Slots = 4096

// MaxRings bounds the rings of a deployment, so that a RingSet fits into 64 bits.
const MaxRings = 64

// MaxDCs bounds the data centers of a deployment, so that a set of them fits into 64 bits.
const MaxDCs = 64

// DC identifies a data center: its index in Topology.DCs.
type DC uint16

// RingID identifies a ring: its index in Topology.Rings.
type RingID uint8

// NoRing stands for "no particular ring".
const NoRing RingID = 255

// MaxCoordinators bounds the coordinators of a data center. Each possible coordinator has a fixed Origin.
const MaxCoordinators = 16

// Slot is a hash slot, 0 to Slots-1.
type Slot uint16

// Origin identifies the coordinator that wrote a version; 0 is no origin. Every coordinator that a data center may have
// has a fixed one, so stability vectors are slices, and scaling coordinators changes no other origin.
type Origin uint32

// Part is the role of a node.
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

// MaxMembers bounds the members of a group.
const MaxMembers = 3

// Node identifies one node of the data plane. For a middleman, Index is its shard within the DC. For a sidecar, it is a
// random number that is drawn at each start.
type Node struct {
	Index uint64
	DC    DC
	Part  Part
	// Member is 0 for the node itself, whichever process serves it, and counts from 1 for the members of its group
	// (PROTOCOL GRP). The machines of the protocol know the former only.
	Member uint8
}

// Group returns the node that n is a member of; n itself if it is no member.
func (n Node) Group() Node {
	n.Member = 0
	return n
}

// HasGroup reports whether a node is served by the members of a group, also if that is only one.
func (n Node) HasGroup() bool { return n.Part == Coordinator || n.Part == Middleman }

// WithMember returns a member of the group of n.
func (n Node) WithMember(m uint8) Node {
	n.Member = m
	return n
}

func (n Node) String() string {
	if n.Member != 0 {
		return fmt.Sprintf("%s-%d.%d@dc%d", n.Part, n.Index, n.Member, n.DC)
	}
	return fmt.Sprintf("%s-%d@dc%d", n.Part, n.Index, n.DC)
}

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

// Without returns the set with r removed.
func (s RingSet) Without(r RingID) RingSet { return s &^ (1 << r) }

// Len returns the number of rings in the set.
func (s RingSet) Len() int { return bits.OnesCount64(uint64(s)) }

// DataCenter is one data center.
type DataCenter struct {
	Name         string
	Ring         RingID
	Coordinators int
	// CoordinatorsBefore is the number of coordinators before the scale-down in progress; 0 if there is none.
	CoordinatorsBefore int
	// CoordinatorMembers is the number of members that hold the log of each coordinator; 0 is 1.
	CoordinatorMembers int
	// CoordinatorMembersBefore is the number of members before the reduction in progress; 0 if there is none. The
	// digest of a topology without one is that of versions that do not know it.
	CoordinatorMembersBefore int `json:",omitempty"`
	Caches                   int
	Shards                   int
	// ShardMembers is the number of members that hold the storage of each shard; 0 is 1.
	ShardMembers int
	// ShardMembersBefore is the number of members before the reduction in progress, as CoordinatorMembersBefore.
	ShardMembersBefore int `json:",omitempty"`
	// ShardsBefore is the number of shards before the resharding in progress; 0 if there is none.
	ShardsBefore int
	// Exclusions is how often the data center was excluded, because it was taken for lost (PROTOCOL EXC).
	// It never falls. The digest of a topology without one is that of versions that do not know it.
	Exclusions int `json:",omitempty"`
	// KeepsData is the number of the exclusion of which a person has said that the shards go on with the data that they
	// have: no other ring has them. 0: none. The digest of a topology without one is that of versions that do not know
	// it.
	KeepsData int `json:",omitempty"`
	// Returned is the number of the exclusion from which the data center is back, and ForceExclusion that of the
	// exclusion that CheckExclusions does not judge. 0: none. The digest of a topology without them is that of versions
	// that do not know them.
	Returned       int `json:",omitempty"`
	ForceExclusion int `json:",omitempty"`
	// Place is where maps show the data center; nil: unknown. It is no part of what processes must agree on.
	Place *Place `json:"-"`
}

// Place is a point on the globe, in degrees.
type Place struct {
	Latitude, Longitude float64
}

// RunningMiddlemen returns how many middlemen run in the DC: during resharding, those of the old and of the new shards.
func (d *DataCenter) RunningMiddlemen() int { return max(d.Shards, d.ShardsBefore) }

// Members returns how many members of the group of a part run, including those that leave it.
func (d *DataCenter) Members(p Part) int {
	switch p {
	case Coordinator:
		return max(d.CoordinatorMembers, d.CoordinatorMembersBefore, 1)
	case Middleman:
		return max(d.ShardMembers, d.ShardMembersBefore, 1)
	}
	return 1
}

// DesiredMembers returns how many members the group of a part should have.
func (d *DataCenter) DesiredMembers(p Part) int {
	switch p {
	case Coordinator:
		return max(d.CoordinatorMembers, 1)
	case Middleman:
		return max(d.ShardMembers, 1)
	}
	return 1
}

// RunningCoordinators returns how many coordinators run in the DC, including those that drain during a scale-down.
func (d *DataCenter) RunningCoordinators() int { return max(d.Coordinators, d.CoordinatorsBefore) }

func (d *DataCenter) shardCount(old bool) int {
	if old && d.ShardsBefore > 0 {
		return d.ShardsBefore
	}
	return d.Shards
}

// Ring is a set of data centers that together hold one full copy of the data.
type Ring struct {
	Name string
	DCs  []DC
}

// Topology is a deployment.
type Topology struct {
	Epoch uint64
	DCs   []DataCenter
	Rings []Ring
	// RTT[a][b] is the declared round-trip time between two DCs in milliseconds, an initial estimate until it is
	// measured.
	RTT [][]float64
	// TieBreaker is the data center of which the side may exclude others that has half of the rings; "": none
	// (CheckExclusions).
	TieBreaker string

	owners    [][]Node // ring -> slot -> middleman
	middlemen [][]Node // ring -> the middlemen that own its slots
	mapIDs    []MapID  // ring -> identifier of its owners
	homeSeeds [][MaxCoordinators]uint64
	oldMaps   RingSet // the resharding rings for which the owners are those of the old map
}

// New validates dcs and rings and computes the slot maps. If rtt is nil, all round-trip times are zero.
func New(epoch uint64, dcs []DataCenter, rings []Ring, rtt [][]float64) (*Topology, error) {
	t := &Topology{Epoch: epoch, DCs: dcs, Rings: rings, RTT: rtt}
	if err := t.validate(); err != nil {
		return nil, err
	}
	if t.RTT == nil {
		t.RTT = make([][]float64, len(dcs))
		for i := range t.RTT {
			t.RTT[i] = make([]float64, len(dcs))
		}
	}
	t.homeSeeds = homeSeedsOf(dcs)
	t.owners, t.middlemen, t.mapIDs = make([][]Node, len(rings)), make([][]Node, len(rings)), make([]MapID, len(rings))
	for r := range rings {
		t.assignSlots(RingID(r), false)
	}
	return t, nil
}

func (t *Topology) validate() error {
	if len(t.Rings) == 0 || len(t.Rings) > MaxRings {
		return fmt.Errorf("rings: %d given; declare between 1 and %d", len(t.Rings), MaxRings)
	}
	if len(t.DCs) > MaxDCs {
		return fmt.Errorf("dataCenters: %d given; declare at most %d", len(t.DCs), MaxDCs)
	}
	names := make(map[string]bool, len(t.DCs))
	for i, dc := range t.DCs {
		switch {
		case dc.Name == "":
			return fmt.Errorf("data center %d (counted from 0) has no name; set it", i)
		case names[dc.Name]:
			return fmt.Errorf("data center %q is declared twice", dc.Name)
		case dc.Shards < 1 || dc.Coordinators < 1 || dc.Caches < 0 || dc.ShardsBefore < 0 || dc.CoordinatorsBefore < 0:
			return fmt.Errorf(
				"data center %q: shards and coordinators must be at least 1, caches, shardsBefore and "+
					"coordinatorsBefore at least 0", dc.Name)
		case dc.CoordinatorMembers < 0 || dc.CoordinatorMembers > MaxMembers || dc.CoordinatorMembersBefore < 0 ||
			dc.CoordinatorMembersBefore > MaxMembers:
			return fmt.Errorf("data center %q: %d members for each coordinator, before that %d; declare 1 to %d",
				dc.Name, dc.CoordinatorMembers,
				dc.CoordinatorMembersBefore, MaxMembers)
		case dc.ShardMembers < 0 || dc.ShardMembers > MaxMembers || dc.ShardMembersBefore < 0 ||
			dc.ShardMembersBefore > MaxMembers:
			return fmt.Errorf("data center %q: %d members for each shard, before that %d; declare 1 to %d", dc.Name,
				dc.ShardMembers,
				dc.ShardMembersBefore, MaxMembers)
		case dc.RunningCoordinators() > MaxCoordinators:
			return fmt.Errorf("data center %q: %d coordinators; declare at most %d", dc.Name, dc.RunningCoordinators(),
				MaxCoordinators)
		}
		names[dc.Name] = true
	}
	ringOf := make(map[DC]int, len(t.DCs))
	for r, ring := range t.Rings {
		if len(ring.DCs) == 0 {
			return fmt.Errorf("ring %q has no data center; list at least one", ring.Name)
		}
		for _, dc := range ring.DCs {
			if int(dc) >= len(t.DCs) {
				return fmt.Errorf("ring %q names a data center that is not declared", ring.Name)
			}
			if other, dup := ringOf[dc]; dup {
				return fmt.Errorf("data center %q is in rings %q and %q; a data center belongs to exactly one",
					t.DCs[dc].Name, t.Rings[other].Name, ring.Name)
			}
			ringOf[dc] = r
			t.DCs[dc].Ring = RingID(r)
		}
	}
	for i, dc := range t.DCs {
		if _, ok := ringOf[DC(i)]; !ok {
			return fmt.Errorf("data center %q is in no ring; add it to one", dc.Name)
		}
	}
	return t.validateExclusions()
}

// validateKept refuses two rings that both go on with what they have: they would differ for good.
func (t *Topology) validateKept() error {
	kept := -1
	for i, dc := range t.DCs {
		switch {
		case dc.KeepsData == 0:
		case kept >= 0 && t.DCs[kept].Ring != dc.Ring:
			return fmt.Errorf(
				"data centers %q and %q of two rings have keepsData; set it in the data centers of one ring, from "+
					"which the others copy", t.DCs[kept].Name, dc.Name)
		default:
			kept = i
		}
	}
	return nil
}

// assignSlots assigns every slot of a ring to the shard with the highest rendezvous score (docs/protocol/README.md,
// Names), among the old or the new shards.
func (t *Topology) assignSlots(r RingID, old bool) {
	var seeds []uint64
	var middlemen []Node
	id := xxhash.New()
	for _, dc := range t.Rings[r].DCs {
		n := t.DCs[dc].shardCount(old)
		fmt.Fprintf(id, "%s/%d ", t.DCs[dc].Name, n)
		for i := range n {
			middlemen = append(middlemen, Node{DC: dc, Part: Middleman, Index: uint64(i)})
			seeds = append(seeds, xxhash.Sum64String(fmt.Sprintf("%s/%d", t.DCs[dc].Name, i)))
		}
	}
	owners := make([]Node, Slots)
	for slot := range owners {
		var best uint64
		for i, seed := range seeds {
			if score := mix(seed ^ mix(uint64(slot)+1)); i == 0 || score > best {
				best, owners[slot] = score, middlemen[i]
			}
		}
	}
	t.owners[r], t.middlemen[r], t.mapIDs[r] = owners, middlemen, MapID(foldToID(id.Sum64()))
}

// mix is the finalizer of SplitMix64: it maps adjacent inputs to unrelated outputs.
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

// Origins returns the number of possible origins. They are 1 to Origins().
func (t *Topology) Origins() int { return len(t.DCs) * MaxCoordinators }

// HasOrigin reports whether o is one of them.
func (t *Topology) HasOrigin(o Origin) bool { return o > 0 && int(o) <= t.Origins() }

// OriginOf returns the origin of a coordinator.
func (t *Topology) OriginOf(n Node) Origin { return Origin(n.DC)*MaxCoordinators + Origin(n.Index) + 1 }

// CoordinatorOf is the inverse of OriginOf.
func (t *Topology) CoordinatorOf(o Origin) Node {
	return Node{DC: DC((o - 1) / MaxCoordinators), Part: Coordinator, Index: uint64((o - 1) % MaxCoordinators)}
}

// Leader returns the coordinator that exchanges the stability vectors of a DC with the other DCs.
func (t *Topology) Leader(dc DC) Node { return Node{DC: dc, Part: Coordinator} }

// CacheFor returns the cache of a DC for the key with the given Hash, and false if the DC has no caches.
func (t *Topology) CacheFor(dc DC, keyHash uint64) (Node, bool) {
	n := t.DCs[dc].Caches
	if n == 0 {
		return Node{}, false
	}
	return Node{DC: dc, Part: Cache, Index: keyHash >> 32 % uint64(n)}, true
}

// ByName returns the DC with the given name, and false if there is none.
func (t *Topology) ByName(name string) (DC, bool) {
	for i, dc := range t.DCs {
		if dc.Name == name {
			return DC(i), true
		}
	}
	return 0, false
}

// Nodes calls f for every coordinator, middleman and cache that runs.
func (t *Topology) Nodes(f func(Node)) {
	for i, dc := range t.DCs {
		for _, p := range []struct {
			part Part
			n    int
		}{{Coordinator, dc.RunningCoordinators()}, {Middleman, dc.RunningMiddlemen()}, {Cache, dc.Caches}} {
			for j := range p.n {
				f(Node{DC: DC(i), Part: p.part, Index: uint64(j)})
			}
		}
	}
}

// Runs reports whether the topology has a process that speaks for a node, or for a member of its group. Sidecars come
// and go by themselves.
func (t *Topology) Runs(n Node) bool {
	if int(n.DC) >= len(t.DCs) {
		return false
	}
	dc, running := &t.DCs[n.DC], 0
	switch n.Part {
	case Sidecar:
		return true
	case Coordinator:
		running = dc.RunningCoordinators()
	case Middleman:
		running = dc.RunningMiddlemen()
	case Cache:
		running = dc.Caches
	}
	return n.Index < uint64(running) && int(n.Member) <= dc.Members(n.Part)
}

// MembersOf returns the members of the group of a node that run, the preferred primary first. Coordinators and
// middlemen have a group, even if it has one member; other nodes are returned as they are.
func (t *Topology) MembersOf(n Node) []Node {
	if !n.HasGroup() || int(n.DC) >= len(t.DCs) {
		return []Node{n}
	}
	members := make([]Node, t.DCs[n.DC].Members(n.Part))
	for i := range members {
		members[i] = n.WithMember(uint8(i + 1))
	}
	return members
}

// DesiredMembersOf returns those of MembersOf that the group should have: without those that leave it.
func (t *Topology) DesiredMembersOf(n Node) []Node {
	all := t.MembersOf(n)
	if int(n.DC) >= len(t.DCs) {
		return all
	}
	return all[:t.DCs[n.DC].DesiredMembers(n.Part)]
}

// Hash returns the hash of a key that selects its cache.
func Hash(key string) uint64 { return xxhash.Sum64String(key) }

// HashBytes is Hash of a key in bytes.
func HashBytes(key []byte) uint64 { return xxhash.Sum64(key) }

// HashedPart returns the part of a key that determines its slot: as in Redis Cluster, the {tag} if the key has one that
// is not empty, so that keys can share a slot, and otherwise the whole key.
func HashedPart(key string) string {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if n := strings.IndexByte(key[open+1:], '}'); n > 0 {
			return key[open+1 : open+1+n]
		}
	}
	return key
}

// SlotOf returns the slot of a key.
func SlotOf(key string) Slot { return Slot(xxhash.Sum64String(HashedPart(key)) % Slots) }
