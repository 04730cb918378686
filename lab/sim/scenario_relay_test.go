package sim

import (
	"fmt"

	"github.com/causalstore/causalstore/topology"
)

// Leaders of data centers:
//
//	claim LIAR VICTIM OF          the leader of one data center claims to another one that the writes of a third one are complete
//	claim LIAR VICTIM OF signed   the same, as vectors that are said to be signed by that one
func init() {
	verbs["claim"] = (*scenario).claim
}

func (s *scenario) claim(args []string) (string, error) {
	var dcs [3]topology.DC
	if len(args) < len(dcs) {
		return "", fmt.Errorf("give three data centers")
	}
	for i := range dcs {
		var err error
		if dcs[i], err = s.dc(args[i]); err != nil {
			return "", err
		}
	}
	s.world.forgeVectors(dcs[0], dcs[1], dcs[2], len(args) > len(dcs))
	return "", s.advanceBy(0)
}
