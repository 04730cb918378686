package sim

import (
	"fmt"
	"strconv"
	"time"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// Shards:
//
//	shards use1 2     begins a change of the number of shards; who hears of it is told at once
//	moved             waits until all middlemen have gone over
//	over              says that the change is over; middlemen that have left are stopped
//	show shards       what every middleman does for the change
func init() {
	verbs["shards"] = (*scenario).shards
	verbs["moved"] = (*scenario).moved
	verbs["over"] = func(s *scenario, _ []string) (string, error) {
		s.reshape.finish()
		return "", s.advanceBy(100 * time.Millisecond)
	}
}

func (s *scenario) advanceBy(d time.Duration) error {
	s.world.Run(d, nil)
	return nil
}

// change reads of which data centre a number changes and to what, and gets ready for it.
func (s *scenario) change(args []string) (dc topology.DC, n int, err error) {
	if err := s.start(); err != nil {
		return 0, 0, err
	}
	if s.reshape == nil {
		s.reshape = &reshape{w: s.world, c: &chaos{w: s.world}}
	}
	if dc, err = s.dc(args[0]); err == nil {
		n, err = strconv.Atoi(args[1])
	}
	return dc, n, err
}

func (s *scenario) shards(args []string) (string, error) {
	dc, n, err := s.change(args)
	if err != nil {
		return "", err
	}
	s.reshape.begin(map[topology.DC]int{dc: n})
	return "", nil
}

func (s *scenario) moved([]string) (string, error) {
	if !s.world.Run(20*time.Second, s.reshape.settled) {
		return "", fmt.Errorf("not within 20s: %s; %s", s.shardStates(), s.coordinatorStates())
	}
	return "", nil
}

func (s *scenario) shardStates() string {
	text := ""
	for _, n := range s.world.order {
		if n.id.Part == topology.Middleman && n.mover != nil {
			text += fmt.Sprintf(", %s/%d %s", s.dcs[n.id.DC].Name, n.id.Index, n.mover.State())
		}
	}
	if text == "" {
		return "no change"
	}
	return text[2:]
}
