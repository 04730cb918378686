package kubectl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/drill"
	"github.com/causalstore/causalstore/controllers/drill/record"
	"github.com/causalstore/causalstore/controllers/drill/report"
)

// drillFlags are the flags of drill.
type drillFlags struct {
	store         string
	choice        drill.Choice
	settings      drill.Settings
	image, window string
	yes           bool
	output, cron  string
}

func (c *cluster) drillCommand() *cobra.Command {
	f := drillFlags{settings: drill.DefaultSettings()}
	cmd := &cobra.Command{
		Use:   "drill",
		Short: "Rehearse failures of zones, hosts and parts with Chaos Mesh, and report which promises held",
		Long: `Rehearses failures of a store with Chaos Mesh, while canaries in every data
center of the cluster write and read, and reports which promises held. A data center has a front
zone (AZ-F: coordinators, caches and the fronts of clients) and a back zone (AZ-B: shards).
docs/drills.md describes what happens, and what it takes to be safe.`,
	}
	cmd.PersistentFlags().StringVar(&f.store, "store", "", "store; can be omitted if the namespace has only one")
	cmd.AddCommand(c.drillListCommand(&f), c.drillRunCommand(&f), c.drillShowCommand(&f), c.drillAbortCommand(&f),
		c.drillReportCommand(&f), c.drillCompareCommand(&f), c.drillScheduleCommand(&f),
		c.drillProbeCommand(&f), c.drillCleanupCommand(&f))
	return cmd
}

func (f *drillFlags) registerChoice(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.choice.DataCenter, "data-center", "",
		"data center to hit; default: the first that has what the drill hits")
	fs.StringVar(&f.choice.To, "to", "", "the other data center of a partition")
	fs.StringVar(&f.choice.Ring, "ring", "", "ring to hit; default: that of the first data center")
	fs.DurationVar(&f.settings.Injection, "injection", f.settings.Injection, "how long the faults last")
}

func (f *drillFlags) registerRun(cmd *cobra.Command) {
	f.registerChoice(cmd)
	fs := cmd.Flags()
	fs.DurationVar(&f.settings.Baseline, "baseline", f.settings.Baseline, "how long to watch before the faults")
	fs.StringVar(&f.image, "image", "", "image of CausalStore, for canaries; default: that of the store")
	fs.StringVar((*string)(&f.settings.Sidecars), "sidecar-canaries", string(f.settings.Sidecars),
		"auto: pods with a sidecar watch as well, where there can be some; required: refuse without them; off: front "+
			"canaries only")
	fs.StringVar(&f.window, "window", "", "when it may run, in UTC, such as \"Mon-Fri 09:00-16:00\"; default: always")
}

// drillStore connects, and returns the store and the client.
func (c *cluster) drillStore(ctx context.Context, f *drillFlags) (*connection, *v1alpha1.CausalStore, error) {
	k, err := c.connect()
	if err != nil {
		return nil, nil, err
	}
	s, err := k.findStore(ctx, f.store)
	return k, s, err
}

func (k *connection) drillRuns(ctx context.Context, s *v1alpha1.CausalStore) ([]*record.Run, error) {
	var maps corev1.ConfigMapList
	if err := k.List(ctx, &maps, record.OfStore(s.Namespace, s.Name)...); err != nil {
		return nil, fmt.Errorf("list the runs of %s: %w", s.Name, err)
	}
	return record.All(maps.Items), nil
}

// lookForDrill returns what there is to hit, and what the cluster is known to be able to do.
func (k *connection) lookForDrill(ctx context.Context, s *v1alpha1.CausalStore) (*drill.Landscape,
	drill.Capabilities, error) {
	known, err := drill.ReadCapabilities(ctx, k, s.Namespace, s.Name)
	if err != nil {
		return nil, drill.Capabilities{}, err
	}
	l, err := drill.Look(ctx, k, s)
	return l, known, err
}

func (c *cluster) drillShowCommand(f *drillFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "show DRILL", Short: "Print the experiments of a drill, for kubectl apply", Args: cobra.ExactArgs(1),
		ValidArgsFunction: completeDrill,
		Long: `Prints the experiments that a drill would create now, with the names of the pods
that they hit, for kubectl apply. Applied so, nothing watches, aborts or verifies; they end after
their duration.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := drill.Find(args[0])
			if err != nil {
				return err
			}
			k, s, err := c.drillStore(cmd.Context(), f)
			if err != nil {
				return err
			}
			l, err := drill.Look(cmd.Context(), k, s)
			if err != nil {
				return err
			}
			t, err := d.Choose(l, f.choice)
			if err != nil {
				return err
			}
			if err := f.settings.Check(); err != nil {
				return err
			}
			run := &record.Run{ID: "manual", Drill: d.Name, Store: s.Name, Namespace: s.Namespace}
			for i, fault := range t.Faults {
				if err := writeManifest(cmd.OutOrStdout(),
					fault.Object(run, i, f.settings.Injection).Object); err != nil {
					return err
				}
			}
			return nil
		},
	}
	f.registerChoice(cmd)
	return cmd
}

func writeManifest(w io.Writer, o any) error {
	b, err := yaml.Marshal(o)
	if err == nil {
		_, err = fmt.Fprintf(w, "---\n%s", b)
	}
	return err
}

// findRun returns the run with an id, or the newest that has ended.
func findRun(runs []*record.Run, store, id string) (*record.Run, error) {
	if id == "" {
		if r := record.LatestFinished(runs); r != nil {
			return r, nil
		}
		return nil, fmt.Errorf("no drill of %s has run; kubectl causal drill list shows what there is", store)
	}
	var ids []string
	for _, r := range runs {
		if r.ID == id {
			return r, nil
		}
		ids = append(ids, r.ID)
	}
	return nil, fmt.Errorf("store %s has no run %s; it keeps the last %d: %s", store, id, record.MostRuns,
		strings.Join(ids, ", "))
}

func (c *cluster) drillReportCommand(f *drillFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "report [RUN]", Short: "Show the report of a run, by default of the last one", Args: cobra.MaximumNArgs(1),
		Example: `  kubectl causal drill report -n shop
  kubectl causal drill report 20260102-030405-abcd -n shop -o html > drill.html`,
		RunE: func(cmd *cobra.Command, args []string) error {
			k, s, err := c.drillStore(cmd.Context(), f)
			if err != nil {
				return err
			}
			runs, err := k.drillRuns(cmd.Context(), s)
			if err != nil {
				return err
			}
			r, err := findRun(runs, s.Name, firstOrEmpty(args))
			if err != nil {
				return err
			}
			return writeReport(cmd.OutOrStdout(), r, f.output)
		},
	}
	cmd.Flags().StringVarP(&f.output, "output", "o", "text", "text, markdown, json or html")
	return cmd
}

func writeReport(w io.Writer, r *record.Run, format string) error {
	switch format {
	case "text":
		return report.Text(w, r)
	case "markdown":
		return report.Markdown(w, r)
	case "html":
		return report.HTML(w, r)
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	return fmt.Errorf("--output %q: use text, markdown, json or html", format)
}

func (c *cluster) drillCompareCommand(f *drillFlags) *cobra.Command {
	return &cobra.Command{
		Use: "compare RUN [RUN]", Short: "Compare two runs; one is compared with the run of the same drill before it",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, s, err := c.drillStore(cmd.Context(), f)
			if err != nil {
				return err
			}
			runs, err := k.drillRuns(cmd.Context(), s)
			if err != nil {
				return err
			}
			a, err := findRun(runs, s.Name, args[0])
			if err != nil {
				return err
			}
			b, err := otherRun(runs, s.Name, a, args[1:])
			if err != nil {
				return err
			}
			return report.Compare(cmd.OutOrStdout(), a, b)
		},
	}
}

// otherRun returns the run that another one is compared with: the named one, or the one of the same drill before it.
func otherRun(runs []*record.Run, store string, a *record.Run, named []string) (*record.Run, error) {
	if len(named) > 0 {
		return findRun(runs, store, named[0])
	}
	for _, r := range runs {
		if r.Drill == a.Drill && r.Outcome != record.Running && r.Started.Before(a.Started) {
			return r, nil
		}
	}
	return nil, fmt.Errorf("no run of drill %s before %s is kept; name another one", a.Drill, a.ID)
}

func (c *cluster) drillScheduleCommand(f *drillFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schedule DRILL",
		Short: "Print a CronJob that repeats a drill, with its ServiceAccount and rights, for kubectl apply",
		Args:  cobra.ExactArgs(1), ValidArgsFunction: completeDrill,
		Long: `Prints a CronJob that repeats a drill, and the ServiceAccount and Role that it
needs, for kubectl apply. It runs as that account, not as the operator's. Whoever may create pods in
the namespace can use it, and so stop the pods of the store. Outside of --window the drill is not
run.`,
		Example: `  kubectl causal drill schedule az-b-cut --cron "0 10 * * 2" --window "Mon-Fri 09:00-16:00" -n shop | kubectl apply -f -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := drill.Find(args[0])
			if err != nil {
				return err
			}
			if n := len(strings.Fields(f.cron)); f.cron != "" && n != 5 && !strings.HasPrefix(f.cron, "@") {
				return fmt.Errorf(
					"--cron %q: it has %d fields; give five: minute, hour, day of the month, month, day of the week, "+
						"such as \"0 10 * * 2\"", f.cron, n)
			}
			if f.cron == "" {
				return errors.New("--cron: give when to run it, in UTC, such as \"0 10 * * 2\" for Tuesdays at 10:00")
			}
			if err := f.settings.Check(); err != nil {
				return err
			}
			k, s, err := c.drillStore(cmd.Context(), f)
			if err != nil {
				return err
			}
			image := f.image
			if image == "" {
				if image, err = drill.ImageOf(cmd.Context(), k, s); err != nil {
					return err
				}
			}
			of := drill.Schedule{Drill: d, Choice: f.choice, Cron: f.cron, Window: f.window, Settings: f.settings,
				Image: image}
			objects, err := of.Objects(s)
			if err != nil {
				return err
			}
			for _, o := range objects {
				if err := writeManifest(cmd.OutOrStdout(), o); err != nil {
					return err
				}
			}
			return nil
		},
	}
	f.registerRun(cmd)
	cmd.Flags().StringVar(&f.cron, "cron", "", "when to run it, in UTC, as cron has it")
	return cmd
}

func (c *cluster) drillProbeCommand(f *drillFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "probe", Short: "Try on a canary whether this cluster can run experiments with clocks and disks",
		Args: cobra.NoArgs,
		Long: `Starts a canary, and tries experiments with its clock and its disk, which not
every kernel and runtime can do. What comes out is kept, and kubectl causal drill list shows it. The
store is not hit.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			k, s, err := c.drillStore(cmd.Context(), f)
			if err != nil {
				return err
			}
			canaries, err := k.canaries(cmd.Context(), s, f.image)
			if err != nil {
				return err
			}
			_, err = drill.Probe(cmd.Context(), k, canaries, s, cmd.OutOrStdout())
			return err
		},
	}
	cmd.Flags().StringVar(&f.image, "image", "", "image of CausalStore, for the canary; default: that of the store")
	return cmd
}

func completeDrill(_ *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	if len(args) == 0 {
		for _, d := range drill.Catalogue() {
			names = append(names, d.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
