package resp

import (
	"testing"

	"go.uber.org/goleak"
)

// No test may leak a goroutine: a closed connection leaves nothing running.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
