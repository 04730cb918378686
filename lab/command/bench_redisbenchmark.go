package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/lab/bench"
)

func newBenchRedisBenchmarkCommand() *cobra.Command {
	var f benchFlags
	var seconds float64
	var o bench.StockClientOptions
	cmd := &cobra.Command{
		Use:   "redis-benchmark",
		Short: "Let redis-benchmark compare a stock Redis and the same Redis behind the parts of one data center",
		Long: `Runs the stock redis-benchmark in turn against a stock redis-server, and against
deployments of one data center that use another redis-server as their storage. Each part is a
process of its own, with mutual TLS between them; one deployment has near copies in its sidecar.
Writes are synced to disk before they are acknowledged, everywhere. All combinations of commands,
connections and pipelines are measured. Requires redis-server, redis-benchmark and Linux.`,
		Example: `  causalstore bench redis-benchmark
  causalstore bench redis-benchmark --commands get --connections 50 --pipelines 1,16,64 --value-bytes 100`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.quick {
				setUnlessGiven(cmd, "seconds", &seconds, 0.5)
				setUnlessGiven(cmd, "rounds", &o.Rounds, 1)
			}
			for i, c := range o.Commands {
				if o.Commands[i] = strings.ToUpper(c); !slices.Contains([]string{"GET", "SET", "INCR", "MSET"},
					o.Commands[i]) {
					return fmt.Errorf("--commands: %q; it must be get, set, incr or mset", c)
				}
			}
			for _, n := range slices.Concat(o.Connections, o.Pipelines) {
				if n < 1 {
					return fmt.Errorf("--connections, --pipelines: %d; it must be at least 1", n)
				}
			}
			if seconds <= 0 || o.Rounds < 1 || o.Keys < 1 || o.ValueBytes < 1 {
				return errors.New("--seconds, --rounds, --keys and --value-bytes must be positive")
			}
			if err := checkNearCopies(o.NearBytes); err != nil {
				return err
			}
			var err error
			if o.Binary, err = thisProgram(); err != nil {
				return err
			}
			o.Dir, o.Length, o.Progress = f.dir, time.Duration(seconds*float64(time.Second)), cmd.ErrOrStderr()
			res, err := bench.MeasureWithStockClient(cmd.Context(), o)
			if err != nil {
				return err
			}
			return f.finish(cmd, res)
		},
	}
	fs := cmd.Flags()
	f.register(fs, "measure one round of half a second each")
	fs.Float64Var(&seconds, "seconds", 1, "about the length of each round of a combination on one system")
	fs.IntVar(&o.Rounds, "rounds", 3, "rounds of each combination on each system")
	fs.StringSliceVar(&o.Commands, "commands", []string{"get", "set"}, "some of get, set, incr, and mset of ten keys")
	fs.IntSliceVar(&o.Connections, "connections", []int{1, 50, 1000}, "numbers of client connections (-c)")
	fs.IntSliceVar(&o.Pipelines, "pipelines", []int{1, 16, 64},
		"numbers of commands that a connection sends at once (-P)")
	fs.IntVar(&o.Keys, "keys", 10_000, "number of keys (-r)")
	fs.IntVar(&o.ValueBytes, "value-bytes", 1024, "size of values, in bytes (-d)")
	fs.IntVar(&o.NearBytes, "near-copies", 32<<20,
		"bytes of near copies of the sidecar of the third system; 0: no third system")
	return cmd
}
