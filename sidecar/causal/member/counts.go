package member

import "github.com/causalstore/causalstore/sidecar/causal"

// CheckCounts compares what is counted with what there is, in the group, and in the machine that serves here.
func (m *Coordinator) CheckCounts() causal.Counts {
	counts := m.group.CheckCounts()
	if c := m.Serving(); c != nil {
		counts = append(counts, c.CheckCounts()...)
	}
	return counts
}

// CheckCounts compares what is counted with what there is, in the group, and of what waits to be appended to its log.
func (s *Storage) CheckCounts() causal.Counts {
	counts := s.group.CheckCounts()
	waiting := 0
	for i := range s.proposed.list[s.proposed.appended:] {
		waiting += len(s.proposed.list[s.proposed.appended+i].data)
	}
	counts.Compare("bytes of changes that wait", s.proposed.waitingBytes, waiting)
	return counts
}

// CheckRest returns what is left of the past while nothing is under way.
func (m *Coordinator) CheckRest() (left causal.Counts) {
	if c := m.Serving(); c != nil {
		left = c.CheckRest()
	}
	return left
}

// CheckRest returns what is left of the past while nothing is under way.
func (s *Storage) CheckRest() (left causal.Counts) {
	left.CheckEmpty("changes that are not applied", len(s.proposed.list))
	left.CheckEmpty("changes that are not reported as done", len(s.proposed.done))
	left.CheckEnded("a copy of the storage of another member", s.copying != nil)
	return left
}
