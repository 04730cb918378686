package chart

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Font sizes in pixels.
const (
	titleSize = 17
	labelSize = 14
	tickSize  = 13
)

const fontFamily = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"

// drawing is an SVG document under construction.
type drawing struct {
	bytes.Buffer
}

func newDrawing(width, height int) *drawing {
	d := &drawing{}
	fmt.Fprintf(d,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="%s">`+"\n",
		width, height, width, height, fontFamily)
	fmt.Fprintf(d, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	return d
}

func (d *drawing) finish() []byte {
	d.WriteString("</svg>\n")
	return d.Bytes()
}

// element writes an empty element with the given attributes.
func (d *drawing) element(name, format string, args ...any) {
	fmt.Fprintf(d, "<%s %s/>\n", name, fmt.Sprintf(format, args...))
}

// text writes one line of text; anchor is start, middle or end, and more holds further attributes.
func (d *drawing) text(x, y float64, size int, anchor, more, s string) {
	if s == "" {
		return
	}
	fmt.Fprintf(d, `<text x="%.1f" y="%.1f" font-size="%d" text-anchor="%s" fill="#222222"%s>`, x, y, size,
		anchor, more)
	_ = xml.EscapeText(d, []byte(s)) // a buffer never fails
	d.WriteString("</text>\n")
}

// line draws a straight line.
func (d *drawing) line(x1, y1, x2, y2 float64, stroke string, width float64) {
	d.element("line", `x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%g"`, x1, y1, x2, y2,
		stroke, width)
}

// errorBar draws a vertical bar with caps.
func (d *drawing) errorBar(x, low, high float64, stroke string) {
	d.line(x, low, x, high, stroke, 1.3)
	d.line(x-4, low, x+4, low, stroke, 1.3)
	d.line(x-4, high, x+4, high, stroke, 1.3)
}

// marker draws the i-th shape at a point.
func (d *drawing) marker(i int, x, y float64) {
	fill := colour(i)
	switch i % 4 {
	case 0:
		d.element("circle", `cx="%.1f" cy="%.1f" r="4" fill="%s"`, x, y, fill)
	case 1:
		d.element("rect", `x="%.1f" y="%.1f" width="7.4" height="7.4" fill="%s"`, x-3.7, y-3.7, fill)
	case 2:
		d.element("path", `d="M%.1f %.1fl5 8.4h-10z" fill="%s"`, x, y-5.4, fill)
	default:
		d.element("path", `d="M%.1f %.1fl5 5l-5 5l-5-5z" fill="%s"`, x, y-5, fill)
	}
}

// textWidth estimates the width of a text, with a margin for wide fonts, since the font is unknown.
func textWidth(s string, size int) float64 {
	return 0.62 * float64(size) * float64(utf8.RuneCountInString(s))
}

// wrap breaks a text at spaces, and words that are too wide at hyphens, into lines that are not wider than width,
// unless there is nowhere to break.
func wrap(s string, size int, width float64) []string {
	var lines []string
	for _, word := range strings.Fields(s) {
		last := len(lines) - 1
		if last >= 0 && textWidth(lines[last]+" "+word, size) <= width {
			lines[last] += " " + word
			continue
		}
		lines = append(lines, "")
		for _, part := range strings.SplitAfter(word, "-") {
			last := len(lines) - 1
			if lines[last] != "" && textWidth(lines[last]+part, size) > width {
				lines = append(lines, part)
				continue
			}
			lines[last] += part
		}
	}
	return lines
}
