package sim

import (
	"sync"

	"github.com/causalstore/causalstore/lab/history"
	"github.com/causalstore/causalstore/sidecar/causal"
)

// schedules are seeds of a profile, with rules of the protocol broken.
type schedules struct {
	profile     string
	broken      causal.Faults
	from, seeds uint64
}

// detection is the first of some schedules with a violation.
type detection struct {
	found     bool
	seed      uint64
	violation string
}

// searched holds what was found, by schedules: scenarios show faults that TestEveryBrokenRuleIsCaught looks for as well.
var searched sync.Map

// detect runs schedules until one has violations. The same schedules are run once.
func (s schedules) detect(p Profile) detection {
	once, _ := searched.LoadOrStore(s, sync.OnceValue(func() detection {
		var checker history.Checker
		for seed := s.from; seed < s.from+s.seeds; seed++ {
			if o := Run(p, seed, s.broken, &checker); len(o.Violations) > 0 {
				return detection{true, seed, o.Violations[0]}
			}
		}
		return detection{}
	}))
	return once.(func() detection)()
}
