package session

import (
	"fmt"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// CheckCounts compares what is counted with what there is. The host has released what the results that it has taken
// hold.
func (s *Sidecar) CheckCounts() (counts causal.Counts) {
	mgets, ahead := 0, 0
	for _, c := range s.calls {
		if c.finished {
			continue
		}
		ahead += c.ahead
		if c.mget != nil {
			mgets += c.mget.keys + c.mget.bytes
		}
	}
	for i := range s.results {
		ahead += s.results[i].Ahead
	}
	counts.Compare("bytes of MGETs", s.mgetBytes, mgets)
	counts.Compare("bytes of pipelined gets", s.aheadBytes, ahead)
	stray := 0
	for _, r := range s.requests.byID {
		if !r.isAwaited() {
			stray++
		}
	}
	counts.Compare("requests whose answers nobody awaits", stray, 0)
	for id, ss := range s.sessions {
		own := map[*ownWrite]bool{}
		for _, w := range ss.own.incomplete {
			own[w] = true
		}
		for _, w := range ss.own.overlay {
			own[w] = true
		}
		bytes := 0
		for w := range own {
			if !w.evicted && !w.forgotten {
				bytes += w.size()
			}
		}
		counts.Compare(fmt.Sprintf("bytes of own writes of session %d", id), ss.own.bytes, bytes)
		if rs := &ss.restrictions; rs.index != nil {
			counts.Compare(fmt.Sprintf("restrictions of session %d", id), len(rs.index), len(rs.list))
		}
	}
	return counts
}

// CheckRest returns what is left of the past while nothing is under way.
func (s *Sidecar) CheckRest() (left causal.Counts) {
	for _, c := range s.calls {
		left.CheckEnded(fmt.Sprintf("operation %d", c.op.ID), !c.finished)
	}
	left.CheckEmpty("blocked operations", len(s.blocked))
	left.CheckEmpty("results", len(s.results))
	left.CheckEmpty("pipelines that may go on", len(s.leftPipelines))
	left.CheckEmpty("near streams without a lease", s.near.WithoutLease())
	for id, ss := range s.sessions {
		left.CheckEmpty(fmt.Sprintf("restrictions of session %d", id), len(ss.restrictions.list))
		left.CheckEmpty(fmt.Sprintf("incomplete writes of session %d", id), len(ss.own.incomplete))
	}
	return left
}
