package resp

import (
	"testing"

	"go.uber.org/goleak"
)

// No test may leave a goroutine behind: a connection that ended has ended whole.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
