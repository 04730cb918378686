package bench

import (
	"fmt"
	"io"
)

// Text prints the figures.
func (r *OverheadProcesses) Text(out io.Writer) {
	speed := table{
		title: "A stock Redis (appendfsync always), and the same behind coordinator, middleman, cache and sidecar, " +
			"each a process",
		note: fmt.Sprintf(
			"%s; %d connections, %d keys, values of %d bytes; %d rounds of %.1f s each way in turn; median "+
				"(least..greatest)",
			r.Machine, r.Connections, r.Keys, r.ValueBytes, r.Rounds, r.Seconds),
		head: []string{"case", "way", "ops/s", "ratio", "of " + r.Cases[0].Ways[1].Name, "p50 us", "p99 us",
			"p50 ratio", "CPU ms/1000", "generator", "wrong replies"}}
	cost := table{
		title: "CPU time in milliseconds per 1000 operations, and allocations and bytes per operation, of each process",
		head:  []string{"case", "way", "process", "CPU ms/1000", "allocations", "bytes"}}
	for _, c := range r.Cases {
		name := fmt.Sprintf("%s, pipeline %d", c.Command, c.Pipeline)
		for i, w := range c.Ways {
			if i > 0 {
				name = ""
			}
			speed.add(name, w.Name, w.Throughput.text("%.0f"), w.Ratio.text("%.2f"), w.OfFirst.text("%.2f"),
				fmt.Sprintf("%.0f", w.P50Us), fmt.Sprintf("%.0f", w.P99Us),
				fmt.Sprintf("%.2f", w.P50Ratio), fmt.Sprintf("%.2f", w.CPUUs), fmt.Sprintf("%.2f", w.GeneratorMs),
				fmt.Sprint(w.Wrong))
			for j, p := range w.Costs {
				cells := []string{name, w.Name}
				if j > 0 {
					cells = []string{"", ""}
				}
				if p.Process == kindStorage {
					cost.add(append(cells, p.Process, fmt.Sprintf("%.2f", p.CPUMs), "-", "-")...)
					continue
				}
				cost.add(append(cells, p.Process, fmt.Sprintf("%.2f", p.CPUMs), fmt.Sprintf("%.2f", p.Allocations),
					fmt.Sprintf("%.0f", p.AllocatedBytes))...)
			}
		}
	}
	speed.text(out)
	cost.text(out)
	for _, c := range r.Cases {
		for _, w := range c.Ways {
			for _, p := range w.Costs {
				if len(p.Layers) > 0 {
					fmt.Fprintf(out, "%s, pipeline %d, %s, %s: %s\n", c.Command, c.Pipeline, w.Name, p.Process,
						formatShares(p.Layers, p.CPUMs))
				}
			}
		}
	}
}
