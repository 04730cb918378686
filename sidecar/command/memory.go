package command

import (
	"errors"
	"log/slog"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// limitMemory makes the Go runtime stay below nine tenths of what the container may take, unless GOMEMLIMIT is set, as
// the operator does for the parts. Many bounds follow that limit.
func limitMemory(container memlimit.Provider) {
	_, err := memlimit.Set(memlimit.WithProvider(container), memlimit.WithRatio(0.9),
		memlimit.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil && !errors.Is(err, memlimit.ErrNoCgroup) && !errors.Is(err, memlimit.ErrCgroupsNotSupported) {
		slog.Warn("cannot find out how much memory the container may take; set GOMEMLIMIT", "error", err)
	}
}
