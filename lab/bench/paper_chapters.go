package bench

import "slices"

// chapters returns the chapters that this run has figures for.
func (p *Paper) chapters() []chapter {
	all := []chapter{
		{title: "Summary", tables: []*table{p.headlineTable()}},
		{title: "Throughput and latency (Figure 6)", figures: p.throughputFigures(), tables: p.throughputTables(),
			text: "All schemes with the same number of clients. The paper has Karma 43 % ahead of COPS-PR, with 77 % " +
				"of the reads " +
				"answered in the data center; Karma-NC like COPS-PR; COPS-Ideal, which keeps a whole copy " +
				"everywhere, ahead of all."},
		{title: "From ring to ring", figures: p.pairFigures(), tables: []*table{p.pairsTable()}},
		{title: "Congestion (Figures 7 and 8)", figures: p.congestionFigures(), tables: []*table{p.congestionTable()}},
		{title: "Reads and writes mixed (Figure 9)",
			figures: p.sweepFigures("mixes", "mixes", "Throughput by mix (Figure 9)",
				"reads-writes"),
			tables: []*table{p.sweepTable("mixes", "Mix", "Reads and writes mixed",
				"Operations per second. The paper: Karma has "+
					"0.87 of COPS-Ideal at 80-20, and 1.32 at 50-50.")}},
		{title: "Load (Figures 10 and 11)", figures: p.loadFigures(),
			tables: []*table{p.saturationTable(), p.loadTable()}},
		{title: "Each improvement off", figures: p.ablationFigures(), tables: []*table{p.ablationTable()}},
		{title: "A burst of dependent puts", figures: p.burstFigures(), tables: []*table{p.burstTable()}},
		{title: "Sessions in a sidecar", figures: p.sweepFigures("sessions", "sessions",
			"Throughput by connections that share a session", "connections to each data center"),
			tables: []*table{p.sweepTable("sessions", "Connections", "Connections that share a sidecar's session",
				"All connections to a data center are one session (scope pod)."),
				p.scaleTable("sessions", "Connections")}},
		{title: "Data centers", figures: p.sweepFigures("centers", "centers", "Throughput by data centers",
			"data centers"),
			tables: []*table{p.sweepTable("centers", "Data centers", "Data centers",
				"As many clients in each. Four are a part of "+
					"the eight, in the same three rings; sixteen are the eight with a second one beside each, 2 ms "+
					"away there and back."),
				p.scaleTable("centers", "Data centers")}},
		{title: "Sizes of records", figures: p.sweepFigures("sizes", "sizes", "Throughput by size of records",
			"size of a record"),
			tables: []*table{p.sweepTable("sizes", "Size", "Sizes of records",
				"The paper: 0.87 of the throughput with 1 KB, 0.68 "+
					"with 4 KB."), p.scaleTable("sizes", "Size")}},
		{title: "Numbers of keys", figures: p.sweepFigures("keys", "keys", "Throughput by number of keys", "keys"),
			tables: []*table{p.sweepTable("keys", "Keys", "Numbers of keys", ""), p.scaleTable("keys", "Keys")}},
	}
	var out []chapter
	for _, c := range all {
		c.tables = slices.DeleteFunc(c.tables, func(t *table) bool { return t == nil || len(t.rows) == 0 })
		if len(c.tables) > 0 {
			out = append(out, c)
		}
	}
	return out
}

// pairsTable shows the first section that measured ring pairs.
func (p *Paper) pairsTable() *table { return pairTable(p.section("throughput")) }
