package sim

import (
	"fmt"
	"strconv"
	"time"

	"github.com/causalstore/causalstore/topology"
)

// Shards:
//
//	shards use1 2     starts a change of the number of shards; all nodes receive the new topology at once
//	await-change      waits until all nodes have completed the change
//	finish-change     ends the change; nodes that have left are stopped
//	show shards       the stage of every middleman that takes part in the change
func init() {
	verbs["shards"] = (*scenario).shards
	verbs["await-change"] = (*scenario).awaitChange
	verbs["finish-change"] = func(s *scenario, _ []string) (string, error) {
		s.scaler.finishChange()
		return "", s.advanceBy(100 * time.Millisecond)
	}
}

func (s *scenario) advanceBy(d time.Duration) error {
	s.world.Run(d, nil)
	return nil
}

// prepareScaling parses the data center and the new number of a change, and makes the scaler.
func (s *scenario) prepareScaling(args []string) (dc topology.DC, n int, err error) {
	if err := s.start(); err != nil {
		return 0, 0, err
	}
	if s.scaler == nil {
		s.scaler = &scaler{w: s.world, injector: &faultInjector{w: s.world}}
	}
	if dc, err = s.dc(args[0]); err == nil {
		n, err = strconv.Atoi(args[1])
	}
	return dc, n, err
}

func (s *scenario) shards(args []string) (string, error) {
	dc, n, err := s.prepareScaling(args)
	if err != nil {
		return "", err
	}
	s.scaler.scaleShards(map[topology.DC]int{dc: n})
	return "", nil
}

func (s *scenario) awaitChange([]string) (string, error) {
	if !s.world.Run(20*time.Second, s.scaler.hasConverged) {
		return "", fmt.Errorf("the change was not completed within 20s: %s; %s", s.shardStates(), s.coordinatorStates())
	}
	return "", nil
}

func (s *scenario) shardStates() string {
	text := ""
	for _, n := range s.world.order {
		if n.mover() != nil {
			text += fmt.Sprintf(", %s/%d %s", s.dcs[n.id.DC].Name, n.id.Index, n.mover().Stage())
		}
	}
	if text == "" {
		return "no change"
	}
	return text[2:]
}
