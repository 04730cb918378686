// Package outage says what clients of a store notice while some of its processes are away, from the layout of the store
// alone. It is pure. What a person is told to be safe comes from here, and tests of real processes do what it says is
// safe.
//
// It assumes that everything else serves, that every group with several members is whole, and that volumes stay. Data
// centers elsewhere count as serving.
package outage

import (
	"fmt"
	"slices"
	"strings"
)

// Store is the layout of a store.
type Store struct {
	DataCenters []DataCenter
	// Rings are the names of the data centers of each ring.
	Rings [][]string
	// Static is set if sessions read in the ring of their own data center only.
	Static bool
	// Fronts is set if clients without a sidecar are served.
	Fronts bool
}

// DataCenter has the numbers of the parts of a data center, and of the members of each.
type DataCenter struct {
	Name                             string
	Coordinators, CoordinatorMembers int
	Shards, ShardMembers             int
	Caches                           int
	// Etcd is how many members its own etcd has; 0 if it has none.
	Etcd int
}

// Kind is the kind of a process.
type Kind string

// The kinds of processes.
const (
	Coordinator Kind = "coordinator"
	Shard       Kind = "shard"
	Cache       Kind = "cache"
	Etcd        Kind = "etcd"
)

// Process is one process that is away: the member of a part.
type Process struct {
	DataCenter string
	Kind       Kind
	Index      int
	// Member is from 1.
	Member int
}

// Effects are what clients notice. Parts are named as "shard 0 of here".
type Effects struct {
	// Unreadable are shards with keys that nobody can read.
	Unreadable []string
	// Unwritable is set if nobody accepts writes.
	Unwritable bool
	// NoFront are data centers whose Service has nobody behind it.
	NoFront []string
	// ReadElsewhere are shards whose keys are read in other rings. Writes of these keys are accepted, and complete when
	// they are back.
	ReadElsewhere []string
	// WrittenElsewhere are coordinators whose clients write through others. Puts in flight to them have an unknown
	// outcome.
	WrittenElsewhere []string
	// TakenOver are coordinators and shards of which another member serves within two seconds.
	TakenOver []string
	// Uncached are data centers some of whose reads go to shards instead of a cache.
	Uncached []string
	// WithoutQuorum are data centers whose etcd can change nothing: a coordinator or shard that fails meanwhile is not
	// replaced by another member.
	WithoutQuorum []string
}

// Of returns what clients notice while processes are away.
func Of(s Store, away []Process) Effects {
	var e Effects
	goneShards := map[string][]string{} // by data center
	writers := false
	for _, dc := range s.DataCenters {
		lost := func(kind Kind, index int) (n int) {
			for _, p := range away {
				if p.DataCenter == dc.Name && p.Kind == kind && (index < 0 || p.Index == index) {
					n++
				}
			}
			return n
		}
		stuck := dc.Etcd > 0 && (dc.Etcd-lost(Etcd, -1))*2 <= dc.Etcd
		if stuck {
			e.WithoutQuorum = append(e.WithoutQuorum, dc.Name)
		}
		// Without the register a group that has lost any member waits for it, with its writes.
		gone := func(kind Kind, index, members int) bool {
			n := lost(kind, index)
			if n > 0 && n < members && !stuck {
				e.TakenOver = append(e.TakenOver, name(kind, index, dc.Name))
			}
			return n > 0 && (n >= members || stuck)
		}
		var coordinators []string
		for i := range dc.Coordinators {
			if gone(Coordinator, i, dc.CoordinatorMembers) {
				coordinators = append(coordinators, name(Coordinator, i, dc.Name))
			}
		}
		writers = writers || len(coordinators) < dc.Coordinators
		e.WrittenElsewhere = append(e.WrittenElsewhere, coordinators...)
		if s.Fronts && dc.Coordinators > 0 && lost(Coordinator, -1) >= dc.Coordinators*dc.CoordinatorMembers {
			e.NoFront = append(e.NoFront, dc.Name)
		}
		for i := range dc.Shards {
			if gone(Shard, i, dc.ShardMembers) {
				goneShards[dc.Name] = append(goneShards[dc.Name], name(Shard, i, dc.Name))
			}
		}
		if lost(Cache, -1) > 0 {
			e.Uncached = append(e.Uncached, dc.Name)
		}
	}
	if !writers && len(e.WrittenElsewhere) > 0 {
		e.Unwritable, e.WrittenElsewhere = true, nil
	}
	e.addShards(s, goneShards)
	return e
}

// addShards tells shards whose keys other rings answer for from others. A key is in another shard of each ring, so that
// it is certain to be read only while a ring has all of its shards.
func (e *Effects) addShards(s Store, gone map[string][]string) {
	whole := 0
	for _, ring := range s.Rings {
		if !slices.ContainsFunc(ring, func(dc string) bool { return len(gone[dc]) > 0 }) {
			whole++
		}
	}
	for _, dc := range s.DataCenters {
		if whole == 0 || s.Static {
			e.Unreadable = append(e.Unreadable, gone[dc.Name]...)
		} else {
			e.ReadElsewhere = append(e.ReadElsewhere, gone[dc.Name]...)
		}
	}
}

func name(kind Kind, index int, dc string) string { return fmt.Sprintf("%s %d of %s", kind, index, dc) }

// Add adds what clients notice in another situation. What is said then holds for the one that occurs.
func (e *Effects) Add(other Effects) {
	add := func(to *[]string, more []string) {
		for _, m := range more {
			if !slices.Contains(*to, m) {
				*to = append(*to, m)
			}
		}
	}
	e.Unwritable = e.Unwritable || other.Unwritable
	add(&e.Unreadable, other.Unreadable)
	add(&e.NoFront, other.NoFront)
	add(&e.ReadElsewhere, other.ReadElsewhere)
	add(&e.WrittenElsewhere, other.WrittenElsewhere)
	add(&e.TakenOver, other.TakenOver)
	add(&e.Uncached, other.Uncached)
	add(&e.WithoutQuorum, other.WithoutQuorum)
}

// Fails reports whether some operations of clients cannot succeed until the processes are back.
func (e *Effects) Fails() bool { return len(e.Unreadable) > 0 || e.Unwritable || len(e.NoFront) > 0 }

// String says it in words, the worst first.
func (e *Effects) String() string {
	var texts []string
	say := func(format string, of []string) {
		if len(of) > 0 {
			texts = append(texts, fmt.Sprintf(format, strings.Join(of, ", ")))
		}
	}
	say("READS OF KEYS of %s HAVE NO ANSWER, and writes of them do not complete, until it is back", e.Unreadable)
	if e.Unwritable {
		texts = append(texts, "NOBODY CAN WRITE until it is back")
	}
	say("clients of the Service of %s have no front until it is back, except through the Service of the store",
		e.NoFront)
	say("keys of %s are read in other rings, and their writes complete when it is back", e.ReadElsewhere)
	say("clients write through others than %s; puts in flight to it have an unknown outcome", e.WrittenElsewhere)
	say("another member of %s serves within two seconds", e.TakenOver)
	say("the etcd of %s has no quorum: a coordinator or shard that fails meanwhile is not replaced by another member",
		e.WithoutQuorum)
	say("reads in %s go to shards instead of a cache", e.Uncached)
	if len(texts) == 0 {
		return "clients notice nothing"
	}
	return strings.Join(texts, "; ")
}
