package chart

import "fmt"

// SVG draws the chart.
func (b Bars) SVG() []byte {
	f := newFrame(b.Width, b.Height)
	f.key = func(i int, x, y float64) {
		f.element("rect", `x="%.1f" y="%.1f" width="%d" height="12" fill="%s"`, x, y-6, keyWidth, colour(i))
	}
	names := make([]string, len(b.Series))
	var ys span
	for i, s := range b.Series {
		names[i] = s.Name
		for _, bar := range s.Bars[:min(len(s.Bars), len(b.Groups))] {
			ys.add(bar.Value, b.Y.Log)
			if bar.hasError() {
				ys.add(bar.Low, b.Y.Log)
				ys.add(bar.High, b.Y.Log)
			}
		}
	}
	f.y = b.Y.scaleOf(ys, true)
	if b.Y.Log && ys.lo == f.y.lo {
		f.y.lo /= 10 // keep the smallest bar visible
	}
	f.head(b.Title, names)
	if b.Format != "" {
		f.top += tickSize // room for the values above the bars
	}
	// The number of lines for group names depends on the width of the plot, which the labels of the Y axis determine.
	// They are hardly wider than this.
	slot := (f.right - 90) / float64(max(1, len(b.Groups)))
	lines := 1
	for _, g := range b.Groups {
		lines = max(lines, len(wrap(g, tickSize, slot-6)))
	}
	bottom := f.height - margin - float64(lines)*tickSize*lineSpace - 8
	if b.XLabel != "" {
		bottom -= labelSize * 1.5
	}
	f.axisY(b.Y, bottom)
	f.text((f.left+f.right)/2, f.height-margin+2, labelSize, "middle", "", b.XLabel)
	b.draw(f, slot)
	foot := b.foot(f)
	f.border(foot)
	if !ys.any {
		f.noData()
	}
	return f.finish()
}

// foot is the position of the bottom of the bars.
func (b Bars) foot(f *frame) float64 {
	if b.Y.Log || f.y.lo > 0 {
		return f.bottom
	}
	return f.y.at(0)
}

func (b Bars) draw(f *frame, nameWidth float64) {
	slot := (f.right - f.left) / float64(max(1, len(b.Groups)))
	width := min(slot*0.78/float64(max(1, len(b.Series))), 90)
	foot := b.foot(f)
	for g, name := range b.Groups {
		center := f.left + (float64(g)+0.5)*slot
		for i, line := range wrap(name, tickSize, nameWidth-6) {
			f.text(center, f.bottom+8+tickSize+float64(i)*tickSize*lineSpace, tickSize, "middle", "", line)
		}
		for i, s := range b.Series {
			if g < len(s.Bars) && f.y.drawable(s.Bars[g].Value) {
				b.bar(f, i, s.Bars[g], center+(float64(i)-float64(len(b.Series))/2)*width, width, foot)
			}
		}
	}
}

func (b Bars) bar(f *frame, i int, bar Bar, x, width, foot float64) {
	end := f.y.at(bar.Value)
	f.element("rect", `x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"`, x+1, min(end, foot), max(width-2, 0.5),
		max(end-foot, foot-end), colour(i))
	above := min(end, foot)
	if bar.hasError() && f.y.drawable(bar.Low) && f.y.drawable(bar.High) {
		f.errorBar(x+width/2, f.y.at(bar.Low), f.y.at(bar.High), "#222222")
		above = min(above, f.y.at(bar.High))
	}
	if b.Format == "" {
		return
	}
	label := fmt.Sprintf(b.Format, bar.Value)
	if textWidth(label, tickSize-1) <= width+4 { // a wider label would overlap that of the next bar
		f.text(x+width/2, above-4, tickSize-1, "middle", "", label)
	}
}
