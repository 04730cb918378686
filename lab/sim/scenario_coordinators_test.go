package sim

import (
	"fmt"
	"strings"
)

// Coordinators:
//
//	coordinators use1 2      starts a change of the number of coordinators; all nodes receive the new topology at once
//	await-change             waits until all nodes have completed the change: coordinators have joined or left
//	finish-change            ends the change; coordinators that have left are stopped
//	show coordinators        the membership of every coordinator
//	show cut use1            how far the cut that use1 knows is behind the clock
//	withhold-topology NODE   from now on the node receives no new topology
//	deliver-topology NODE    it receives the current one, and later ones
func init() {
	verbs["coordinators"] = (*scenario).coordinators
	verbs["withhold-topology"] = func(s *scenario, args []string) (string, error) {
		return s.each(args, func(n *node) { s.scaler.withheld = append(s.scaler.withheld, n) })
	}
	verbs["deliver-topology"] = func(s *scenario, args []string) (string, error) {
		s.scaler.withheld = nil
		return s.each(args, s.scaler.deliver)
	}
}

func (s *scenario) coordinators(args []string) (string, error) {
	dc, n, err := s.prepareScaling(args)
	if err != nil {
		return "", err
	}
	s.scaler.scaleCoordinators(dc, n)
	return "", s.advanceBy(0)
}

func (s *scenario) coordinatorStates() string {
	var all []string
	for _, n := range s.world.order {
		if c := n.coordinator(); c != nil {
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
	behind := s.world.clock(n).WallMs - n.coordinator().Known().MinSV().WallMs()
	if behind < 1000 {
		return "less than a second behind", nil
	}
	return fmt.Sprintf("%d s behind", behind/1000), nil
}

// showAdoptions lists what leaders have adopted.
func (s *scenario) showAdoptions() string {
	var parts []string
	for _, n := range s.world.order {
		if c := n.coordinator(); c != nil {
			for _, a := range c.Adoptions() {
				parts = append(parts, fmt.Sprintf("%s of %s/%d: %d writes, %d adoptable, %d complete",
					s.dcs[n.id.DC].Name,
					s.dcs[s.topo.CoordinatorOf(a.Origin).DC].Name, s.topo.CoordinatorOf(a.Origin).Index, a.Writes,
					a.Adoptable, a.Complete))
			}
		}
	}
	return strings.Join(parts, "; ")
}
