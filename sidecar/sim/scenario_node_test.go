package sim

import (
	"fmt"
	"strconv"
	"time"
)

// Nodes:
//
//	crash NODE...                 stops nodes; what a disk had not acknowledged is gone
//	restart NODE...
//	clock NODE MS                 moves a wall clock
//	fail-write NODE               the next write of its storage is done, but not durable, and reported as failed
//	slow-disk NODE DURATION       from now on the disk takes that much longer
//	empty NODE                    gives a node that is down a new disk
func init() {
	verbs["crash"] = func(s *scenario, args []string) (string, error) {
		return s.each(args, func(n *node) { s.world.crash(n) })
	}
	verbs["restart"] = func(s *scenario, args []string) (string, error) {
		return s.each(args, func(n *node) { s.world.restart(n) })
	}
	verbs["fail-write"] = func(s *scenario, args []string) (string, error) {
		return s.each(args, func(n *node) { n.disk.failing++ })
	}
	verbs["empty"] = func(s *scenario, args []string) (string, error) {
		return s.each(args, func(n *node) { n.disk = newDisk() })
	}
	verbs["clock"] = (*scenario).clock
	verbs["slow-disk"] = (*scenario).slowDisk
}

// each does something to every node that is meant.
func (s *scenario) each(patterns []string, f func(*node)) (string, error) {
	for _, pattern := range patterns {
		meant, err := s.nodes(pattern)
		if err != nil {
			return "", err
		}
		found := false
		for _, n := range s.world.order {
			if meant(n.id) {
				f(n)
				found = true
			}
		}
		if !found {
			return "", fmt.Errorf("no node is %s", pattern)
		}
	}
	return "", nil
}

func (s *scenario) clock(args []string) (string, error) {
	ms, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return "", err
	}
	return s.each(args[:1], func(n *node) { n.skewMs += ms })
}

func (s *scenario) slowDisk(args []string) (string, error) {
	d, err := time.ParseDuration(args[1])
	if err != nil {
		return "", err
	}
	return s.each(args[:1], func(n *node) { n.disk.slow, n.disk.slowTil = int64(d), s.world.now+int64(time.Hour) })
}
