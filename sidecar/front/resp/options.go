package resp

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/front"
)

// Options configure a Server.
type Options struct {
	// Backend is required.
	Backend front.Backend
	Limits  Limits
	// Users are those for AUTH and HELLO, see SetUsers. If it is nil, no client needs to authenticate.
	Users []contract.User
	// Clock is the wall clock for expire times. Default time.Now.
	Clock func() time.Time
	// Logger receives panics and failures to accept connections. Default slog.Default.
	Logger *slog.Logger
	// Metrics may be nil.
	Metrics front.Metrics
}

func (o Options) withDefaults() (Options, error) {
	if o.Backend == nil {
		return o, fmt.Errorf("options: Backend is required")
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Limits = o.Limits.withDefaults()
	return o, o.Limits.check()
}
