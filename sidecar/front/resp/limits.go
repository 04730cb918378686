package resp

import "github.com/causalstore/causalstore/sidecar/front"

// Limits bound the memory that clients can make the sidecar use. Zero fields take the default.
type Limits struct {
	// Limits are those of any front. A value is an argument that is not a key, or the result of APPEND.
	front.Limits
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
}

func (l Limits) withDefaults() Limits {
	l.Limits = l.Limits.WithDefaults()
	for _, f := range []struct {
		field *int
		value int
	}{
		{&l.MaxArgs, 1 << 20}, {&l.MaxCommandBytes, 64 << 20}, {&l.MaxInlineBytes, 64 << 10},
		{&l.MaxPipelineBytes, 32 << 20},
		{&l.MaxMGetKeys, 64 << 10},
	} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	return l
}

func (l Limits) check() error {
	if err := l.Limits.Check(); err != nil {
		return err
	}
	return front.CheckLimits(front.Limit{Name: "MaxArgs", Value: l.MaxArgs, Max: 1 << 30},
		front.Limit{Name: "MaxCommandBytes", Value: l.MaxCommandBytes, Max: 1 << 31},
		front.Limit{Name: "MaxInlineBytes", Value: l.MaxInlineBytes, Max: 1 << 30},
		front.Limit{Name: "MaxPipelineBytes", Value: l.MaxPipelineBytes, Max: 1 << 31},
		front.Limit{Name: "MaxMGetKeys", Value: l.MaxMGetKeys, Max: 1 << 30})
}
