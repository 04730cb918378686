package bench

import (
	"fmt"
)

// Report has the figures.
func (r *Regions) Report() *Report {
	setting := fmt.Sprintf("clients in one of them; %d connections, %d keys, values of %d bytes; %s", r.Connections,
		r.Keys, r.ValueBytes, inTurn(r.Rounds, r.Seconds))
	if r.Omitted != "" {
		setting += "\n" + r.Omitted
	}
	return r.report("regions", "Two data centers, each a region and a ring of its own, each part a process", setting,
		tablesIn(r.loadTable(), r.costTable(), r.pathTable())...)
}

// each calls f for every form.
func (r *Regions) each(f func(delay string, d *RegionDelay, form *RegionForm)) {
	for _, d := range r.Delays {
		for _, form := range d.Forms {
			f(fmt.Sprintf("%.0f ms", d.DelayMs), d, form)
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
	t.mergeRepeated(1)
	return t
}

func (r *Regions) costTable() *table {
	t := &table{
		title: "CPU time of both regions in milliseconds per 1000 operations, and bytes on the path for each write",
		head:  []string{"delay", "form", "of"}}
	t.head = append(append(t.head, kinds...), "all", "bytes sent", "back")
	r.each(func(delay string, _ *RegionDelay, f *RegionForm) {
		row := func(of string, s *Side) []string {
			row := []string{delay, f.Form, of}
			for _, kind := range kinds {
				cell := "-"
				if c, ran := s.cost(kind); ran {
					cell = fmt.Sprintf("%.2f", c.CPUUs)
				}
				row = append(row, cell)
			}
			return append(row, fmt.Sprintf("%.2f", s.CPUUs))
		}
		t.add(append(row("GET", f.Get.Side), "-", "-")...)
		t.add(append(row("SET", f.Set.Side), fmt.Sprintf("%.0f", f.SentPerWrite),
			fmt.Sprintf("%.0f", f.BackPerWrite))...)
	})
	t.dropEmptyColumns()
	t.mergeRepeated(2)
	return t
}

func (r *Regions) pathTable() *table {
	t := &table{
		title: fmt.Sprintf("After cuts: a backlog of %.0f MB, by what one TCP connection carries, and the first writes",
			float64(r.BacklogBytes)/1e6),
		note: fmt.Sprintf(
			"One connection has up to %d KiB under way. A backlog counts from the heal; steady is from its first "+
				"tenth to its last. Heals are until a write of each region is seen in the other.", r.Window>>10),
		head: []string{"delay", "form", "one connection MB/s", "backlog MB/s", "share %", "goal", "", "steady MB/s",
			"share %", "heals", "median ms", "worst ms"}}
	g := goal{Least: 0.8}
	r.each(func(delay string, d *RegionDelay, f *RegionForm) {
		mb := func(s spread) string { return spread{s.Median / 1e6, s.Min / 1e6, s.Max / 1e6}.text("%.1f") }
		share := func(s spread) string { return spread{100 * s.Median, 100 * s.Min, 100 * s.Max}.text("%.0f") }
		row := []string{delay, f.Form, mb(d.Ceiling), mb(f.Backlog), share(f.BacklogShare), "-", "", mb(f.Steady),
			share(f.SteadyShare), "-", ms(f.Heal.Median), ms(f.Heal.Max)}
		if len(f.shares) > 0 {
			row[5], row[6] = g.String(), g.verdict(f.BacklogShare.Median)
		}
		if len(f.HealsMs) > 0 {
			row[9] = fmt.Sprint(len(f.HealsMs))
		}
		t.add(row...)
	})
	t.mergeRepeated(1)
	return t
}
