package command

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/lab/cost"
	"github.com/causalstore/causalstore/lab/planner"
)

type planFlags struct {
	scenarioFlags
	options     planner.Options
	copies      string
	topologyOut string
	json        string
}

// NewPlanCommand returns `causalstore plan`.
func NewPlanCommand() *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "plan [FILE]",
		Short: "Propose rings for data centers from their delays, traffic, prices and constraints",
		Long: fmt.Sprintf(
			`Proposes which data centers should form a ring, and explains why. FILE describes data
centers with their traffic, round trips, prices and constraints; see docs/planning.md. It may also
be a topology file, with the same traffic everywhere. The default is the default topology.

The best rings minimize the weighted sum of three ratios: the expected latency of a read relative to
that with a single copy, and the price of the traffic between data centers and the cost of compute
and storage, both relative to a copy in each data center. Up to %d data centers, all partitions into
rings are compared; beyond that, a search proposes the best one it finds.`, planner.MaxExact),
		Example: `  causalstore plan input.yaml
  causalstore plan input.yaml --copies 2-4 --latency-weight 0.5 --topology-out rings.yaml
  causalstore local --topology rings.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	fs := cmd.Flags()
	f.register(fs)
	fs.StringVar(&f.copies, "copies", "",
		"number of copies, that is, of rings: a number or a range such as 2-4 (default as in the input, or any)")
	fs.Float64Var(&f.options.Weights.Latency, "latency-weight", 1, "weight of the expected latency of reads")
	fs.Float64Var(&f.options.Weights.Bandwidth, "bandwidth-weight", 1,
		"weight of the price of the traffic between data centers")
	fs.Float64Var(&f.options.Weights.Capex, "capex-weight", 1,
		"weight of compute and storage; it affects only the number of copies")
	fs.Float64Var(&f.options.Alpha, "alpha", 0.5, "storage share of the cost of a server")
	fs.StringVar(&f.topologyOut, "topology-out", "",
		"write a topology with the proposed rings to this file, for causalstore local")
	fs.StringVar(&f.json, "json", "", "also write the plan to this file, as JSON")
	return cmd
}

func (f *planFlags) run(cmd *cobra.Command, args []string) error {
	file, err := inputFile(args)
	if err != nil {
		return err
	}
	if f.copies != "" {
		if file.Constraints.Copies, err = parseCopies(f.copies); err != nil {
			return err
		}
	}
	s, err := f.scenario(cmd.Flags(), file)
	if err != nil {
		return err
	}
	p, err := planner.Make(s, f.options)
	if err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	p.Text(cmd.OutOrStdout())
	if f.topologyOut != "" {
		b, err := p.Topology()
		if err != nil {
			return err
		}
		if err := os.WriteFile(f.topologyOut, b, 0o644); err != nil {
			return fmt.Errorf("write topology: %w", err)
		}
	}
	return writeJSON(f.json, p)
}

// parseCopies parses 3 or 2-4.
func parseCopies(text string) (cost.Range, error) {
	least, most, isRange := strings.Cut(text, "-")
	if !isRange {
		most = least
	}
	low, errLow := strconv.Atoi(least)
	high, errHigh := strconv.Atoi(most)
	if errLow != nil || errHigh != nil || low < 1 || high < low {
		return cost.Range{}, fmt.Errorf("--copies %q: use a number of at least 1, or a range such as 2-4", text)
	}
	return cost.Range{Min: low, Max: high}, nil
}
