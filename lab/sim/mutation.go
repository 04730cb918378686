package sim

import (
	"fmt"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// ProfileThatDetects returns the profile that detects a mutation within the fewest seeds.
func ProfileThatDetects(f causal.Mutation) (Profile, error) {
	p, err := ProfileNamed(f.Info().Profile)
	if err != nil {
		return Profile{}, fmt.Errorf("mutation %s: %w", f, err)
	}
	return p, nil
}
