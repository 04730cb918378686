package causal

import (
	"fmt"
	"slices"
	"strings"
)

// MutationInfo is all that there is to say about a mutation. Names, lists, documentation and tests are made from it.
type MutationInfo struct {
	Mutation Mutation
	Name     string
	// Part is the part of a deployment that breaks the rule, and What is what the broken part does.
	Part, What string
	// rules are ids of docs/protocol, separated by ", ".
	rules string
	// Profile is the profile of the simulator that detects it within the fewest seeds.
	Profile string
}

// Rules returns the ids of the rules that it breaks, which docs/protocol defines.
func (s *MutationInfo) Rules() []string { return strings.Split(s.rules, ", ") }

// mutationInfos holds all mutations, in the order of their numbers.
var mutationInfos = func() []MutationInfo {
	all := slices.Concat(sessionMutations, coordinatorMutations, middlemanMutations, cacheMutations, groupMutations)
	slices.SortFunc(all, func(a, b MutationInfo) int { return int(a.Mutation) - int(b.Mutation) })
	return all
}()

// MutationInfos returns all that there is to say about every mutation.
func MutationInfos() []MutationInfo { return slices.Clone(mutationInfos) }

// Info returns what there is to say about the mutation.
func (f Mutation) Info() MutationInfo { return mutationInfos[f] }

func (f Mutation) String() string { return mutationInfos[f].Name }

// AllMutations returns every mutation.
func AllMutations() []Mutation {
	all := make([]Mutation, mutationEnd)
	for i := range all {
		all[i] = Mutation(i)
	}
	return all
}

// MutationNamed returns the mutation with a name.
func MutationNamed(name string) (Mutation, error) {
	for i := range mutationInfos {
		if mutationInfos[i].Name == name {
			return mutationInfos[i].Mutation, nil
		}
	}
	return 0, fmt.Errorf("unknown mutation %q", name)
}
