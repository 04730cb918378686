package bench

import (
	"fmt"
	"slices"

	"github.com/causalstore/causalstore/lab/chart"
)

func barOf(s summary, scale float64) chart.Bar {
	b := chart.Bar{Value: scale * s.Mean}
	if s.Rounds > 1 {
		b.Low, b.High = scale*max(0, s.Mean-s.Deviation), scale*(s.Mean+s.Deviation)
	}
	return b
}

// shareBar is a bar in percent.
func shareBar(s summary) chart.Bar {
	b := barOf(s, 100)
	b.High = min(b.High, 100)
	return b
}

// groupedBars draws one group per label and one bar per scheme.
func groupedBars(cells []*Cell, b chart.Bars, value func(*Cell) chart.Bar) []byte {
	b.Groups = labelsOf(cells)
	for _, s := range schemesOf(cells) {
		series := chart.BarSeries{Name: s}
		for _, label := range b.Groups {
			bar := chart.Bar{}
			if i := slices.IndexFunc(cells, func(c *Cell) bool { return c.Scheme == s && c.Label == label }); i >= 0 {
				bar = value(cells[i])
			}
			series.Bars = append(series.Bars, bar)
		}
		b.Series = append(b.Series, series)
	}
	return b.SVG()
}

// schemeBars draws one bar per scheme.
func schemeBars(cells []*Cell, b chart.Bars, value func(*Cell) chart.Bar) []byte {
	series := chart.BarSeries{}
	for _, c := range cells {
		b.Groups = append(b.Groups, c.Scheme)
		series.Bars = append(series.Bars, value(c))
	}
	b.Series = []chart.BarSeries{series}
	return b.SVG()
}

func throughputBar(c *Cell) chart.Bar { return barOf(c.Throughput, 1) }

// throughputFigures are Figure 6 and its background.
func (p *Paper) throughputFigures() []figure {
	cells := p.section("throughput")
	if len(cells) == 0 {
		return nil
	}
	figures := []figure{
		{name: "throughput", title: "Throughput", spread: deviations, svg: schemeBars(cells, chart.Bars{
			Title: "Throughput, " + cells[0].Label + " (Figure 6a)", Y: chart.Axis{Label: "operations a " +
				"second"}, Format: "%.0f"}, throughputBar)},
		{name: "latency", title: "Read latency", spread: deviations, svg: schemeBars(cells, chart.Bars{
			Title: "Mean read latency, " + cells[0].Label + " (Figure " +
				"6b)", Y: chart.Axis{Label: "ms"}, Format: "%.1f"}, func(c *Cell) chart.Bar {
			return barOf(c.GetMeanMs,
				1)
		})},
	}
	line := chart.Line{Title: "Distribution of read latency, " + cells[0].Label, X: chart.Axis{Label: "ms", Log: true},
		Y: chart.Axis{Label: "% of reads", Min: 0, Max: 100}, NoMarkers: true}
	sources := chart.Bars{Title: "Where reads were answered, " + cells[0].Label,
		Y: chart.Axis{Label: "% of reads", Min: 0,
			Max: 100}, Groups: schemesOf(cells)}
	for _, name := range []string{"own writes", "near copies", "home", "cache", "own shard", "other data center"} {
		sources.Series = append(sources.Series, chart.BarSeries{Name: name})
	}
	for _, c := range cells {
		s := chart.Series{Name: c.Scheme}
		for _, point := range c.GetCurve {
			s.Points = append(s.Points, chart.Point{X: point.Ms, Y: point.Percent})
		}
		line.Series = append(line.Series, s)
		for i, share := range []float64{c.Own, c.Copies, c.Home, c.Cache, c.Local, c.Remote} {
			sources.Series[i].Bars = append(sources.Series[i].Bars, chart.Bar{Value: 100 * share})
		}
	}
	return append(figures,
		figure{name: "latency-distribution", title: "Distribution of read latency", spread: "all rounds together",
			svg: line.SVG()},
		figure{name: "sources", title: "Where reads were answered", spread: "all rounds together", svg: sources.SVG()},
		figure{name: "throughput-by-data-center", title: "Throughput by data center", spread: deviations,
			svg: p.sitePlot(cells)})
}

// sitePlot compares every scheme with COPS-PR in each data center.
func (p *Paper) sitePlot(cells []*Cell) []byte {
	b := chart.Bars{Title: "Throughput over COPS-PR by the clients of each data center", Y: chart.Axis{Label: "ratio"},
		Width: 1000}
	sites := p.siteTable(cells)
	for _, row := range sites.rows {
		b.Groups = append(b.Groups, row[0])
	}
	for _, c := range cells {
		if c.Scheme == copsPR.Name {
			continue
		}
		ratios := perDC(c, p.cell(c.Section, copsPR.Name, c.Label))
		s := chart.BarSeries{Name: c.Scheme}
		for _, dc := range b.Groups {
			s.Bars = append(s.Bars, barOf(ratios[dc], 1))
		}
		b.Series = append(b.Series, s)
	}
	return b.SVG()
}

// pairFigures show how long writes take to become visible.
func (p *Paper) pairFigures() []figure {
	var cells []*Cell
	for _, c := range p.section("throughput") {
		if c.Scheme == causalStore.Name || c.Scheme == karma.Name {
			cells = append(cells, c)
		}
	}
	if len(cells) == 0 {
		return nil
	}
	b := chart.Bars{Title: "Median time until a write is visible, from ring to ring", Y: chart.Axis{Label: "ms"},
		Format: "%.0f",
		Width:  1000}
	for _, pair := range cells[0].Pairs {
		b.Groups = append(b.Groups, pair.From+" to "+pair.To)
	}
	for _, c := range cells {
		s := chart.BarSeries{Name: c.Scheme}
		for _, pair := range c.Pairs {
			s.Bars = append(s.Bars, chart.Bar{Value: pair.Visible.P50Ms})
		}
		b.Series = append(b.Series, s)
	}
	return []figure{{name: "visibility", title: "Time until a write is visible", spread: "all rounds together",
		svg: b.SVG()}}
}

// sweepFigures draw throughput over the varied quantity.
func (p *Paper) sweepFigures(section, name, title, axis string) []figure {
	cells := p.section(section)
	if len(cells) == 0 {
		return nil
	}
	return []figure{{name: name, title: title, spread: deviations, svg: groupedBars(cells, chart.Bars{
		Title: title, XLabel: axis, Y: chart.Axis{Label: "operations per second"}, Format: "%.0f"}, throughputBar)}}
}

// loadFigures are Figures 10 and 11, and the saturation of the schemes.
func (p *Paper) loadFigures() []figure {
	var figures []figure
	if len(p.Saturation) > 0 {
		line := chart.Line{Title: "Throughput by clients, " + mixName(p.ReadRatio),
			X: chart.Axis{Label: "clients", Log: true},
			Y: chart.Axis{Label: "operations per second"}}
		for _, s := range p.Saturation {
			series := chart.Series{Name: s.Scheme}
			for _, step := range s.Steps {
				series.Points = append(series.Points, chart.Point{X: float64(step.Clients), Y: step.Throughput})
			}
			line.Series = append(line.Series, series)
		}
		figures = append(figures, figure{name: "saturation", title: "Throughput by clients", spread: single,
			svg: line.SVG()})
	}
	for _, s := range loadSchemes {
		cells := p.cells("load", s.Name)
		if len(cells) == 0 {
			continue
		}
		file := folder(s.Name)
		figures = append(figures,
			figure{name: "drr-" + file, title: "Reads under DRR, " + s.Name, spread: deviations,
				svg: loadPlot(cells, fmt.Sprintf("Reads under dynamic ring restriction, %s (Figure 10)", s.Name),
					func(c *Cell) summary { return c.Bound })},
			figure{name: "local-" + file, title: "Reads answered in the data center, " + s.Name, spread: deviations,
				svg: loadPlot(cells, fmt.Sprintf("Reads answered in the data center, %s (Figure 11)", s.Name),
					func(c *Cell) summary { return c.Near })})
	}
	return figures
}

// loadPlot has a group per mix and a bar per load, smallest first, as in the paper.
func loadPlot(cells []*Cell, title string, value func(*Cell) summary) []byte {
	b := chart.Bars{Title: title, XLabel: "reads-writes", Y: chart.Axis{Label: "% of reads", Min: 0, Max: 100},
		Format: "%.1f"}
	b.Groups = distinct(cells, func(c *Cell) string { return mixName(c.ReadRatio) })
	for i := len(loads) - 1; i >= 0; i-- {
		s := chart.BarSeries{Name: fmt.Sprintf("%.0f %% load", 100*loads[i])}
		for _, mix := range b.Groups {
			for _, c := range cells {
				if c.Load == loads[i] && mixName(c.ReadRatio) == mix {
					s.Bars = append(s.Bars, shareBar(value(c)))
				}
			}
		}
		b.Series = append(b.Series, s)
	}
	return b.SVG()
}

func (p *Paper) ablationFigures() []figure {
	cells := p.section("ablation")
	if len(cells) == 0 {
		return nil
	}
	return []figure{
		{name: "ablation-latency", title: "Read latency without each improvement", spread: deviations,
			svg: schemeBars(cells,
				chart.Bars{
					Title: "Mean read latency without each improvement, " +
						cells[0].Label, Y: chart.Axis{Label: "ms"}, Format: "%.1f"}, func(c *Cell) chart.Bar {
					return barOf(c.GetMeanMs, 1)
				})},
		{name: "ablation-drr", title: "Reads under DRR without each improvement", spread: deviations,
			svg: schemeBars(cells, chart.Bars{
				Title: "Reads under DRR without each improvement, " + cells[0].Label,
				Y: chart.Axis{Label: "% of reads", Min: 0,
					Max: 100}, Format: "%.1f"}, func(c *Cell) chart.Bar { return shareBar(c.Bound) })},
	}
}
