package command

import (
	"math"
	"os"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

func TestTheMemoryLimitOfTheContainerBoundsTheRuntime(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	noLimit := func() (uint64, error) { return 0, memlimit.ErrNoLimit }
	for _, c := range []struct {
		name, variable string
		container      memlimit.Provider
		want           int64
	}{
		{"a container with a limit", "", memlimit.Limit(1000 << 20), 900 << 20},
		{"a container without one", "", noLimit, math.MaxInt64},
		{"GOMEMLIMIT is set", "256MiB", memlimit.Limit(1000 << 20), 77 << 20},
	} {
		t.Setenv("GOMEMLIMIT", c.variable)
		if c.variable == "" {
			if err := os.Unsetenv("GOMEMLIMIT"); err != nil { // Setenv sets it again to what it was
				t.Fatal(err)
			}
		}
		debug.SetMemoryLimit(77 << 20) // the runtime has read the variable when it started
		limitMemory(c.container)
		if got := debug.SetMemoryLimit(-1); got != c.want {
			t.Errorf("%s: the runtime stays below %d bytes, not %d", c.name, got, c.want)
		}
	}
}
