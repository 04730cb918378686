package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// element is a tag of an SVG with its attributes and text.
type element struct {
	name string
	attr map[string]string
	text string
}

func (e element) number(name string) float64 {
	v, err := strconv.ParseFloat(e.attr[name], 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

// parse reads an SVG; anything that is not well formed is an error.
func parse(svg []byte) ([]element, error) {
	var all []element
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := element{name: token.Name.Local, attr: map[string]string{}}
			for _, a := range token.Attr {
				e.attr[a.Name.Local] = a.Value
			}
			all = append(all, e)
		case xml.CharData:
			if len(all) > 0 {
				all[len(all)-1].text += strings.TrimSpace(string(token))
			}
		}
	}
}

func elements(t *testing.T, svg []byte, name string) []element {
	t.Helper()
	all, err := parse(svg)
	if err != nil {
		t.Fatal(err)
	}
	var named []element
	for _, e := range all {
		if e.name == name {
			named = append(named, e)
		}
	}
	return named
}

func texts(t *testing.T, svg []byte) []string {
	t.Helper()
	var out []string
	for _, e := range elements(t, svg, "text") {
		out = append(out, e.text)
	}
	return out
}

// awkward draws numbers that charts meet: of any size, negative, zero, not finite.
func awkward() *rapid.Generator[float64] {
	return rapid.OneOf(rapid.Float64Range(-1e3, 1e6), rapid.Float64Range(0, 1),
		rapid.SampledFrom([]float64{0, 1, 1e9, 1e-9,
			math.NaN(), math.Inf(1), math.Inf(-1)}))
}

var word = rapid.StringMatching(`[a-z<>&"' ]{0,30}`) // without the letters of NaN and Inf, which are looked for

func TestChartsAreWellFormedAndInsideTheirFrameForAnyData(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		axis := rapid.Custom(func(t *rapid.T) Axis {
			return Axis{Label: word.Draw(t, "label"), Log: rapid.Bool().Draw(t, "log"), Min: awkward().Draw(t, "min"),
				Max: awkward().Draw(t, "max")}
		})
		points := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Point {
			return Point{X: awkward().Draw(t, "x"), Y: awkward().Draw(t, "y")}
		}), 0, 12)
		line := Line{Title: word.Draw(t, "title"), X: axis.Draw(t, "X"), Y: axis.Draw(t, "Y")}
		bars := Bars{Title: line.Title, Y: line.Y, Format: "%.3g"}
		for i := range rapid.IntRange(0, 9).Draw(t, "series") {
			s := Series{Name: fmt.Sprint("s", i), Points: points.Draw(t, "points")}
			line.Series = append(line.Series, s)
			b := BarSeries{Name: s.Name}
			for _, p := range s.Points {
				b.Bars = append(b.Bars, Bar{Value: p.Y, Low: awkward().Draw(t, "low"), High: awkward().Draw(t, "high")})
			}
			bars.Series = append(bars.Series, b)
			bars.Groups = append(bars.Groups, word.Draw(t, "group"))
		}
		for _, svg := range [][]byte{line.SVG(), bars.SVG()} {
			all, err := parse(svg)
			if err != nil {
				t.Fatalf("%v\n%s", err, svg)
			}
			if bytes.Contains(svg, []byte("NaN")) || bytes.Contains(svg, []byte("Inf")) {
				t.Fatalf("not a number:\n%s", svg)
			}
			for _, e := range all {
				for _, a := range []string{"x", "x1", "x2", "cx"} {
					if v := e.number(a); v < -20 || v > 780 {
						t.Fatalf("%s has %s = %g", e.name, a, v)
					}
				}
				for _, a := range []string{"y", "y1", "y2", "cy"} {
					if v := e.number(a); v < -20 || v > 460 {
						t.Fatalf("%s has %s = %g", e.name, a, v)
					}
				}
			}
		}
	})
}

func TestAxisLabelsDoNotTouch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.Float64Range(-1e5, 1e5).Draw(t, "low")
		s := scale{lo: low, hi: low + rapid.Float64Range(0.001, 1e7).Draw(t, "width"), from: 60, to: 740}
		if rapid.Bool().Draw(t, "log") {
			s.log, s.lo, s.hi = true, math.Abs(s.lo)+0.001, math.Abs(s.lo)+0.001+(s.hi-s.lo)
		}
		f := newFrame(0, 0)
		f.left, f.right, f.top, f.bottom, f.x = 60, 740, 20, 400, s
		f.axisX(Axis{})
		all, err := parse(f.finish())
		if err != nil {
			t.Fatal(err)
		}
		end := math.Inf(-1)
		for _, e := range all {
			if e.name != "text" {
				continue
			}
			half := textWidth(e.text, tickSize) / 2
			if e.number("x")-half < end {
				t.Fatalf("%q begins at %g, the one before ends at %g", e.text, e.number("x")-half, end)
			}
			end = e.number("x") + half
		}
	})
}

func TestLongNamesOfGroupsDoNotTouch(t *testing.T) {
	b := Bars{Width: 1000, Series: []BarSeries{{}}}
	for range 9 {
		b.Groups, b.Series[0].Bars = append(b.Groups, "americas-europe to south-america"),
			append(b.Series[0].Bars, Bar{Value: 1})
	}
	ends := map[string]float64{} // by line
	for _, e := range elements(t, b.SVG(), "text") {
		if e.attr["text-anchor"] != "middle" {
			continue
		}
		half := textWidth(e.text, tickSize) / 2
		if end, drawn := ends[e.attr["y"]]; drawn && e.number("x")-half < end {
			t.Fatalf("%q begins at %g, the one before ends at %g", e.text, e.number("x")-half, end)
		}
		ends[e.attr["y"]] = e.number("x") + half
	}
	if len(ends) < 4 {
		t.Errorf("the names take %d lines", len(ends))
	}
}

func TestLineHasAGapWhereAValueCannotBeDrawn(t *testing.T) {
	points := []Point{{X: 1, Y: 1}, {X: 2, Y: 10}, {X: 3, Y: 0}, {X: 4, Y: 10}, {X: 5, Y: 100}}
	svg := Line{Y: Axis{Log: true}, Series: []Series{{Points: points}}, NoMarkers: true}.SVG()
	paths := elements(t, svg, "path")
	if len(paths) != 1 || strings.Count(paths[0].attr["d"], "M") != 2 {
		t.Errorf("paths %v, want one in two pieces", paths)
	}
}

func TestBarsAreAsHighAsTheirValues(t *testing.T) {
	svg := Bars{Y: Axis{Max: 100}, Groups: []string{"a", "b"},
		Series: []BarSeries{{Bars: []Bar{{Value: 20}, {Value: 80}}}},
		Format: "%.0f"}.SVG()
	rects := elements(t, svg, "rect")[1:] // the first is the background
	if len(rects) != 2 || math.Abs(rects[1].number("height")/rects[0].number("height")-4) > 0.01 {
		t.Errorf("%v, want two bars, one four times the other", rects)
	}
	all := texts(t, svg)
	for _, want := range []string{"20", "80", "a", "b"} {
		if !strings.Contains(" "+strings.Join(all, " ")+" ", " "+want+" ") {
			t.Errorf("%q is not written; there is %q", want, all)
		}
	}
}

func TestNamesAreEscaped(t *testing.T) {
	svg := Line{Title: "a < b & \"c\"", Series: []Series{{Name: "<script>"}, {Name: "x"}}}.SVG()
	all := texts(t, svg)
	if all[0] != "a < b & \"c\"" || !strings.Contains(strings.Join(all, "|"), "<script>") {
		t.Errorf("texts are %q", all)
	}
	if len(elements(t, svg, "script")) != 0 {
		t.Error("a name became an element")
	}
}

func TestTicksAreRoundNumbers(t *testing.T) {
	for _, c := range []struct {
		s    scale
		n    int
		want string
	}{
		{scale{lo: 0, hi: 100}, 6, "0 20 40 60 80 100"},
		{scale{lo: 5, hi: 50}, 5, "10 20 30 40 50"},
		{scale{lo: -0.2, hi: 0.2}, 4, "-0.2 -0.1 0.0 0.1 0.2"},
		{scale{lo: 0, hi: 60000}, 3, "0 20k 40k 60k"},
		{scale{lo: 1, hi: 1e6, log: true}, 8, "1 10 100 1000 10k 100k 1M"},
		{scale{lo: 0.1, hi: 10, log: true}, 8, "0.1 0.2 0.5 1 2 5 10"},
		{scale{lo: 30, hi: 35, log: true}, 8, "30.00 35.00"},
	} {
		var got []string
		for _, tick := range c.s.ticks(c.n) {
			got = append(got, tick.label)
		}
		if d := cmp.Diff(c.want, strings.Join(got, " ")); d != "" {
			t.Errorf("%+v: %s", c.s, d)
		}
	}
}
