package bench

import (
	"fmt"
	"io"
)

// Text prints the figures.
func (r *Regions) Text(out io.Writer) {
	fmt.Fprintf(out,
		"\nTwo data centers, each a region and a ring of its own, each part a process; clients in one of them\n"+
			"%s; %d connections, %d keys, values of %d bytes; %d rounds of %.1f s for each command and form in turn; "+
			"median (least..greatest)\n",
		r.Machine, r.Connections, r.Keys, r.ValueBytes, r.Rounds, r.Seconds)
	if r.Omitted != "" {
		fmt.Fprintln(out, r.Omitted)
	}
	for _, t := range []*table{r.loadTable(), r.costTable(), r.pathTable()} {
		t.text(out)
	}
}

// each calls f for every form, with the delay only in the first row of each.
func (r *Regions) each(f func(delay string, d *RegionDelay, form *RegionForm)) {
	for _, d := range r.Delays {
		name := fmt.Sprintf("%.0f ms", d.DelayMs)
		for _, form := range d.Forms {
			f(name, d, form)
			name = ""
		}
	}
}

func (r *Regions) loadTable() *table {
	t := &table{title: "Clients of one region, by the delay of the path to the other",
		note: "Propagation is from sending a write until a client of the other region sees it, less the delay.",
		head: []string{"delay", "form", "GET/s", "p50 us", "p99 us", "SET/s", "p50 us", "p99 us", "propagation p50 ms",
			"p99 ms", "writes", "wrong replies"}}
	r.each(func(delay string, _ *RegionDelay, f *RegionForm) {
		t.add(delay, f.Form, f.Get.Throughput.text("%.0f"), fmt.Sprintf("%.0f", f.Get.P50Us),
			fmt.Sprintf("%.0f", f.Get.P99Us),
			f.Set.Throughput.text("%.0f"), fmt.Sprintf("%.0f", f.Set.P50Us), fmt.Sprintf("%.0f", f.Set.P99Us),
			ms(f.PropagationP50Ms), ms(f.PropagationP99Ms), fmt.Sprint(f.Propagations),
			fmt.Sprint(f.Get.Wrong+f.Set.Wrong))
	})
	return t
}

// pairKinds are the kinds of processes of a pair.
func pairKinds() []string { return append([]string{kindStorage, kindEdge}, partNames...) }

func (r *Regions) costTable() *table {
	t := &table{
		title: "CPU time of both regions in milliseconds per 1000 operations, and bytes on the path for each write",
		head:  []string{"delay", "form", "of"}}
	kinds := pairKinds()
	t.head = append(append(t.head, kinds...), "all", "bytes sent", "back")
	r.each(func(delay string, _ *RegionDelay, f *RegionForm) {
		for _, l := range []struct {
			of   string
			load *RegionLoad
		}{{"GET", f.Get}, {"SET", f.Set}} {
			row := []string{delay, f.Form, l.of}
			if l.of == "SET" {
				row[0], row[1] = "", ""
			}
			for _, kind := range kinds {
				cell := "-"
				for _, c := range l.load.Costs {
					if c.Process == kind {
						cell = fmt.Sprintf("%.2f", c.CPUMs)
					}
				}
				row = append(row, cell)
			}
			row = append(row, fmt.Sprintf("%.2f", l.load.CPUUs))
			if l.of == "SET" {
				row = append(row, fmt.Sprintf("%.0f", f.SentPerWrite), fmt.Sprintf("%.0f", f.BackPerWrite))
			} else {
				row = append(row, "-", "-")
			}
			t.add(row...)
		}
	})
	return t
}

func (r *Regions) pathTable() *table {
	t := &table{
		title: fmt.Sprintf("After cuts: a backlog of %.0f MB, by what one TCP connection carries, and the first writes",
			float64(r.BacklogBytes)/1e6),
		note: fmt.Sprintf(
			"One connection has up to %d KiB under way. A backlog counts from the heal; steady is from its first "+
				"tenth to its last. Heals are until a write of each region is seen in the other.", r.Window>>10),
		head: []string{"delay", "form", "one connection MB/s", "backlog MB/s", "share", "goal", "", "steady MB/s",
			"share", "heals", "median ms", "worst ms"}}
	g := goal{Least: 0.8}
	r.each(func(delay string, d *RegionDelay, f *RegionForm) {
		mb := func(s spread) string { return spread{s.Median / 1e6, s.Min / 1e6, s.Max / 1e6}.text("%.1f") }
		share := func(s spread) string { return spread{100 * s.Median, 100 * s.Min, 100 * s.Max}.text("%.0f") + " %" }
		row := []string{delay, f.Form, mb(d.Ceiling), "-", "-", "-", "", "-", "-", "-", "-", "-"}
		if len(f.shares) > 0 {
			row[3], row[4], row[5], row[6] = mb(f.Backlog), share(f.BacklogShare), g.String(),
				g.verdict(f.BacklogShare.Median)
		}
		if len(f.steadyShares) > 0 {
			row[7], row[8] = mb(f.Steady), share(f.SteadyShare)
		}
		if len(f.HealsMs) > 0 {
			row[9], row[10], row[11] = fmt.Sprint(len(f.HealsMs)), ms(f.Heal.Median), ms(f.Heal.Max)
		}
		t.add(row...)
	})
	return t
}
