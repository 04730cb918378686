package sim

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// Coordinators:
//
//	coordinators use1 2   begins a change of the number of coordinators; who hears of it is told at once
//	moved                 waits until those that come are let in, and those that leave have left
//	over                  says that the change is over; coordinators that have left are stopped
//	show coordinators     where every coordinator stands
func init() {
	verbs["coordinators"] = (*scenario).coordinators
}

func (s *scenario) coordinators(args []string) (string, error) {
	dc, err := s.dc(args[0])
	if err != nil {
		return "", err
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return "", err
	}
	if err := s.changes(); err != nil {
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
