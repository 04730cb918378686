package command

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/lab/bench"
)

func newBenchLimitsCommand() *cobra.Command {
	var f benchFlags
	var seconds float64
	var o bench.LimitsOptions
	cmd := &cobra.Command{
		Use:   "limits",
		Short: "Attack each part with what takes most memory, and compare it with the limits of the containers",
		Long: `Runs each part of one data center in its own process, with a stock redis-server
as its storage and the memory limits that the operator gives to containers. Measures what an idle
connection takes. Then clients try to make the parts take as much memory as they can, in a
deployment of its own for each way. Fails if a part takes more than its container may, or a client
that comes later is not served. Requires redis-server and Linux.

The attacks are ` + strings.Join(bench.AttackNames(), ", ") + ".",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.quick {
				setUnlessGiven(cmd, "seconds", &seconds, 3)
				setUnlessGiven(cmd, "keys", &o.Keys, 100000)
				setUnlessGiven(cmd, "idle", &o.Idle, 1000)
			}
			if seconds <= 0 || o.Connections < 1 || o.Idle < 0 || o.Keys < 1 || o.CacheBytes < 1 {
				return errors.New(
					"--seconds, --connections, --keys and --cache-bytes must be positive, --idle must not be negative")
			}
			var err error
			if o.Binary, err = thisProgram(); err != nil {
				return err
			}
			o.Dir, o.Length, o.Progress = f.dir, time.Duration(seconds*float64(time.Second)), cmd.ErrOrStderr()
			res, err := bench.MeasureLimits(cmd.Context(), o)
			if err != nil {
				return err
			}
			return errors.Join(f.finish(cmd, res), res.Exceeded())
		},
	}
	fs := cmd.Flags()
	f.register(fs, "3 s for each attack, a tenth of the keys and of the idle connections")
	fs.Float64Var(&seconds, "seconds", 10, "length of each attack in seconds")
	fs.IntVar(&o.Connections, "connections", 200, "number of clients that attack")
	fs.IntVar(&o.Idle, "idle", 10000,
		"number of idle connections; the limit of open files must be greater; 0: do not measure them")
	fs.IntVar(&o.Keys, "keys", 1000000, "number of keys that go through the cache")
	fs.IntVar(&o.CacheBytes, "cache-bytes", 64<<20, "bound of that cache in bytes")
	fs.StringSliceVar(&o.Attacks, "attacks", nil, "the attacks to make; default: all")
	return cmd
}
