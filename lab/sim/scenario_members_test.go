package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal/process"
	"github.com/causalstore/causalstore/topology"
)

// Members of shards and coordinators:
//
//	await-served             waits until every node is served
//	await-members            waits until all members are up, and have joined the groups of their shards
//	show members             which member serves each shard, and of how many
//	show coordinator-members the same of coordinators
//	show copies              what differs between the storages of the members that are up
//	lose-log NODE            gives a node that is down an empty log
//	lose-storage NODE        gives a node that is down an empty storage
//	full-storage NODE D      its storage has no room for that long
//	gone-storage NODE D      its storage refuses everything for that long
//	full-log NODE D          its log takes nothing for that long
//	flip-bit NODE            gives a node that is down a volume with a damaged log
//	find-loss NODE           its storage loses all keys, and says so while it is used
//	cut-register NODE D      the register cannot be reached by the node for that long
func init() {
	verbs["await-served"] = (*scenario).awaitServed
	verbs["await-members"] = func(s *scenario, _ []string) (string, error) {
		if !s.world.Run(commandTimeout, s.world.haveJoined) {
			return "", fmt.Errorf("not all members have joined: %s", s.memberStates(topology.Middleman))
		}
		return "", s.advanceBy(time.Second)
	}
	verbs["lose-log"] = func(s *scenario, args []string) (string, error) {
		return s.each(args, func(n *node) { n.disk.loseLog() })
	}
	verbs["lose-storage"] = func(s *scenario, args []string) (string, error) {
		return s.each(args, func(n *node) { n.disk.loseStorage() })
	}
	until := func(set func(n *node, until int64)) func(*scenario, []string) (string, error) {
		return func(s *scenario, args []string) (string, error) {
			d, err := time.ParseDuration(args[1])
			if err != nil {
				return "", err
			}
			return s.each(args[:1], func(n *node) { set(n, s.world.now+int64(d)) })
		}
	}
	verbs["flip-bit"] = func(s *scenario, args []string) (string, error) {
		return s.each(args, func(n *node) { n.disk.isDamaged = true })
	}
	verbs["full-log"] = until(func(n *node, at int64) {
		n.disk.logFullUntil, n.disk.logProblem = at, process.LogIsFull
	})
	verbs["full-storage"] = until(func(n *node, at int64) { n.disk.fullUntil = at })
	verbs["gone-storage"] = until(func(n *node, at int64) { n.disk.brokenUntil, n.disk.problem = at, process.IsGone })
	verbs["cut-register"] = until(func(n *node, at int64) { n.registerCutTill = at })
	verbs["find-loss"] = func(s *scenario, args []string) (string, error) {
		return s.each(args, func(n *node) {
			n.disk.lost = true
			clear(n.disk.records)
		})
	}
}

// awaitServed waits until each shard with members is served by a middleman.
func (s *scenario) awaitServed([]string) (string, error) {
	served := func() bool {
		if !s.world.hasServers() {
			return false
		}
		for _, n := range s.world.order {
			if n.id.Part == topology.Middleman && n.id.Member != 0 {
				if sh := s.world.serving(n.id.Group()).shard(); sh == nil || sh.Serving() == nil {
					return false
				}
			}
		}
		return true
	}
	if !served() && !s.world.Run(commandTimeout, served) {
		return "", fmt.Errorf("not every shard is served: %s", s.memberStates(topology.Middleman))
	}
	return "", nil
}

func (s *scenario) memberStates(part topology.Part) string {
	var all []string
	for _, n := range s.world.order {
		if n.id.Part != part || n.id.Member != 1 {
			continue
		}
		name := fmt.Sprintf("%s/%d", s.dcs[n.id.DC].Name, n.id.Index)
		if p := s.world.serving(n.id.Group()); p == nil {
			all = append(all, name+" is not served")
		} else {
			all = append(all, fmt.Sprintf("%s served by %d of %d", name, p.id.Member,
				len(p.group().Status().Config.Members)))
		}
	}
	return strings.Join(all, ", ")
}

func (s *scenario) differences() string {
	if found := s.world.compareMembers(); len(found) > 0 {
		return strings.Join(found, "\n")
	}
	return "all the same"
}
