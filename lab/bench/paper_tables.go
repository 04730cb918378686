package bench

import (
	"fmt"
	"maps"
	"slices"
)

// The tables, in reading order. The table of a section that was not measured is nil or empty.

func (p *Paper) throughputTables() []*table {
	cells := p.section("throughput")
	if len(cells) == 0 {
		return nil
	}
	t := &table{title: "Throughput and latency",
		head: []string{"Scheme", "Operations/s", "Over COPS-PR", "Geometric mean",
			"Read mean ms", "p50", "p90", "p99", "p99.9",
			"Write p50 ms", "p99", "Failed"},
		note: fmt.Sprintf("%s, %d clients each. Operations per second of all clients, mean and "+
			"standard deviation; the geometric mean is that of the "+
			"ratios to COPS-PR in each data center.", cells[0].Label, cells[0].Clients)}
	for _, c := range cells {
		base := p.cell("throughput", copsPR.Name, c.Label)
		t.add(c.Scheme, c.Throughput.text("%.0f"), against(c, base).text("%.2f"), ratioText(byDataCenter(c, base)),
			c.GetMeanMs.text("%.1f"), ms(c.Get.P50Ms), ms(c.Get.P90Ms),
			ms(c.Get.P99Ms), ms(c.Get.P999Ms), ms(c.Put.P50Ms), ms(c.Put.P99Ms), fmt.Sprint(c.Failed))
	}
	return []*table{t, p.siteTable(cells), readTable(cells), costTable(cells)}
}

func ratioText(v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", v)
}

// siteTable compares the clients of each data center.
func (p *Paper) siteTable(cells []*Cell) *table {
	t := &table{title: "Throughput over COPS-PR, by data center", head: []string{"Clients of"},
		note: "Operations per second of the clients of a data center by those " +
			"with COPS-PR. Where a data center holds everything, its clients never wait, and make up most of the sum."}
	for _, c := range cells {
		t.head = append(t.head, c.Scheme)
	}
	for _, dc := range slices.Sorted(maps.Keys(cells[0].PerDC)) {
		row := []string{dc}
		for _, c := range cells {
			row = append(row, perDC(c, p.cell(c.Section, copsPR.Name, c.Label))[dc].text("%.2f"))
		}
		t.rows = append(t.rows, row)
	}
	return t
}

// readTable shows where reads were answered.
func readTable(cells []*Cell) *table {
	t := &table{title: "Where reads were answered",
		head: []string{"Scheme", "In the data center", "Own writes", "Near copies", "Home", "Cache",
			"Own shard", "Other data center", "Under DRR", "DRR ms at a time",
			"In-flight versions"},
		note: "Shares of reads. A session under dynamic ring restriction (DRR) has read a version that " +
			"is not in every ring yet, and passes caches by. With static " +
			"binding it never switches rings anyway."}
	for _, c := range cells {
		t.add(c.Scheme, c.Near.percents(), percent(c.Own), percent(c.Copies), percent(c.Home), percent(c.Cache),
			percent(c.Local), percent(c.Remote),
			c.Bound.percents(), c.boundText(), percent(c.InFlightReads))
	}
	return t
}

// boundText is how long sessions stay restricted; some never become free during the measurement.
func (c *Cell) boundText() string {
	if c.BoundMs > boundForever {
		return "throughout"
	}
	return ms(c.BoundMs)
}

// boundForever is more milliseconds than the sessions of a round live.
const boundForever = 60_000

// costTable shows the cost of an operation.
func costTable(cells []*Cell) *table {
	t := &table{title: "What an operation costs",
		head: []string{"Scheme", "WAN messages", "WAN bytes", "of them metadata",
			"Cores", "Cores per 1,000/s", "Resident MiB", "MiB per 1,000/s"},
		note: "Between data centers, by operation: reads and writes, propagation, acknowledgements, vectors and " +
			"invalidations; " +
			"bytes as they would be encoded, about. Metadata is what is neither " +
			"key nor value. Cores are CPU time of the deployment's process by time."}
	for _, c := range cells {
		t.add(c.Scheme, fmt.Sprintf("%.2f", c.WANMessages), fmt.Sprintf("%.0f", c.WANBytes), fmt.Sprintf("%.0f",
			c.WANMetadataBytes), c.Cores.text("%.2f"), fmt.Sprintf("%.3f", c.CoresPerK),
			c.ResidentMiB.text("%.0f"), fmt.Sprintf("%.0f", c.MiBPerK))
	}
	return t
}

// pairTable shows how long writes take from ring to ring.
func pairTable(cells []*Cell) *table {
	t := &table{title: "How long writes take from ring to ring",
		head: []string{"Scheme", "From", "To", "Visible p50 ms", "p99",
			"Acknowledged p50 ms", "p99", "Complete p50 ms", "p99"},
		note: "Since a put was accepted: until readers of the ring may see it, until its coordinator knows that it " +
			"and its past " +
			"are there and out of the caches, and until that is so in all rings."}
	for _, c := range cells {
		if c.Scheme != causalStore.Name && c.Scheme != karma.Name {
			continue
		}
		complete := map[string]Times{}
		for _, r := range c.Complete {
			complete[r.Ring] = r.Complete
		}
		for _, pair := range c.Pairs {
			all := []string{"", ""}
			if pair.From == pair.To {
				all = []string{ms(complete[pair.From].P50Ms), ms(complete[pair.From].P99Ms)}
			}
			t.add(append([]string{c.Scheme, pair.From, pair.To, ms(pair.Visible.P50Ms), ms(pair.Visible.P99Ms),
				ms(pair.Acknowledged.P50Ms), ms(pair.Acknowledged.P99Ms)}, all...)...)
		}
	}
	return t
}

// sweepTable is throughput over a varied quantity.
func (p *Paper) sweepTable(name, axis, title, note string) *table {
	cells := p.section(name)
	if len(cells) == 0 {
		return nil
	}
	t := &table{title: title, note: note, head: []string{axis}}
	schemes := schemesOf(cells)
	t.head = append(t.head, schemes...)
	ratios := ratioColumns(schemes)
	for _, r := range ratios {
		t.head = append(t.head, r[0]+" / "+r[1])
	}
	for _, s := range schemes {
		t.head = append(t.head, s+", read ms")
	}
	for _, label := range labelsOf(cells) {
		row := []string{label}
		for _, s := range schemes {
			row = append(row, p.cell(name, s, label).throughput())
		}
		for _, r := range ratios {
			row = append(row, against(p.cell(name, r[0], label), p.cell(name, r[1], label)).text("%.2f"))
		}
		for _, s := range schemes {
			if c := p.cell(name, s, label); c != nil {
				row = append(row, c.GetMeanMs.text("%.1f"))
			}
		}
		t.rows = append(t.rows, row)
	}
	return t
}

func (c *Cell) throughput() string {
	if c == nil {
		return "-"
	}
	return c.Throughput.text("%.0f")
}

// ratioColumns are the comparisons that tables make.
func ratioColumns(schemes []string) (out [][2]string) {
	for _, other := range []Scheme{copsPR, copsIdeal} {
		for _, s := range []Scheme{karma, causalStore} {
			if slices.Contains(schemes, s.Name) && slices.Contains(schemes, other.Name) {
				out = append(out, [2]string{s.Name, other.Name})
			}
		}
	}
	return out
}

// section is the cells of a section.
func (p *Paper) section(name string) (out []*Cell) {
	for _, c := range p.Cells {
		if c.Section == name {
			out = append(out, c)
		}
	}
	return out
}

// schemesOf and labelsOf return the distinct schemes and labels of cells, in the order of measurement.
func schemesOf(cells []*Cell) []string {
	return distinct(cells, func(c *Cell) string { return c.Scheme })
}

func labelsOf(cells []*Cell) []string {
	return distinct(cells, func(c *Cell) string { return c.Label })
}

func distinct(cells []*Cell, f func(*Cell) string) (out []string) {
	for _, c := range cells {
		if s := f(c); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
