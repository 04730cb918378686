package sim

import (
	"fmt"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/topology"
)

// haveJoined reports whether every process of a shard is a member of its group.
func (w *World) haveJoined() bool {
	for _, n := range w.order {
		if n.id.Part == topology.Middleman && n.id.Member != 0 && !n.removed && !w.hasJoined(n) {
			return false
		}
	}
	return true
}

func (w *World) hasJoined(n *node) bool {
	s := w.serving(n.id.Group())
	return s != nil && slices.ContainsFunc(s.group().Status().Config.Members, func(id group.ID) bool {
		return id.Volume == n.disk.volume
	})
}

// compareMembers returns the differences between the storages of the members of a shard; there must be none when
// nothing is written any more. All have joined by then. It also compares how many keys a storage counts with how many
// it has, which differ if a change was made twice.
func (w *World) compareMembers() (found []string) {
	for _, n := range w.order {
		if n.id.Part != topology.Middleman || n.id.Member == 0 || n.removed {
			continue
		}
		s := w.serving(n.id.Group())
		if !n.isUp() {
			continue // in a scenario; at the end of a run all are up
		}
		if s == nil {
			found = append(found, fmt.Sprintf("members: nobody serves %s", n.id.Group()))
			continue
		}
		if n.disk.count != len(n.disk.records) {
			found = append(found, fmt.Sprintf("members: the storage of %s counts %d keys, and has %d", n.id,
				n.disk.count, len(n.disk.records)))
		}
		if !w.hasJoined(n) {
			found = append(found, fmt.Sprintf("members: %s has not joined: %+v; %s serves: %+v", n.id,
				n.group().Status(), s.id, s.group().Status()))
			continue
		}
		for key, rec := range s.disk.records {
			if !sameRecord(n.disk.records[key], rec) {
				found = append(found, fmt.Sprintf("members: %s holds %s=%v, %s, which serves, %v", n.id, key,
					n.disk.records[key], s.id, rec))
			}
		}
		for key := range n.disk.records {
			if _, ok := s.disk.records[key]; !ok {
				found = append(found, fmt.Sprintf("members: %s holds %s, %s, which serves, does not", n.id, key, s.id))
			}
		}
		if !slices.EqualFunc(n.disk.meta(), s.disk.meta(), sameMeta) {
			found = append(found, fmt.Sprintf("members: %s has the metadata %v, %s, which serves, %v", n.id,
				n.disk.meta(), s.id, s.disk.meta()))
		}
	}
	slices.Sort(found)
	return found
}
