//go:build faults

package process

import (
	"fmt"
	"os"
	"strings"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// envFaults names the rules to break: names of seeded faults, separated by commas.
const envFaults = "CAUSALSTORE_FAULTS"

// brokenRules are the rules of the protocol that this program breaks. It is built with the tag faults, for tests of
// checkers only: no release has it.
func brokenRules() (broken causal.Faults) {
	for _, name := range strings.Split(os.Getenv(envFaults), ",") {
		f, err := causal.FaultNamed(name)
		if err != nil {
			panic(fmt.Sprintf("%s: %v; docs/checking.md lists all", envFaults, err))
		}
		broken = broken.Union(causal.FaultsOf(f))
	}
	fmt.Fprintf(os.Stderr, "THIS IS A TEST BUILD THAT BREAKS RULES OF THE PROTOCOL: %s\n", os.Getenv(envFaults))
	return broken
}
