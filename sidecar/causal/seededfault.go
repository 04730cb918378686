package causal

import (
	"fmt"
	"slices"
	"strings"
)

// SeededFault is all that there is to say about a fault. Names, lists, documentation and tests are made from it.
type SeededFault struct {
	Fault Fault
	Name  string
	// Part is the part of a deployment that breaks the rule, and What is what the broken part does.
	Part, What string
	// rules are ids of docs/protocol, separated by ", ".
	rules string
	// Profile is the profile of the simulator that detects the fault within the fewest seeds.
	Profile string
}

// Rules returns the ids of the rules that the fault breaks, which docs/protocol defines.
func (s *SeededFault) Rules() []string { return strings.Split(s.rules, ", ") }

// seededFaults holds all faults, in the order of their numbers.
var seededFaults = func() []SeededFault {
	all := slices.Concat(sessionFaults, coordinatorFaults, middlemanFaults, cacheFaults, groupFaults)
	slices.SortFunc(all, func(a, b SeededFault) int { return int(a.Fault) - int(b.Fault) })
	return all
}()

// SeededFaults returns all that there is to say about every seeded fault.
func SeededFaults() []SeededFault { return slices.Clone(seededFaults) }

// Seeded returns what there is to say about the fault.
func (f Fault) Seeded() SeededFault { return seededFaults[f] }

func (f Fault) String() string { return seededFaults[f].Name }

// AllFaults returns every seeded fault.
func AllFaults() []Fault {
	all := make([]Fault, faultEnd)
	for i := range all {
		all[i] = Fault(i)
	}
	return all
}

// FaultNamed returns the seeded fault with a name.
func FaultNamed(name string) (Fault, error) {
	for i := range seededFaults {
		if seededFaults[i].Name == name {
			return seededFaults[i].Fault, nil
		}
	}
	return 0, fmt.Errorf("unknown fault %q", name)
}
