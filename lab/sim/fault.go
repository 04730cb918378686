package sim

import (
	"fmt"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// ProfileThatDetects returns the profile that detects a seeded fault within the fewest seeds.
func ProfileThatDetects(f causal.Fault) (Profile, error) {
	p, err := ProfileNamed(f.Seeded().Profile)
	if err != nil {
		return Profile{}, fmt.Errorf("fault %s: %w", f, err)
	}
	return p, nil
}
