package resp

import (
	"errors"
	"fmt"
	"testing"

	"github.com/causalstore/causalstore/sidecar/front"
)

func TestEveryFailureOfTheStoreHasTheCodeThatRedisClientsBranchOn(t *testing.T) {
	want := map[front.Code]string{front.Unavailable: "UNAVAILABLE why", front.Busy: "BUSY why",
		front.ClockAhead: "CLOCK why", front.Conflict: "CONFLICT why",
		front.UnknownOutcome: "UNKNOWN why", front.TooLarge: "ERR why", front.Refused: "ERR why"}
	for code := front.Code(1); code.IsKnown(); code++ {
		if got := toError(fmt.Errorf("wrapped: %w", front.Errorf(code, "why"))).Error(); got != want[code] {
			t.Errorf("%s is answered with %q, want %q", code, got, want[code])
		}
	}
	if got := toError(errors.New("something else")).Error(); got != "ERR something else" {
		t.Errorf("got %q", got)
	}
}
