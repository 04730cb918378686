package sim

import (
	"fmt"
	"strings"

	"github.com/causalstore/causalstore/topology"
)

// Exclusions:
//
//	exclude use1 NODE...    excludes a data center: all nodes receive the new topology at once, but for those that are down, and those named
//	exclude-at use1 euw1    the nodes of use1 receive a topology that excludes euw1, and nobody else does
//	merge-exclusions        all nodes receive a topology with all exclusions
//	keep-data east          all nodes receive a topology by which the data of the ring count, though its data centers were excluded
//	show withdrawn          the shards that keep their data and answer nothing, and whose answer they lack
func init() {
	verbs["exclude"] = (*scenario).exclude
	verbs["exclude-at"] = (*scenario).excludeAt
	verbs["merge-exclusions"] = func(s *scenario, _ []string) (string, error) { s.scaler.merge(); return "", nil }
	verbs["keep-data"] = (*scenario).keepData
}

func (s *scenario) exclude(args []string) (string, error) {
	dc, _, err := s.prepareScaling([]string{args[0], "0"})
	if err != nil {
		return "", err
	}
	if _, err := s.each(args[1:], func(n *node) { s.scaler.withheld = append(s.scaler.withheld, n) }); err != nil {
		return "", err
	}
	s.scaler.exclude(dc)
	return "", nil
}

func (s *scenario) excludeAt(args []string) (string, error) {
	at, _, err := s.prepareScaling([]string{args[0], "0"})
	if err != nil {
		return "", err
	}
	dc, err := s.dc(args[1])
	if err == nil {
		s.scaler.excludeAt([]topology.DC{at}, []topology.DC{dc})
	}
	return "", err
}

func (s *scenario) keepData(args []string) (string, error) {
	for r, ring := range s.rings {
		if ring.Name == args[0] {
			s.scaler.keepData(topology.RingID(r))
			return "", nil
		}
	}
	return "", fmt.Errorf("there is no ring %q", args[0])
}

func (s *scenario) showWithdrawn() string {
	var all []string
	for _, n := range s.world.order {
		m := n.shard()
		if m == nil {
			continue
		}
		if w, withdrawn := m.Withdrawn(); withdrawn {
			text := fmt.Sprintf("%s/%d, without", s.dcs[n.id.DC].Name, n.id.Index)
			for _, o := range w.Without {
				text += fmt.Sprintf(" %s/%d", s.dcs[o.DC].Name, o.Index)
			}
			all = append(all, text)
		}
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}
