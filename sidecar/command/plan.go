package command

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/sidecar/cost"
	"github.com/causalstore/causalstore/sidecar/planner"
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
		Short: "Propose rings for data centres, from their delays, traffic, prices and constraints",
		Long: fmt.Sprintf(`Proposes which data centres should form a ring, and says why. FILE has data centres with their traffic, round trips,
prices and constraints; see docs/planning.md. A topology file will do, with the same traffic everywhere; without FILE it is
the default topology.

The best rings have the least weighted sum of three shares: the expected latency of a read, of that with one copy; the price
of the traffic between data centres, and compute and storage, of those with a copy in each data centre. Up to %d data centres
all ways to make rings are compared; beyond, the best that a search finds is proposed.`, planner.MaxExact),
		Example: `  causalstore plan input.yaml
  causalstore plan input.yaml --copies 2-4 --latency-weight 0.5 --topology-out rings.yaml
  causalstore local --topology rings.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	fs := cmd.Flags()
	f.register(fs)
	fs.StringVar(&f.copies, "copies", "",
		"how many copies, which is how many rings: a number, or a range such as 2-4; default: what the input says, or any")
	fs.Float64Var(&f.options.Weights.Latency, "latency-weight", 1, "weight of the expected latency of reads")
	fs.Float64Var(&f.options.Weights.Bandwidth, "bandwidth-weight", 1, "weight of the price of the traffic between data centres")
	fs.Float64Var(&f.options.Weights.Capex, "capex-weight", 1, "weight of compute and storage; matters only for the number of copies")
	fs.Float64Var(&f.options.Alpha, "alpha", 0.5, "storage's share of what a server costs")
	fs.StringVar(&f.topologyOut, "topology-out", "", "file to write a topology with the proposed rings to, for causalstore local")
	fs.StringVar(&f.json, "json", "", "file to write the plan to as well, as JSON")
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

// parseCopies reads 3 or 2-4.
func parseCopies(text string) (cost.Range, error) {
	least, most, isRange := strings.Cut(text, "-")
	if !isRange {
		most = least
	}
	low, errLow := strconv.Atoi(least)
	high, errHigh := strconv.Atoi(most)
	if errLow != nil || errHigh != nil || low < 1 || high < low {
		return cost.Range{}, fmt.Errorf("--copies %q: give a number from 1 on, or a range such as 2-4", text)
	}
	return cost.Range{Min: low, Max: high}, nil
}
