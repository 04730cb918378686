package command

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/lab/bench"
	"github.com/causalstore/causalstore/lab/envoy"
)

func newBenchRegionsCommand() *cobra.Command {
	var f benchFlags
	var seconds, backlog, window float64
	o := bench.RegionsOptions{Forms: bench.RegionForms,
		Delays: []time.Duration{40 * time.Millisecond, 125 * time.Millisecond}}
	cmd := &cobra.Command{
		Use:   "regions",
		Short: "Measure two regions with a long path between them: latency, cost, propagation, backlogs and cuts",
		Long: `Runs two data centers, each a region and a ring of its own, with each part in its
own process and a path between them that delays every byte. It does so in three forms, which take
turns: parts that dial each other without TLS, with mutual TLS, and with mutual TLS through an Envoy
on each side. The path is emulated on this machine, by the bytes of TCP connections.

It prints what clients of one region see, how much later than the delay of the path a write is seen
in the other region, what each kind of process uses, how many bytes cross the path, how fast a
backlog that was written in a cut gets over it, by what one TCP connection carries, and how long
after cuts writes cross it again. Requires redis-server and Linux.`,
		Example: `  causalstore bench regions --quick
  causalstore bench regions --delays 125ms --forms edges --rounds 1 --cuts 0
  causalstore bench regions --rounds 1 --backlog-mb 0 --cuts 10 --forms tls,edges`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.quick {
				setUnlessGiven(cmd, "seconds", &seconds, 1)
				setUnlessGiven(cmd, "rounds", &o.Rounds, 1)
				setUnlessGiven(cmd, "backlog-mb", &backlog, 20)
				setUnlessGiven(cmd, "cuts", &o.Cuts, 2)
				setUnlessGiven(cmd, "longest-cut", &o.LongestCut, 5*time.Second)
			}
			for _, form := range o.Forms {
				if !slices.Contains(bench.RegionForms, form) {
					return fmt.Errorf("--forms: %q; give some of %s", form, strings.Join(bench.RegionForms, ", "))
				}
			}
			o.BacklogBytes, o.Window = int(backlog*1e6), int(window*(1<<20))
			if seconds <= 0 || o.Rounds < 1 || o.Connections < 1 || o.Keys < 1 || o.ValueBytes < 1 || o.Probes < 1 ||
				len(o.Forms) == 0 {
				return errors.New(
					"--seconds, --rounds, --connections, --keys, --value-bytes and --probes must be positive, and " +
						"--forms not empty")
			}
			if o.BacklogBytes < 0 || o.BacklogBytes > maxBacklog || o.Window < 64<<10 || o.Cuts < 0 ||
				o.ShortestCut < 0 || o.LongestCut < o.ShortestCut {
				return fmt.Errorf(
					"--backlog-mb must be 0 to %d, a coordinator's write buffer holds no more; --window-mb at least "+
						"0.0625, --cuts not negative, and --longest-cut at least --shortest-cut", maxBacklog/1_000_000)
			}
			for _, d := range o.Delays {
				if d <= 0 || d > time.Second {
					return fmt.Errorf("--delays: %s; give more than 0 and at most 1s", d)
				}
			}
			if o.Envoy == "" {
				o.Envoy = os.Getenv(envoy.ProgramVariable)
			}
			var err error
			if o.Binary, err = thisProgram(); err != nil {
				return err
			}
			o.Dir, o.Length, o.Progress = f.dir, time.Duration(seconds*float64(time.Second)), cmd.ErrOrStderr()
			res, err := bench.MeasureRegions(cmd.Context(), o)
			if err != nil {
				return err
			}
			return f.finish(cmd, res)
		},
	}
	fs := cmd.Flags()
	f.register(fs, "measure one round of one second, a backlog of 20 MB and two short cuts, in about two minutes")
	fs.StringVar(&o.Envoy, "envoy", "", "program of Envoy, for the form with edges (default: environment variable "+
		envoy.ProgramVariable+")")
	fs.StringSliceVar(&o.Forms, "forms", o.Forms, "forms to measure")
	fs.DurationSliceVar(&o.Delays, "delays", o.Delays, "delays of the path, one way")
	fs.Float64Var(&window, "window-mb", 3,
		"what one TCP connection may have under way, in MiB; 3 is about what Linux allows by default")
	fs.Float64Var(&seconds, "seconds", 2, "length of each round of a command in a form")
	fs.IntVar(&o.Rounds, "rounds", 3, "rounds of each form")
	fs.IntVar(&o.Connections, "connections", 50, "number of client connections")
	fs.IntVar(&o.Keys, "keys", 10000, "number of keys")
	fs.IntVar(&o.ValueBytes, "value-bytes", 1024, "size of values in bytes")
	fs.IntVar(&o.Probes, "probes", 200, "writes of each round that are followed to the other region")
	fs.Float64Var(&backlog, "backlog-mb", 100, "values written while the path is cut, in MB; 0 measures no backlog")
	fs.IntVar(&o.Cuts, "cuts", 10, "cuts after which the first writes are followed")
	fs.DurationVar(&o.ShortestCut, "shortest-cut", 3*time.Second, "length of the first cut")
	fs.DurationVar(&o.LongestCut, "longest-cut", 20*time.Second, "length of the last cut")
	return cmd
}

// maxBacklog is well below a coordinator's write buffer of 256 MiB, which also counts keys.
const maxBacklog = 150_000_000
