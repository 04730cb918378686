// Package chart draws line charts and bar charts as SVG. It needs no fonts, scripts or libraries.
//
//	svg := chart.Line{
//		Title: "Read latency", X: chart.Axis{Label: "put share (%)"}, Y: chart.Axis{Label: "ms", Log: true},
//		Series: []chart.Series{{Name: "Karma", Points: []chart.Point{{X: 5, Y: 12}}}},
//	}.SVG()
//
// A Line serves measurements over a parameter, distributions and, with bands (what happened when), time series. Bars
// are grouped and have error bars. Color-blind readers can tell the colors apart, and lines also differ in markers
// and dashes. The same chart always produces the same bytes.
//
// Values that are not finite, and values of 0 or less on a logarithmic axis, cannot be drawn: they leave a gap in a
// line, and omit a bar.
package chart

import "math"

// Axis is one side of a chart.
type Axis struct {
	// Label names the quantity and its unit: "read latency (ms)".
	Label string
	// Log makes the axis logarithmic.
	Log bool
	// Min and Max fix the range if Max > Min; values beyond it are drawn at its edge. Otherwise the range is that of
	// the data, and a linear Y axis includes 0.
	Min, Max float64
}

// Point is one value.
type Point struct{ X, Y float64 }

// Series is one line.
type Series struct {
	Name   string
	Points []Point
}

// Band marks a stretch of the X axis, such as the time of a fault.
type Band struct {
	Label    string
	From, To float64
}

// Line is a line chart. Points are joined in the given order.
type Line struct {
	Title  string
	X, Y   Axis
	Series []Series
	// NoMarkers omits the markers of points, for lines with many points.
	NoMarkers bool
	Bands     []Band
	// Width and Height are in pixels; 0 means 760 and 440.
	Width, Height int
}

// Bar is one bar. Low and High are the ends of its error bar; there is none if both are 0.
type Bar struct {
	Value     float64
	Low, High float64
}

func (b Bar) hasError() bool { return b.Low != 0 || b.High != 0 }

// BarSeries is one bar of each group.
type BarSeries struct {
	Name string
	Bars []Bar
}

// Bars is a chart of grouped bars. Bars[i] of every series belongs to Groups[i].
type Bars struct {
	Title string
	// XLabel names what the groups are.
	XLabel string
	Y      Axis
	Groups []string
	Series []BarSeries
	// Format formats the values above the bars, such as "%.1f"; "" omits them.
	Format string
	// Width and Height are in pixels; 0 means 760 and 440.
	Width, Height int
}

// palette is that of Okabe and Ito, without yellow, which is hard to see on white.
var palette = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"}

var dashes = []string{"", "7 3", "2 3", "9 3 2 3"}

func colour(i int) string { return palette[i%len(palette)] }

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
