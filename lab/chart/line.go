package chart

import (
	"fmt"
	"strings"
)

// SVG draws the chart.
func (l Line) SVG() []byte {
	f := newFrame(l.Width, l.Height)
	f.key = func(i int, x, y float64) {
		f.element("path", `d="M%.1f %.1fh%d" stroke="%s" stroke-width="2.2" stroke-dasharray="%s" fill="none"`, x,
			y, keyWidth,
			colour(i), l.dash(i))
		if !l.NoMarkers {
			f.marker(i, x+keyWidth/2, y)
		}
	}
	names := make([]string, len(l.Series))
	var xs, ys span
	for i, s := range l.Series {
		names[i] = s.Name
		for _, p := range s.Points {
			xs.add(p.X, l.X.Log)
			ys.add(p.Y, l.Y.Log)
		}
	}
	f.x, f.y = l.X.scaleOf(xs, false), l.Y.scaleOf(ys, true)
	f.head(l.Title, names)
	bottom := f.height - margin - tickSize - 12
	if l.X.Label != "" {
		bottom -= labelSize * 1.5
	}
	f.axisY(l.Y, bottom)
	f.axisX(l.X)
	for _, b := range l.Bands {
		f.band(b)
	}
	for i, s := range l.Series {
		l.draw(f, i, s)
	}
	f.border(f.bottom)
	if !xs.any || !ys.any {
		f.noData()
	}
	return f.finish()
}

// dash distinguishes lines without colors; where markers are drawn, they do that.
func (l Line) dash(i int) string {
	if l.NoMarkers {
		return dashes[i%len(dashes)]
	}
	return dashes[i/4%len(dashes)]
}

func (f *frame) band(b Band) {
	if !f.x.drawable(b.From) || !f.x.drawable(b.To) || b.To <= b.From {
		return
	}
	from, to := f.x.at(b.From), f.x.at(b.To)
	f.element("rect", `x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="#000000" fill-opacity="0.07"`, from,
		f.top, to-from,
		f.bottom-f.top)
	// keep the label inside the plot even if its band is narrow and at the edge
	half := textWidth(b.Label, tickSize) / 2
	f.text(min(max((from+to)/2, f.left+half+4), f.right-half), f.top+tickSize+3, tickSize, "middle", "", b.Label)
}

// draw draws a series: its line, with a gap at every point that cannot be drawn, and its markers.
func (l Line) draw(f *frame, i int, s Series) {
	var path strings.Builder
	pen := "M"
	for _, p := range s.Points {
		if !f.x.drawable(p.X) || !f.y.drawable(p.Y) {
			pen = "M"
			continue
		}
		fmt.Fprintf(&path, "%s%.1f %.1f", pen, f.x.at(p.X), f.y.at(p.Y))
		pen = "L"
	}
	if path.Len() == 0 {
		return
	}
	f.element("path", `d="%s" stroke="%s" stroke-width="2.2" stroke-linejoin="round" stroke-dasharray="%s" fill="none"`,
		path.String(), colour(i), l.dash(i))
	for _, p := range s.Points {
		if !l.NoMarkers && f.x.drawable(p.X) && f.y.drawable(p.Y) {
			f.marker(i, f.x.at(p.X), f.y.at(p.Y))
		}
	}
}
