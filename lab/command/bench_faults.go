package command

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/lab/bench"
	"github.com/causalstore/causalstore/sidecar/causal"
)

func newBenchFaultsCommand() *cobra.Command {
	var f benchFlags
	var report, scope, reads string
	full, quick := bench.FullFaults(), bench.QuickFaults()
	o := full
	cmd := &cobra.Command{
		Use:   "faults",
		Short: "Measure what clients see while a part fails, and how long a heal takes",
		Long: `Runs a deployment of eight data centers on an emulated WAN for each fault, with
clients in every data center at a fixed rate. It injects the fault into one data center, heals it,
and prints for the clients there and elsewhere: operations that failed, latencies, the longest time
without a success, and how long after the heal everything was normal. It checks what all clients
have seen, and fails if that is not causal.

Faults: ` + strings.Join(bench.FaultNames(), ", ") + `.`,
		Example: `  causalstore bench faults --quick
  causalstore bench faults --cases dc-dead,cut-all --data-center sa-east-1
  causalstore bench faults --report docs/benchmarks --json docs/benchmarks/faults.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.quick {
				o.Lead, o.Before, o.After = quick.Lead, quick.Before, quick.After
				setUnlessGiven(cmd, "during", &o.During, quick.During)
			}
			var err error
			if o.Scope, err = scopeOf(scope); err != nil {
				return err
			}
			if o.Level, err = parseFlag("reads", reads, causal.SessionLevels()); err != nil {
				return err
			}
			o.Dir, o.Progress, o.Command = f.dir, cmd.ErrOrStderr(), commandLine(cmd)
			res, err := bench.MeasureFaults(cmd.Context(), o)
			if res == nil {
				return err
			}
			if report != "" {
				err = errors.Join(err, res.WriteReport(report))
			}
			return errors.Join(f.finish(cmd, res), err)
		},
	}
	fs := cmd.Flags()
	f.register(fs, "shorter phases: all faults in about three and a half minutes")
	fs.StringVar(&report, "report", "", "directory to write a page with the tables to")
	fs.StringSliceVar(&o.Cases, "cases", nil, "faults to measure (default all)")
	fs.StringVar(&o.DC, "data-center", full.DC, "data center to break")
	fs.DurationVar(&o.During, "during", full.During, "how long each fault lasts; with --quick "+quick.During.String())
	fs.Float64Var(&o.Rate, "rate", full.Rate, "operations per second of all clients together")
	fs.IntVar(&o.Connections, "connections", full.Connections, "clients in each data center")
	fs.Float64Var(&o.ReadRatio, "read-ratio", full.ReadRatio, "share of reads; 2 % are MGET")
	fs.IntVar(&o.Keys, "keys", full.Keys, "number of keys")
	fs.IntVar(&o.ValueBytes, "value-bytes", full.ValueBytes, "size of values in bytes")
	fs.StringVar(&scope, "session-scope", strings.ToLower(string(full.Scope)),
		"scope of a session: pod (all clients of a data center), or connection")
	fs.StringVar(&reads, "reads", "latest",
		"latest, or snapshot: prefer complete versions to newer ones that would bind the session")
	fs.StringVar(&o.Topology, "topology", "", "topology file (default eight AWS regions in three rings)")
	return cmd
}
