package sim

import (
	"fmt"
	"strconv"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// Nodes:
//
//	crash NODE...                 stops nodes; their disks lose what they had not acknowledged
//	restart NODE...
//	upgrade NODE...               restarts nodes with the later version, after "set older"
//	downgrade NODE...             the same with the earlier version
//	clock NODE MS                 moves a wall clock forward
//	forge NODE KEY VALUE DURATION a middleman receives a put that is dated that much ahead of its clock, which nobody has sent
//	fail-write NODE               its storage reports the next write as failed, though it can be read; it is not durable
//	slow-disk NODE DURATION       adds to the latency of its disk
//	replace-disk NODE             gives a node that is down an empty disk
//	former-disk NODE              gives a node that is down the disk that it had before
//	damage NODE [KEY...]          makes the storage of a shard that is down lack these keys, and say so; without keys, say that nothing tells what it lacks
//	go-on NODE                    makes the storage of a shard that is down go on with what it has, because a person says so
//	copy-storage NODE             takes a copy of the storage of a shard, as it is
//	old-storage NODE              gives a shard that is down the copy that was taken last; that is still there afterwards
//	accept-loss NODE              gives up the log of a coordinator, or the members of a shard, which are lost
func init() {
	verbs["crash"] = func(s *scenario, args []string) (string, error) {
		return s.each(args, func(n *node) { s.world.crash(n) })
	}
	verbs["restart"] = func(s *scenario, args []string) (string, error) {
		return s.each(args, func(n *node) { s.world.restart(n) })
	}
	verbs["upgrade"] = func(s *scenario, args []string) (string, error) {
		return s.each(args, func(n *node) {
			s.world.upgrade(n)
			s.world.restart(n)
		})
	}
	verbs["downgrade"] = func(s *scenario, args []string) (string, error) {
		return s.each(args, func(n *node) {
			s.world.crash(n)
			n.isOlder = true
			s.world.restart(n)
		})
	}
	verbs["fail-write"] = func(s *scenario, args []string) (string, error) {
		return s.each(args, func(n *node) { n.disk.failNext++ })
	}
	verbs["replace-disk"] = func(s *scenario, args []string) (string, error) {
		return s.each(args, func(n *node) { s.former[n], n.disk = n.disk, newDisk() })
	}
	verbs["former-disk"] = func(s *scenario, args []string) (string, error) {
		return s.each(args, func(n *node) { s.former[n], n.disk = n.disk, s.former[n] })
	}
	verbs["damage"] = func(s *scenario, args []string) (string, error) {
		var missing causal.KeyRanges
		for _, key := range args[1:] {
			missing = missing.With(causal.OneKey(s.key(key)))
		}
		return s.each(args[:1], func(n *node) {
			s.former[n] = &disk{content: *n.disk.content.copy()}
			if n.disk.doubt(); missing != nil {
				n.disk.loseKeys(missing)
			}
		})
	}
	verbs["go-on"] = func(s *scenario, args []string) (string, error) {
		return s.each(args, func(n *node) { n.disk.acceptLoss() })
	}
	verbs["copy-storage"] = func(s *scenario, args []string) (string, error) {
		return s.each(args, func(n *node) { s.copies[n] = n.disk.content.copy() })
	}
	verbs["old-storage"] = func(s *scenario, args []string) (string, error) {
		return s.each(args, func(n *node) { n.disk.content = *s.copies[n].copy() })
	}
	verbs["accept-loss"] = func(s *scenario, args []string) (string, error) {
		var refused []error
		_, err := s.each(args, func(n *node) {
			m, ok := n.m.(interface{ AcceptLoss(causal.Now) error })
			if !ok {
				refused = append(refused, fmt.Errorf("%s is not a coordinator, nor a member of a shard", n.id))
			} else if err := m.AcceptLoss(s.world.clock(n)); err != nil {
				refused = append(refused, err)
			}
			s.world.flush(n)
		})
		if err == nil && len(refused) > 0 {
			return fmt.Sprintf("refused: %v", refused[0]), nil
		}
		return "", err
	}
	verbs["forge"] = (*scenario).forge
	verbs["clock"] = (*scenario).clock
	verbs["slow-disk"] = (*scenario).slowDisk
}

// each calls f with every node that matches a pattern. Each pattern must match a node.
func (s *scenario) each(patterns []string, f func(*node)) (string, error) {
	for _, pattern := range patterns {
		match, err := s.nodes(pattern)
		if err != nil {
			return "", err
		}
		found := false
		for _, n := range s.world.order {
			if match(n.id) {
				f(n)
				found = true
			}
		}
		if !found {
			return "", fmt.Errorf("no node matches %s", pattern)
		}
	}
	return "", nil
}

func (s *scenario) forge(args []string) (string, error) {
	ahead, err := time.ParseDuration(args[3])
	if err != nil {
		return "", err
	}
	return s.each(args[:1], func(n *node) {
		s.world.forgePut(n, s.topo.Leader(0), s.key(args[1]), args[2], ahead)
		s.world.Run(time.Millisecond, nil)
	})
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
	return s.each(args[:1], func(n *node) { n.disk.slowBy, n.disk.slowUntil = int64(d), s.world.now+int64(time.Hour) })
}
