//go:build mutations

package process

import (
	"fmt"
	"os"
	"strings"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// envMutations names the rules to break: names of mutations, separated by commas.
const envMutations = "CAUSALSTORE_MUTATIONS"

// brokenRules are the rules of the protocol that this program breaks. It is built with the tag mutations, for tests of
// checkers only: no release has it.
func brokenRules() (broken causal.Mutations) {
	for _, name := range strings.Split(os.Getenv(envMutations), ",") {
		f, err := causal.MutationNamed(name)
		if err != nil {
			panic(fmt.Sprintf("%s: %v; docs/checking.md lists all", envMutations, err))
		}
		broken = broken.Union(causal.MutationsOf(f))
	}
	fmt.Fprintf(os.Stderr, "THIS IS A TEST BUILD THAT BREAKS RULES OF THE PROTOCOL: %s\n", os.Getenv(envMutations))
	return broken
}
