package command

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/lab/bench"
	"github.com/causalstore/causalstore/sidecar/causal"
)

func newBenchWorkloadsCommand() *cobra.Command {
	var f benchFlags
	var seconds float64
	var reads string
	var o bench.WorkloadsOptions
	cmd := &cobra.Command{
		Use: "workloads [WORKLOAD...]",
		Short: "Compare YCSB and Twitter's clusters on a stock Redis and on the same Redis behind the parts of " +
			"one data center",
		Long: `Runs workloads in a closed loop, in turn against a stock redis-server, and
against deployments of one data center that use another redis-server as their storage. Each part is
a process of its own, with mutual TLS between them; one deployment has near copies in its sidecar.
Writes are synced to disk before they are acknowledged, everywhere. The clients use go-redis and
share the processors with what they measure. Requires redis-server and Linux.

A workload is ycsb-a to ycsb-f, twitter-1 to twitter-54, or a file (see causalstore load). Without
arguments: YCSB's six, and the clusters 7, 12 and 14, which have four fifths reads, four fifths
writes, and a fifth deletions.`,
		Example: `  causalstore bench workloads
  causalstore bench workloads ycsb-a twitter-52 --pipeline 16 --reads Snapshot`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.quick {
				setUnlessGiven(cmd, "seconds", &seconds, 1)
				setUnlessGiven(cmd, "rounds", &o.Rounds, 1)
			}
			if o.Workloads = args; len(args) == 0 {
				o.Workloads = []string{"ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-e", "ycsb-f", "twitter-7",
					"twitter-12", "twitter-14"}
			}
			if seconds <= 0 || o.Rounds < 1 || o.Connections < 1 || o.Pipeline < 1 {
				return errors.New("--seconds, --rounds, --connections and --pipeline must be positive")
			}
			if err := checkNearCopies(o.NearBytes); err != nil {
				return err
			}
			var err error
			if o.Level, err = parseFlag("reads", reads, causal.SessionLevels()); err != nil {
				return err
			}
			if o.Binary, err = thisProgram(); err != nil {
				return err
			}
			o.Dir, o.Length, o.Progress = f.dir, time.Duration(seconds*float64(time.Second)), cmd.ErrOrStderr()
			res, err := bench.MeasureWorkloads(cmd.Context(), o)
			if err != nil {
				return err
			}
			return f.finish(cmd, res)
		},
	}
	fs := cmd.Flags()
	f.register(fs, "measure one round of one second each")
	fs.Float64Var(&seconds, "seconds", 2, "length of each round of a workload on one system")
	fs.IntVar(&o.Rounds, "rounds", 3, "rounds of each workload on each system")
	fs.IntVar(&o.Connections, "connections", 50, "number of client connections")
	fs.IntVar(&o.Pipeline, "pipeline", 1, "operations that a connection sends at once")
	fs.StringVar(&reads, "reads", causal.Latest.String(),
		"reads of all sessions: "+causal.JoinNames(causal.SessionLevels()))
	fs.IntVar(&o.NearBytes, "near-copies", 32<<20,
		"bytes of near copies of the sidecar of the third system; 0: no third system")
	return cmd
}
