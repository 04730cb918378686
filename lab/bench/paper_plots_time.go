package bench

import (
	"fmt"
	"math"
	"slices"

	"github.com/causalstore/causalstore/lab/chart"
)

// congestionFigures are Figure 7 (the longest delay) and Figure 8 (all delays).
func (p *Paper) congestionFigures() []figure {
	most := 0
	for _, c := range p.Congestion {
		most = max(most, c.AddMs)
	}
	if most == 0 {
		return nil
	}
	title := func(what string) string {
		return fmt.Sprintf("%s, %s +%d ms each way", what, p.Congestion[0].DC, most)
	}
	rate := chart.Line{Title: title("Throughput") + " (Figure 7)", X: chart.Axis{Label: "seconds"},
		Y: chart.Axis{Label: "by that before"}, NoMarkers: true}
	wait := chart.Line{Title: title("Mean read latency") + " (Figure 7)", X: chart.Axis{Label: "seconds"},
		Y: chart.Axis{Label: "ms"}, NoMarkers: true}
	for _, c := range p.Congestion {
		if c.AddMs != most {
			continue
		}
		if rate.Bands == nil {
			rate.Bands = []chart.Band{{Label: fmt.Sprintf("+%d ms", most), From: c.From, To: c.To}}
			wait.Bands = rate.Bands
		}
		rate.Series = append(rate.Series, c.series(func(t SeriesTick) float64 {
			return t.Throughput / max(c.usual(), 1e-9)
		}))
		wait.Series = append(wait.Series, c.series(func(t SeriesTick) float64 { return t.GetMeanMs }))
	}
	figures := []figure{
		{name: "congestion-throughput", title: "Throughput under congestion", spread: single + ", second by second",
			svg: rate.SVG()},
		{name: "congestion-latency", title: "Read latency under congestion", spread: single + ", second by second",
			svg: wait.SVG()},
	}
	if delays := p.delays(); len(delays) > 1 {
		figures = append(figures, p.delayFigures(delays)...)
	}
	return figures
}

// usual is the throughput before the congestion.
func (c *Congestion) usual() float64 {
	var rates []float64
	for _, t := range c.Series {
		if t.Second < c.From {
			rates = append(rates, t.Throughput)
		}
	}
	return summaryOf(rates).Mean
}

func (c *Congestion) series(value func(SeriesTick) float64) chart.Series {
	s := chart.Series{Name: c.Scheme}
	for _, t := range c.Series {
		s.Points = append(s.Points, chart.Point{X: t.Second, Y: value(t)})
	}
	return s
}

func (p *Paper) delays() (out []int) {
	for _, c := range p.Congestion {
		if !slices.Contains(out, c.AddMs) {
			out = append(out, c.AddMs)
		}
	}
	return out
}

// delayFigures are Figure 8: the lost throughput by delay.
func (p *Paper) delayFigures(delays []int) []figure {
	rate := chart.Bars{Title: "Throughput lost under congestion (Figure 8a)", XLabel: "added each way",
		Y: chart.Axis{Label: "% less than before"}, Format: "%.0f"}
	wait := chart.Bars{Title: "Read latency added under congestion (Figure 8b)", XLabel: "added each way",
		Y: chart.Axis{Label: "% more than before"}, Format: "%.0f"}
	for _, ms := range delays {
		rate.Groups = append(rate.Groups, fmt.Sprintf("%d ms", ms))
	}
	wait.Groups = rate.Groups
	for _, s := range congestSchemes {
		lost, added := chart.BarSeries{Name: s.Name}, chart.BarSeries{Name: s.Name}
		for _, c := range p.Congestion {
			if c.Scheme == s.Name {
				lost100, spread := 100*(1-c.Kept.Mean), 100*c.Kept.Deviation
				less := chart.Bar{Value: whole(lost100), Low: lost100 - spread, High: lost100 + spread}
				lost.Bars = append(lost.Bars, less)
				added.Bars = append(added.Bars,
					chart.Bar{Value: whole(100 * (c.GetDuringMs/max(c.GetBeforeMs, 1e-9) - 1))})
			}
		}
		rate.Series, wait.Series = append(rate.Series, lost), append(wait.Series, added)
	}
	return []figure{
		{name: "congestion-throughput-lost", title: "Throughput lost under congestion",
			spread: "bars: standard deviation from second to second", svg: rate.SVG()},
		{name: "congestion-latency-added", title: "Read latency added under congestion", spread: single,
			svg: wait.SVG()},
	}
}

// whole rounds to an integer without a negative zero.
func whole(v float64) float64 { return math.Round(v) + 0 }

// burstFigures compare a burst with a single put.
func (p *Paper) burstFigures() []figure {
	if len(p.Bursts) == 0 {
		return nil
	}
	b := chart.Bars{Title: fmt.Sprintf("Time until visible in every ring: one put, and %d dependent ones",
		p.Bursts[0].Puts),
		Y: chart.Axis{Label: "ms", Log: true}, Format: "%.0f",
		Series: []chart.BarSeries{{Name: "one put"}, {Name: fmt.Sprintf("%d puts", p.Bursts[0].Puts)}}}
	for _, burst := range p.Bursts {
		b.Groups = append(b.Groups, burst.Scheme)
		b.Series[0].Bars = append(b.Series[0].Bars, barOf(burst.SingleVisibleMs, 1))
		b.Series[1].Bars = append(b.Series[1].Bars, barOf(burst.VisibleMs, 1))
	}
	return []figure{{name: "burst", title: "A burst of dependent puts", spread: deviations, svg: b.SVG()}}
}
