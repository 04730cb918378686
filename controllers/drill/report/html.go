package report

import (
	_ "embed"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/causalstore/causalstore/controllers/drill/record"
	"github.com/causalstore/causalstore/lab/chart"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{"class": func(r record.Result) string {
	return strings.ReplaceAll(string(r), " ", "-")
}}).Parse(pageText))

// picture is a chart of a page.
type picture struct {
	Title string
	SVG   template.HTML
}

// HTML writes a report as one page that needs nothing from elsewhere.
func HTML(w io.Writer, r *record.Run) error {
	type shown struct {
		Title string
		Lines []string
	}
	data := struct {
		Run      *record.Run
		Summary  string
		Facts    [][2]string
		Columns  []string
		Rows     [][]string
		Pictures []picture
		Lists    []shown
		Terms    [][2]string
	}{Run: r, Summary: summary(r), Facts: facts(r), Columns: columns, Pictures: pictures(r), Terms: terms}
	for _, m := range ordered(r) {
		data.Rows = append(data.Rows, cells(m))
	}
	for _, l := range lists(r) {
		if len(l.lines) > 0 {
			data.Lists = append(data.Lists, shown{l.title, l.lines})
		}
	}
	return page.Execute(w, data)
}

// pictures are the charts of a run over time.
func pictures(r *record.Run) []picture {
	if len(r.Series) == 0 {
		return nil
	}
	var bands []chart.Band
	for _, p := range r.Phases {
		if p.Name == record.Injection {
			bands = append(bands, chart.Band{Label: "faults", From: p.From.Sub(r.Started).Seconds(),
				To: p.To.Sub(r.Started).Seconds()})
		}
	}
	draw := func(title, unit string, value func(record.Series, int) float64) picture {
		l := chart.Line{X: chart.Axis{Label: "seconds since the start"}, Y: chart.Axis{Label: unit}, NoMarkers: true,
			Bands: bands, Width: 900, Height: 300}
		for _, s := range ordering(r.Series) {
			name := s.DataCenter
			if s.Through == record.Sidecar {
				name += ", sidecar"
			}
			if s.Hit {
				name += " (hit)"
			}
			line := chart.Series{Name: name}
			for i := range s.OK {
				line.Points = append(line.Points, chart.Point{X: float64(i), Y: value(s, i)})
			}
			l.Series = append(l.Series, line)
		}
		return picture{title, template.HTML(l.SVG())} // made by our own code, which escapes names
	}
	return []picture{
		draw("Operations that succeeded", "per second", func(s record.Series, i int) float64 {
			return float64(s.OK[i])
		}),
		draw("Operations that failed", "per second", func(s record.Series, i int) float64 {
			return float64(s.Failed[i])
		}),
		draw("Latency, 99th percentile of each second", "ms", func(s record.Series, i int) float64 {
			if s.P99[i] == 0 {
				return math.NaN() // a gap: no operation succeeded
			}
			return s.P99[i]
		}),
	}
}

// ordering puts the data centers that are hit first, so that they have the same color in all pictures of a page.
func ordering(all []record.Series) []record.Series {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b record.Series) int {
		switch {
		case a.Hit && !b.Hit:
			return -1
		case b.Hit && !a.Hit:
			return 1
		}
		return 0
	})
	return all
}
