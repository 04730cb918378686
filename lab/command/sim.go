package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/lab/sim"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/command"
)

// simFlags are the flags of `causalstore sim`.
type simFlags struct {
	seeds, from uint64
	seed        uint64
	messages    string
	profile     string
	mutation    string
	workers     int
	verbose     bool
	list        bool
}

// NewSimCommand returns `causalstore sim`.
func NewSimCommand() *cobra.Command {
	var f simFlags
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Simulate random deployments, load and faults in virtual time, and check what clients saw",
		Long: `Runs whole deployments of the production code in virtual time: messages are lost,
delayed and reordered, nodes crash and restart from their disks, data centers are cut off, clocks
jump. Every history that clients saw is checked for causal consistency, convergence and lost writes.

A seed determines a run: the same seed and profile give the same run on every machine. A profile is a distribution of
deployments, load and faults; without --profile, seed n uses profile n modulo the number of profiles.

--mutation breaks a rule of the protocol on purpose, to verify that the check detects it. --list shows all mutations
with the ids of the rules that they break, which docs/protocol explains.

The exit code is 1 if a seed has a violation.`,
		Example: `  causalstore sim --seeds 10000
  causalstore sim --profile caches --seed 4711 --verbose             # repeat one seed
  causalstore sim --profile caches --seed 4711 --messages k1         # what it does to the key k1
  causalstore sim --mutation skip-deps --seeds 100                   # verify that a broken rule is detected
  causalstore sim --list`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.list {
				return listSimulations(cmd.OutOrStdout())
			}
			if cmd.Flags().Changed("seed") {
				f.from, f.seeds = f.seed, 1
			}
			if f.messages != "" {
				if !cmd.Flags().Changed("seed") {
					return errors.New("--messages shows one seed: give it with --seed")
				}
				return f.trace(cmd.OutOrStdout())
			}
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	fs.Uint64Var(&f.seeds, "seeds", 1000, "number of seeds to run")
	fs.Uint64Var(&f.from, "from", 0, "first seed")
	fs.Uint64Var(&f.seed, "seed", 0, "run this seed only")
	fs.StringVar(&f.messages, "messages", "",
		"with --seed, show the messages that concern this key, and what each part has of it")
	fs.StringVar(&f.profile, "profile", "", "profile of all seeds (default each in turn)")
	fs.StringVar(&f.mutation, "mutation", "", "rules to break, separated by commas")
	fs.IntVar(&f.workers, "workers", 0, "number of seeds to run in parallel; 0 is one per processor")
	fs.BoolVar(&f.verbose, "verbose", false, "show all violations of a seed, not only the first")
	fs.BoolVar(&f.list, "list", false, "list profiles and mutations, and run nothing")
	cmd.MarkFlagsMutuallyExclusive("seed", "seeds")
	cmd.MarkFlagsMutuallyExclusive("seed", "from")
	return cmd
}

// broken returns the rules that --mutation breaks.
func (f *simFlags) broken() (broken causal.Mutations, err error) {
	for name := range strings.SplitSeq(f.mutation, ",") {
		if name == "" {
			continue
		}
		mutation, err := causal.MutationNamed(name)
		if err != nil {
			return broken, fmt.Errorf("--mutation: %w; --list shows all", err)
		}
		broken = broken.Union(causal.MutationsOf(mutation))
	}
	return broken, nil
}

// trace shows what a seed does to a key.
func (f *simFlags) trace(out io.Writer) error {
	cfg := sim.CampaignConfig{Profile: f.profile}
	broken, err := f.broken()
	if err != nil {
		return err
	}
	p, err := cfg.ProfileOf(f.seed)
	if err != nil {
		return fmt.Errorf("--profile: %w; --list shows all", err)
	}
	t, err := sim.TraceKey(p, f.seed, broken, f.messages)
	if err != nil {
		return fmt.Errorf("--messages: %w", err)
	}
	fmt.Fprintf(out,
		"seed %d of profile %s, key %s. A write is shown as KEY=VALUE, an HLC as the newest write at or below it.\n",
		f.seed, p.Name, f.messages)
	for i, line := range t.Lines {
		if t.LeftOut > 0 && i == len(t.Lines)/2 {
			fmt.Fprintf(out, "... %d lines left out ...\n", t.LeftOut)
		}
		fmt.Fprintln(out, line)
	}
	for _, v := range t.Outcome.Violations {
		fmt.Fprintf(out, "violation: %s\n", v)
	}
	if len(t.Outcome.Violations) > 0 {
		return command.ErrSilent
	}
	fmt.Fprintln(out, "no violation")
	return nil
}

func (f *simFlags) run(ctx context.Context, out, errOut io.Writer) error {
	cfg := sim.CampaignConfig{From: f.from, Seeds: f.seeds, Profile: f.profile, Workers: f.workers}
	var err error
	if cfg.Broken, err = f.broken(); err != nil {
		return err
	}
	clear := func() {}
	if isTerminal(errOut) {
		cfg.Progress, clear = simProgress(errOut, f.seeds)
	}
	report, err := sim.Campaign(ctx, cfg)
	clear()
	if err != nil {
		return fmt.Errorf("--profile: %w; --list shows all", err)
	}
	f.print(out, &report)
	if report.Failed > 0 {
		return command.ErrSilent
	}
	return nil
}

// isTerminal reports whether w is a terminal: only there a progress line can be overwritten.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// progressEvery is the period of the progress line.
const progressEvery = 200 * time.Millisecond

// simProgress returns functions that write and clear the progress line.
func simProgress(w io.Writer, seeds uint64) (func(sim.CampaignReport), func()) {
	var next time.Duration
	write := func(r sim.CampaignReport) {
		if r.Elapsed >= next {
			next = r.Elapsed + progressEvery
			fmt.Fprintf(w,
				"\r\x1b[K%d of %d seeds, %.0f per second; %d operations, %d faults, %d seeds with violations",
				r.Seeds, seeds, r.SeedsPerSecond(), r.Ops, r.Faults.Total(), r.Failed)
		}
	}
	return write, func() { fmt.Fprint(w, "\r\x1b[K") }
}

func (f *simFlags) print(out io.Writer, r *sim.CampaignReport) {
	fmt.Fprintf(out, "%d seeds in %s, %.0f per second\n", r.Seeds, r.Elapsed.Round(time.Millisecond),
		r.SeedsPerSecond())
	fmt.Fprintf(out, "%d operations, %d messages, %d steps\n", r.Ops, r.Messages, r.Steps)
	fmt.Fprintf(out, "%d faults: %s\n", r.Faults.Total(), r.Faults.String())
	if r.Members.Sessions > 0 {
		fmt.Fprintf(out, "members of shards: %s\n", r.Members)
	}
	if r.Failed == 0 {
		fmt.Fprintln(out, "no violation")
		return
	}
	fmt.Fprintf(out, "%d seeds with violations\n", r.Failed)
	broken := ""
	if f.mutation != "" {
		broken = " --mutation " + f.mutation
	}
	for _, failure := range r.Failures {
		fmt.Fprintf(out, "\nseed %d; repeat with: causalstore sim --profile %s --seed %d%s\n", failure.Seed,
			failure.Profile, failure.Seed, broken)
		for i, v := range failure.Violations {
			if i > 0 && !f.verbose {
				fmt.Fprintf(out, "  and %d more; --verbose shows them\n", len(failure.Violations)-1)
				break
			}
			fmt.Fprintf(out, "  %s\n", v)
		}
		if len(failure.History) > 0 {
			fmt.Fprintln(out, "  part of the history that shows the first one; times in virtual milliseconds:")
		}
		for i := range failure.History {
			op := &failure.History[i]
			fmt.Fprintf(out, "    %9.3f %9.3f  %-5s %s\n", float64(op.Start)/1e6, float64(op.End)/1e6, op.DC,
				op.String())
		}
	}
	if more := r.Failed - len(r.Failures); more > 0 {
		fmt.Fprintf(out, "\nand %d more seeds\n", more)
	}
}

func listSimulations(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PROFILE\tABOUT")
	for _, p := range sim.Profiles() {
		fmt.Fprintf(w, "%s\t%s\n", p.Name, p.About)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nFAULT\tDETECTED FIRST BY PROFILE\tBREAKS RULES\tPART: WHAT IT DOES")
	for _, f := range causal.MutationInfos() {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s: %s\n", f.Name, f.Profile, strings.Join(f.Rules(), ", "), f.Part, f.What)
	}
	return w.Flush()
}
