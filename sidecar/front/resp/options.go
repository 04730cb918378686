package resp

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/front"
)

// Limits bound the memory that clients can make the sidecar use. Zero fields take the default.
type Limits struct {
	// MaxKeyBytes is the longest key. Default, and at most, contract.MaxKeyBytes.
	MaxKeyBytes int
	// MaxValueBytes is the longest argument that is not a key, and the longest result of APPEND. Default, and at most,
	// contract.MaxValueBytes.
	MaxValueBytes int
	// MaxArgs is the number of arguments of a command, including its name. Default 1 Mi.
	MaxArgs int
	// MaxCommandBytes bounds the sum of the arguments of one command. Default 64 MiB.
	MaxCommandBytes int
	// MaxInlineBytes is the longest inline command, and the longest length line. Default 64 KiB.
	MaxInlineBytes int
	// MaxPipelineBytes bounds the pipelined puts that are not durable yet and, separately, the commands that are
	// received while the client does not read its replies. Default 32 MiB.
	MaxPipelineBytes int
	// MaxMGetKeys is the number of different keys of one MGET. Default 64 Ki.
	MaxMGetKeys int
	// MaxClientBytes bounds what all clients together have sent or queued, are writing, and have not read yet, with
	// connectionBytes for each of them. Beyond it, the connection that takes most is closed. Default 512 MiB.
	MaxClientBytes int
	// MaxClients is the number of connections. Default 10000.
	MaxClients int
	// WriteTimeout is how long a client may accept no byte of its replies before it is disconnected. Default 1 minute.
	WriteTimeout time.Duration
}

func (l Limits) withDefaults() Limits {
	for _, f := range []struct {
		field *int
		value int
	}{
		{&l.MaxKeyBytes, contract.MaxKeyBytes}, {&l.MaxValueBytes, contract.MaxValueBytes}, {&l.MaxArgs, 1 << 20},
		{&l.MaxCommandBytes, 64 << 20},
		{&l.MaxInlineBytes, 64 << 10}, {&l.MaxPipelineBytes, 32 << 20}, {&l.MaxMGetKeys, 64 << 10},
		{&l.MaxClientBytes, 512 << 20}, {&l.MaxClients, 10000},
	} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	if l.WriteTimeout == 0 {
		l.WriteTimeout = time.Minute
	}
	return l
}

func (l Limits) check() error {
	for _, f := range []struct {
		name       string
		value, max int
	}{
		{"MaxKeyBytes", l.MaxKeyBytes, contract.MaxKeyBytes},
		{"MaxValueBytes", l.MaxValueBytes, contract.MaxValueBytes},
		{"MaxArgs", l.MaxArgs, 1 << 30}, {"MaxCommandBytes", l.MaxCommandBytes, 1 << 31},
		{"MaxInlineBytes", l.MaxInlineBytes, 1 << 30},
		{"MaxPipelineBytes", l.MaxPipelineBytes, 1 << 31}, {"MaxMGetKeys", l.MaxMGetKeys, 1 << 30},
		{"MaxClientBytes", l.MaxClientBytes, 1 << 40},
		{"MaxClients", l.MaxClients, 1 << 30},
	} {
		if f.value < 1 || f.value > f.max {
			return fmt.Errorf("limit %s is %d; set it between 1 and %d", f.name, f.value, f.max)
		}
	}
	if l.WriteTimeout < 0 {
		return fmt.Errorf("limit WriteTimeout is %s; set a positive duration", l.WriteTimeout)
	}
	return nil
}

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
