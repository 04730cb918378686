package sim

import (
	"fmt"
	"strings"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// Coordinators:
//
//	coordinators use1 2   begins a change of the number of coordinators; who hears of it is told at once
//	moved                 waits until those that come are let in, and those that leave have left
//	over                  says that the change is over; coordinators that have left are stopped
//	show coordinators     where every coordinator stands
//	show cut use1         how far the cut that use1 knows is behind the clock
//	deaf NODE             it hears of no change
//	hears NODE            it does again
func init() {
	verbs["coordinators"] = (*scenario).coordinators
	verbs["deaf"] = func(s *scenario, args []string) (string, error) {
		return s.each(args, func(n *node) { s.reshape.deaf = n })
	}
	verbs["hears"] = func(s *scenario, args []string) (string, error) {
		s.reshape.deaf = nil
		return s.each(args, s.reshape.tell)
	}
}

func (s *scenario) coordinators(args []string) (string, error) {
	dc, n, err := s.change(args)
	if err != nil {
		return "", err
	}
	s.reshape.beginCoordinators(dc, n)
	return "", s.advanceBy(0)
}

func (s *scenario) coordinatorStates() string {
	var all []string
	for _, n := range s.world.order {
		if c, ok := n.m.(*causal.Coordinator); ok {
			all = append(all, fmt.Sprintf("%s/%d %s", s.dcs[n.id.DC].Name, n.id.Index, c.Membership()))
		}
	}
	return strings.Join(all, ", ")
}

func (s *scenario) showCut(name string) (string, error) {
	dc, err := s.dc(name)
	if err != nil {
		return "", err
	}
	n := s.world.nodes[s.world.topo.Leader(dc)]
	behind := s.world.clock(n).WallMs - n.m.(*causal.Coordinator).Known().MinSV().WallMs()
	if behind < 1000 {
		return "less than a second behind", nil
	}
	return fmt.Sprintf("%d s behind", behind/1000), nil
}
