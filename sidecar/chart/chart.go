// Package chart draws line charts and bar charts as SVG, on its own: no fonts, scripts or libraries are needed.
//
//	svg := chart.Line{
//		Title: "Read latency", X: chart.Axis{Label: "put share (%)"}, Y: chart.Axis{Label: "ms", Log: true},
//		Series: []chart.Series{{Name: "Karma", Points: []chart.Point{{X: 5, Y: 12, Low: 10, High: 15}}}},
//	}.SVG()
//
// A Line with error bars, steps (CDF) or bands (what happened when) serves for measurements over a parameter, for
// distributions and for time series; Bars are grouped. Colours can be told apart by colour-blind readers, and lines differ
// in markers and dashes as well. The same chart always gives the same bytes.
//
// Values that are not finite, and values of 0 or less on a logarithmic axis, cannot be drawn: a line has a gap there, and a
// bar is left out.
package chart

import (
	"math"
	"slices"
)

// Axis is one side of a chart.
type Axis struct {
	// Label says what is shown, and its unit: "read latency (ms)".
	Label string
	// Log makes the axis logarithmic.
	Log bool
	// Min and Max fix the range if Max > Min; what is beyond it is drawn at its edge. Otherwise it is that of the data; a
	// linear Y axis then has 0 in it, too.
	Min, Max float64
}

// Point is one value. Low and High are the ends of its error bar; there is none if both are 0.
type Point struct {
	X, Y      float64
	Low, High float64
}

func (p Point) hasError() bool { return p.Low != 0 || p.High != 0 }

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

// Line is a chart of lines. Points are joined in the order given.
type Line struct {
	Title  string
	X, Y   Axis
	Series []Series
	// Step draws stairs instead of slopes, as distributions need.
	Step bool
	// NoMarkers leaves out the dots on the points, for lines of many points.
	NoMarkers bool
	Bands     []Band
	// Width and Height are in pixels; 0 stands for 760 and 440.
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

// Bars is a chart of grouped bars. Bars[i] of every series stands in Groups[i].
type Bars struct {
	Title string
	// XLabel says what the groups are.
	XLabel string
	Y      Axis
	Groups []string
	Series []BarSeries
	// Format is how values are written above the bars, such as "%.1f"; "" leaves them out.
	Format string
	// Width and Height are in pixels; 0 stands for 760 and 440.
	Width, Height int
}

// CDF returns the distribution of values, for a Line with Step: the share of values, in percent, that are at most X.
func CDF(name string, values []float64) Series {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	s := Series{Name: name}
	if len(sorted) > 0 {
		s.Points = append(s.Points, Point{X: sorted[0]})
	}
	for i, v := range sorted {
		if i+1 < len(sorted) && sorted[i+1] == v {
			continue // the last of equal values has the height of the stair
		}
		s.Points = append(s.Points, Point{X: v, Y: 100 * float64(i+1) / float64(len(sorted))})
	}
	return s
}

// palette is that of Okabe and Ito, without the yellow that is hard to see on white.
var palette = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"}

var dashes = []string{"", "7 3", "2 3", "9 3 2 3"}

func colour(i int) string { return palette[i%len(palette)] }

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
