package bench

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// What Karma's paper reports for 95 % reads: throughput over COPS-PR, share of local reads, and the bound of the share of
// accesses under dynamic ring restriction.
const (
	paperRatio     = 1.43
	paperNearReads = 0.77
	paperBound     = 0.02
)

// Text prints the figures, with those of the paper beside them.
func (p *Paper) Text(out io.Writer) {
	fmt.Fprintf(out, "\nKarma's evaluation on this machine: %.0f %% reads, zipfian %.2f, %d keys of %d bytes, %d clients in a closed loop with %.0f ms of thought, emulated WAN\n"+
		"%s; %d rounds of %.1f s in turn; median (least..greatest)\n\n",
		100*p.ReadRatio, p.Theta, p.Keys, p.ValueBytes, p.Clients, p.ThinkMs, p.Machine, p.Rounds, p.Seconds)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tCAUSALSTORE\tCOPS-PR\tPAPER")
	k, c := &p.Karma, &p.COPSPR
	fmt.Fprintf(w, "operations a second\t%s\t%s\t\n", k.Throughput.text("%.0f"), c.Throughput.text("%.0f"))
	fmt.Fprintf(w, "ratio\t%s\t1\t%.2f\n", p.Ratio.text("%.2f"), paperRatio)
	for _, dc := range slices.Sorted(maps.Keys(p.PerDC)) {
		fmt.Fprintf(w, "  clients of %s\t%s\t1\t\n", dc, p.PerDC[dc].text("%.2f"))
	}
	for _, row := range []struct {
		name       string
		k, c       float64
		paper      string
		percentage bool
	}{
		{"read, mean ms", k.GetMeanMs, c.GetMeanMs, "", false},
		{"read, p50 ms", k.GetP50Ms, c.GetP50Ms, "", false},
		{"read, p90 ms", k.GetP90Ms, c.GetP90Ms, "", false},
		{"read, p99 ms", k.GetP99Ms, c.GetP99Ms, "", false},
		{"write, p50 ms", k.PutP50Ms, c.PutP50Ms, "", false},
		{"write, p99 ms", k.PutP99Ms, c.PutP99Ms, "", false},
		{"reads answered in the data centre", k.NearReads(), c.NearReads(), fmt.Sprintf("%.0f %%", 100*paperNearReads), true},
		{"  by own write buffer", k.Own, c.Own, "", true},
		{"  by the cache", k.Cache, c.Cache, "", true},
		{"  by its own shard", k.Local, c.Local, "", true},
		{"reads from another data centre", k.Remote, c.Remote, "", true},
		{"reads of bound sessions (DRR)", k.Bound, c.Bound, fmt.Sprintf("< %.0f %%", 100*paperBound), true},
		{"reads of in-flight values", k.InFlight, c.InFlight, "", true},
	} {
		if row.percentage {
			fmt.Fprintf(w, "%s\t%.1f %%\t%.1f %%\t%s\n", row.name, 100*row.k, 100*row.c, row.paper)
		} else {
			fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%s\n", row.name, row.k, row.c, row.paper)
		}
	}
	fmt.Fprintf(w, "failed operations\t%d\t%d\t\n", k.Failed, c.Failed)
	_ = w.Flush() // to a terminal
	fmt.Fprintln(out, "\nThe paper: 64 machines, Cassandra, 500 million records. Here all data centres share one machine's processors, and fewer\n"+
		"keys make hits more likely and let reads meet writes under way more often.")
}
