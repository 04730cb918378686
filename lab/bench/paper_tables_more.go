package bench

import (
	"fmt"
	"slices"
)

// saturationTable shows where more clients stop helping, beside the paper's numbers for its 64 machines.
func (p *Paper) saturationTable() *table {
	if len(p.Saturation) == 0 {
		return nil
	}
	t := &table{title: "Saturation",
		head: []string{"Scheme", "Clients", "Operations/s", "Operations/s at saturation", "Cores",
			"Paper's clients"},
		note: "The number of clients beyond which more clients gain little, and the rounds with that number."}
	paper := map[string]string{copsIdeal.Name: "600", karma.Name: "1050", karmaNC.Name: "1200", copsPR.Name: "1200"}
	for _, s := range p.Saturation {
		i := slices.IndexFunc(s.Steps, func(step SaturationStep) bool { return step.Clients == s.Clients })
		clients, found := fmt.Sprint(s.Clients), ""
		if s.Bounded {
			clients += " (the most tried)"
		}
		if i >= 0 {
			found = fmt.Sprintf("%.0f", s.Steps[i].Throughput)
		}
		cores := "-"
		c := p.cell("load", s.Scheme, loadName(p.ReadRatio, 1))
		if c != nil {
			cores = c.Cores.text("%.2f")
		}
		t.add(s.Scheme, clients, found, c.throughput(), cores, paper[s.Scheme])
	}
	return t
}

// loadTable is Figures 10 and 11.
func (p *Paper) loadTable() *table {
	var cells []*Cell
	for _, s := range loadSchemes {
		cells = append(cells, p.cells("load", s.Name)...)
	}
	if len(cells) == 0 {
		return nil
	}
	t := &table{title: "Load, ring restriction and local reads",
		head: []string{"Mix and load", "Scheme", "Operations/s",
			"Reads under DRR", "DRR ms at a time", "In the data center", "Own writes",
			"Cache", "Own shard", "Read mean ms"},
		note: "Shares of the load that saturates a scheme. The paper: less than 2 % under " +
			"DRR at 95-5, and less than 70 % at 50-50 and full load."}
	for _, label := range labelsOf(cells) {
		for _, c := range cells {
			if c.Label == label {
				t.add(label, c.Scheme, c.throughput(), c.Bound.percents(), c.boundText(), c.Near.percents(),
					percent(c.Own),
					percent(c.Cache), percent(c.Local), c.GetMeanMs.text("%.1f"))
			}
		}
	}
	return t
}

// ablationTable disables one improvement at a time.
func (p *Paper) ablationTable() *table {
	cells := p.section("ablation")
	if len(cells) == 0 {
		return nil
	}
	t := &table{title: "Each improvement off",
		head: []string{"Scheme", "Operations/s", "Over CausalStore", "Geometric mean",
			"Read mean ms", "Reads under DRR", "DRR ms at a time", "In the data center",
			"Complete p50 ms", "p99", "WAN messages"},
		note: fmt.Sprintf("%s. The geometric mean is that of the ratios to CausalStore "+
			"in each data center; times until a put is complete are those of the ring with the most puts.",
			cells[0].Label)}
	for _, c := range cells {
		base := p.cell("ablation", causalStore.Name, c.Label)
		most := c.mostComplete()
		t.add(c.Scheme, c.throughput(), against(c, base).text("%.2f"), ratioText(byDataCenter(c, base)),
			c.GetMeanMs.text("%.1f"),
			c.Bound.percents(), c.boundText(), c.Near.percents(),
			ms(most.P50Ms), ms(most.P99Ms), fmt.Sprintf("%.2f", c.WANMessages))
	}
	return t
}

// mostComplete returns the completion times of the ring with the most writes.
func (c *Cell) mostComplete() (most Times) {
	for _, r := range c.Complete {
		if r.Complete.Count > most.Count {
			most = r.Complete
		}
	}
	return most
}

// congestionTable is Figure 8.
func (p *Paper) congestionTable() *table {
	if len(p.Congestion) == 0 {
		return nil
	}
	t := &table{title: "Congestion of " + p.Congestion[0].DC,
		head: []string{"Added each way", "Scheme", "For", "Throughput kept",
			"Geometric mean", "Least kept in", "Read before ms", "during ms", "Failed"},
		note: "Throughput during the congestion by that before it, with the deviation from second to second; its " +
			"geometric mean " +
			"over the data centers; and where least was kept. " +
			"One run each, all schemes at the same time. In the paper Karma-NC keeps more than COPS-PR at every delay."}
	for _, c := range p.Congestion {
		least, where := 0.0, "-"
		for dc, kept := range c.KeptPerDC {
			if where == "-" || kept < least || kept == least && dc < where {
				least, where = kept, dc
			}
		}
		t.add(fmt.Sprintf("%d ms", c.AddMs), c.Scheme, fmt.Sprintf("%.0f s", c.To-c.From), c.Kept.percents(),
			percent(c.KeptMean),
			fmt.Sprintf("%s: %s", where, percent(least)),
			ms(c.GetBeforeMs), ms(c.GetDuringMs), fmt.Sprint(c.Failed))
	}
	return t
}

// burstTable is about dependent puts.
func (p *Paper) burstTable() *table {
	if len(p.Bursts) == 0 {
		return nil
	}
	b := p.Bursts[0]
	t := &table{title: fmt.Sprintf("A burst of %d dependent puts", b.Puts),
		head: []string{"Scheme", "One put visible ms",
			"complete ms", "Burst visible ms", "complete ms", "Burst by one", "Accepted/s",
			"Complete/s"},
		note: fmt.Sprintf("One session in %s, each put sent after the one before was acknowledged. Visible: "+
			"clients in every ring have read it, looking every %d ms. "+
			"The paper's scheme needs a round trip for each.", b.DC, pollEvery.Milliseconds())}
	for _, b := range p.Bursts {
		visible := b.VisibleMs.text("%.0f")
		if b.Unfinished {
			visible = fmt.Sprintf("not within %.0f", burstWait.Seconds()*1e3)
		}
		t.add(b.Scheme, b.SingleVisibleMs.text("%.0f"), b.SingleCompleteMs.text("%.0f"), visible,
			b.CompleteMs.text("%.0f"),
			ratioText(b.Ratio),
			b.AcceptedPerSecond.text("%.0f"), b.CompletedPerSecond.text("%.0f"))
	}
	return t
}

// scaleTable adds to a sweep what grows with the size of a deployment.
func (p *Paper) scaleTable(name, axis string) *table {
	cells := p.section(name)
	if len(cells) == 0 {
		return nil
	}
	t := &table{title: axis + ": what an operation costs", head: []string{axis, "Scheme", "In the data center", "Cache",
		"Reads under DRR", "WAN messages", "WAN bytes", "of them metadata", "Cores per 1,000/s", "Resident MiB"}}
	for _, c := range cells {
		t.add(c.Label, c.Scheme, c.Near.percents(), percent(c.Cache), c.Bound.percents(),
			fmt.Sprintf("%.2f", c.WANMessages),
			fmt.Sprintf("%.0f", c.WANBytes),
			fmt.Sprintf("%.0f", c.WANMetadataBytes), fmt.Sprintf("%.3f", c.CoresPerK),
			fmt.Sprintf("%.0f", c.ResidentMiB.Mean))
	}
	return t
}
