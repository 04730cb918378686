package chart

import "fmt"

// frame is common to all charts: title, legend, axes, and the plot between them.
type frame struct {
	*drawing
	width, height            float64
	left, right, top, bottom float64 // edges of the plot
	x, y                     scale
	// key draws the sample of the i-th series in the legend, 26 pixels wide, centered at a height.
	key func(i int, x, y float64)
}

func newFrame(width, height int) *frame {
	if width <= 0 {
		width = 760
	}
	if height <= 0 {
		height = 440
	}
	return &frame{drawing: newDrawing(width, height), width: float64(width), height: float64(height),
		right: float64(width) - 22}
}

const (
	margin    = 16
	lineSpace = 1.3 // height of a line of text, in font sizes
	keyWidth  = 26
)

// head draws title and legend and sets the top of the plot. One series needs no legend.
func (f *frame) head(title string, names []string) {
	y := float64(margin)
	for _, line := range wrap(title, titleSize, f.width-2*margin) {
		y += titleSize
		f.text(margin, y, titleSize, "start", ` font-weight="bold"`, line)
		y += titleSize * (lineSpace - 1)
	}
	if len(names) > 1 {
		x := float64(margin)
		y += 18
		for i, name := range names {
			w := keyWidth + 8 + textWidth(name, labelSize)
			if x > margin && x+w > f.width-margin {
				x = margin
				y += labelSize * 1.5
			}
			f.key(i, x, y-5)
			f.text(x+keyWidth+8, y, labelSize, "start", "", name)
			x += w + 18
		}
		y += 4
	}
	f.top = y + 14
}

// axisY reserves space for the labels on the left, and draws the horizontal lines.
func (f *frame) axisY(a Axis, bottom float64) {
	f.bottom = bottom
	f.y.from, f.y.to = f.bottom, f.top
	ticks := f.y.ticks(max(2, min(8, int((f.bottom-f.top)/36))))
	widest := 0.0
	for _, t := range ticks {
		widest = max(widest, textWidth(t.label, tickSize))
	}
	f.left = margin + widest + 10
	if a.Label != "" {
		f.left += labelSize * lineSpace
		x, y := margin+float64(labelSize)*0.8, (f.top+f.bottom)/2
		f.text(x, y, labelSize, "middle", fmt.Sprintf(` transform="rotate(-90 %.1f %.1f)"`, x, y), a.Label)
	}
	for _, t := range ticks {
		y := f.y.at(t.value)
		f.line(f.left, y, f.right, y, "#dddddd", 1)
		f.text(f.left-7, y+tickSize*0.36, tickSize, "end", "", t.label)
	}
}

// axisX draws as many numbers below the plot as fit.
func (f *frame) axisX(a Axis) {
	f.x.from, f.x.to = f.left, f.right
	ticks := f.x.ticks(10)
	for n := 9; n >= 2 && f.crowded(ticks); n-- {
		ticks = f.x.ticks(n)
	}
	for _, t := range ticks {
		x := f.x.at(t.value)
		f.line(x, f.bottom, x, f.bottom+5, "#444444", 1)
		f.text(x, f.bottom+8+tickSize, tickSize, "middle", "", t.label)
	}
	f.text((f.left+f.right)/2, f.height-margin+2, labelSize, "middle", "", a.Label)
}

func (f *frame) crowded(ticks []tick) bool {
	for i := 1; i < len(ticks); i++ {
		room := f.x.at(ticks[i].value) - f.x.at(ticks[i-1].value)
		if room < (textWidth(ticks[i].label, tickSize)+textWidth(ticks[i-1].label, tickSize))/2+8 {
			return true
		}
	}
	return false
}

// border draws the two axes over the content. The foot is the bottom of the bars: 0 if it is visible.
func (f *frame) border(foot float64) {
	f.line(f.left, f.top, f.left, f.bottom, "#444444", 1.2)
	f.line(f.left, foot, f.right, foot, "#444444", 1.2)
}

// noData prints a notice in the middle of the plot.
func (f *frame) noData() {
	f.text((f.left+f.right)/2, (f.top+f.bottom)/2, labelSize, "middle", ` fill-opacity="0.6"`, "no data")
}
