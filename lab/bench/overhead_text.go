package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Text prints the figures beside the goals.
func (r *Overhead) Text(out io.Writer) {
	fmt.Fprintf(out,
		"\nOverhead of sidecar, cache, coordinator and middleman of one data center over the same Redis "+
			"(appendfsync always)\n"+
			"%s; %d connections, %d keys, values of %d bytes; %d rounds of %.1f s each way in turn; median "+
			"(least..greatest)\n\n",
		r.Machine, r.Connections, r.Keys, r.ValueBytes, r.Rounds, r.Seconds)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CASE\tWAY\tOPS/S\tRATIO\tGOAL\t\tP50 us\tP99 us\tP50 RATIO\tGOAL\t\tCPU us/op")
	for _, c := range r.Cases {
		fmt.Fprintf(w, "%s, pipeline %d\tdirect\t%s\t\t\t\t%.0f\t%.0f\t\t\t\t%.2f\n", c.Command, c.Pipeline,
			c.Direct.Throughput.text("%.0f"), c.Direct.P50Us, c.Direct.P99Us, c.Direct.CPUUs)
		fmt.Fprintf(w, "\tthrough\t%s\t%s\t%s\t%s\t%.0f\t%.0f\t%.2f\t%s\t%s\t%.2f\n", c.Through.Throughput.text("%.0f"),
			c.Ratio.text("%.2f"), c.RatioGoal, c.RatioGoal.verdict(c.Ratio.Median), c.Through.P50Us, c.Through.P99Us,
			c.P50Ratio,
			c.P50Goal, c.P50Goal.verdict(c.P50Ratio), c.Through.CPUUs)
	}
	_ = w.Flush() // to a terminal

	fmt.Fprintln(out, "\nInside the data plane, per operation:")
	w = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w,
		"CASE\tALLOCATIONS\tBYTES\tGCs\tDATA PLANE us\tSTORAGE us\tGENERATOR us\tCACHE HITS\tBACKLOG AT END\tDRAINED "+
			"AFTER ms\tWRONG REPLIES\tOTHERS' CPUs")
	for _, c := range r.Cases {
		hits, backlog, drain := "-", "-", "-"
		if c.Command == "GET" {
			hits = fmt.Sprintf("%.2f %%", 100*c.Hits)
		} else {
			backlog, drain = c.Backlog.text("%.0f"), c.DrainMs.text("%.0f")
		}
		fmt.Fprintf(w, "%s, pipeline %d\t%.2f\t%.0f\t%d\t%.2f\t%.2f\t%.2f\t%s\t%s\t%s\t%d\t%.2f\n", c.Command,
			c.Pipeline, c.Allocations, c.AllocatedBytes,
			c.Collections, c.Through.CPUUs-c.StorageCPUUs, c.StorageCPUUs, c.GeneratorUs, hits, backlog, drain,
			c.Direct.Wrong+c.Through.Wrong, c.Others)
	}
	_ = w.Flush()

	for _, c := range r.Cases {
		if len(c.Layers) == 0 {
			continue
		}
		fmt.Fprintf(out, "\nWhere the CPU time of the data plane goes: %s, pipeline %d\n", c.Command, c.Pipeline)
		cpu := c.Through.CPUUs - c.StorageCPUUs
		fmt.Fprintf(out, "  layers:    %s\n", formatShares(c.Layers, cpu))
		fmt.Fprintf(out, "  functions: %s\n", formatShares(c.Leaves, cpu))
	}
}

// formatShares prints shares as percentages and as microseconds per operation.
func formatShares(all []share, cpu float64) string {
	var parts []string
	for _, s := range all {
		if s.Part >= 0.005 {
			parts = append(parts, fmt.Sprintf("%s %.0f %% (%.2f us)", s.Name, 100*s.Part, s.Part*cpu))
		}
	}
	return strings.Join(parts, ", ")
}
