package bench

import (
	"bytes"
	"fmt"
	"sort"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// examplePaper is a small evaluation with figures that follow a pattern and were never measured.
func examplePaper() *Paper {
	p := &Paper{Origin: Origin{Machine: "2 CPUs (example)", Commit: "0123456789ab", Date: "1 February 2003",
		Command: "causalstore bench paper --rounds 3"}, Rounds: 3, Seconds: 2, Clients: 64,
		ThinkMs: 5, Keys: 20000, ValueBytes: 200, ReadRatio: 0.95, Theta: 0.99, WarmReads: 1, Burst: 100,
		DataCenters: 2, Rings: 2, TookSeconds: 90, OthersCores: 0.25}
	for i, s := range comparedSchemes {
		p.Cells = append(p.Cells, exampleCell("throughput", s, mixName(0.95), 5, float64(i)))
		p.Saturation = append(p.Saturation, &Saturation{Scheme: s.Name, Clients: 64 << i, Bounded: i == 5,
			Steps: []SaturationStep{
				{Clients: 64 << i, Throughput: float64(1000 * (i + 1)), GetMeanMs: 3}, {Clients: 128 << i,
					Throughput: float64(1010 * (i + 1)), GetMeanMs: 4}}})
	}
	for _, mix := range []float64{0.8, 0.5} {
		for i, s := range mixSchemes {
			p.Cells = append(p.Cells, exampleCell("mixes", s, mixName(mix), 100*(1-mix), float64(i)))
		}
	}
	for i, s := range loadSchemes {
		for _, part := range loads {
			c := exampleCell("load", s, loadName(0.95, part), 5, float64(i)+part)
			c.ReadRatio, c.Load = 0.95, part
			p.Cells = append(p.Cells, c)
		}
	}
	for i, s := range ablationSchemes {
		p.Cells = append(p.Cells, exampleCell("ablation", s, mixName(ablationReads), 20, float64(i)))
	}
	for i, size := range []int{200, 1024} {
		p.Cells = append(p.Cells, exampleCell("sizes", causalStore, sizeName(size), float64(size), float64(2*i)))
	}
	for i, s := range congestSchemes {
		for _, add := range []int{300, 1200} {
			p.Congestion = append(p.Congestion, exampleCongestion(s, add, float64(i+1)))
		}
	}
	for i, s := range burstSchemes {
		p.Bursts = append(p.Bursts, &Burst{Scheme: s.Name, DC: "east", Puts: 100,
			SingleVisibleMs: summaryOf([]float64{140, 150,
				160}), SingleCompleteMs: summaryOf([]float64{280, 290, 300}),
			VisibleMs: summaryOf([]float64{200 * float64(i+1), 220 * float64(i+1)}),
			CompleteMs: summaryOf([]float64{400,
				410}), Ratio: 1.4 * float64(i+1), Unfinished: i == 2,
			AcceptedPerSecond: summaryOf([]float64{2000, 2200}), CompletedPerSecond: summaryOf([]float64{200, 210})})
	}
	p.Schemes = schemesIn(p.schemes())
	return p
}

// exampleCell gets worse with n.
func exampleCell(section string, s Scheme, label string, x, n float64) *Cell {
	three := func(v float64) summary { return summaryOf([]float64{0.9 * v, v, 1.1 * v}) }
	c := &Cell{Section: section, Scheme: s.Name, Label: label, X: x, Clients: 64, Keys: 20000, ValueBytes: 200,
		DataCenters: 2}
	c.Throughput = three(4000 / (n + 1))
	c.PerDC = map[string]summary{"east": three(3000 / (n + 1)), "west": three(1000 / (n + 2))}
	c.Get, c.Put, c.GetMeanMs = Times{1000, 10 + n, 0.25, 90, 250, 300}, Times{50, 1, 0.7, 1, 2, 3}, three(10+n)
	c.GetCurve = []CurvePoint{{2, 0.1}, {50, 0.25}, {98, 200 + n}}
	c.Near, c.Own, c.Cache, c.Local, c.Remote = three(0.9-n/10), 0.1, 0.7-n/10, 0.1, 0.1+n/10
	c.Bound, c.BoundMs, c.InFlightReads = three(n/10), 300*n, n/100
	c.WANMessages, c.WANBytes, c.WANMetadataBytes = 2+n, 250+n, 150+n
	c.Cores, c.ResidentMiB, c.CoresPerK, c.MiBPerK = three(0.3), three(150), 0.08, 40
	for _, from := range []string{"one", "two"} {
		for _, to := range []string{"one", "two"} {
			c.Pairs = append(c.Pairs, PairTimes{From: from, To: to,
				Visible:      Times{Count: 9, P50Ms: 100 + n, P99Ms: 200},
				Acknowledged: Times{Count: 9, P50Ms: 200, P99Ms: 400}})
		}
		c.Complete = append(c.Complete, RingTime{Ring: from, Complete: Times{Count: 9, P50Ms: 350, P99Ms: 500 + n}})
	}
	return c
}

func exampleCongestion(s Scheme, add int, n float64) *Congestion {
	c := &Congestion{Scheme: s.Name, AddMs: add, DC: "east", From: 2, To: 4,
		KeptPerDC: map[string]float64{"east": 0.5 / n,
			"west": 0.9}, KeptMean: 0.7 / n,
		Kept: summaryOf([]float64{0.8 / n, 0.9 / n}), GetBeforeMs: 10, GetDuringMs: 10 * n * float64(add) / 300}
	for i := range 6 {
		c.Series = append(c.Series, SeriesTick{Second: float64(i) + 0.5, Throughput: 1000, GetMeanMs: 10})
	}
	return c
}

// TestTextAndReportMatchTheGoldenFiles compares with the golden files. After an intended change, -rewrite writes them.
func TestTextAndReportMatchTheGoldenFiles(t *testing.T) {
	datadriven.RunTest(t, "testdata/paper.txt", func(t *testing.T, d *datadriven.TestData) string {
		p := examplePaper()
		if d.HasArg("only") {
			var section string
			d.ScanArgs(t, "only", &section)
			p = only(p, section)
		}
		switch d.Cmd {
		case "text":
			var b bytes.Buffer
			p.Report().Text(&b)
			return unpadded(b.String())
		case "page":
			return string(p.Report().Files()["README.md"])
		case "pictures":
			var names []string
			for name, content := range p.Report().Files() {
				if strings.HasSuffix(name, ".svg") {
					names = append(names, fmt.Sprintf("%s no data: %t", name,
						bytes.Contains(content, []byte("no data"))))
				}
			}
			sort.Strings(names)
			return strings.Join(names, "\n")
		}
		return fmt.Sprintf("unknown command %q", d.Cmd)
	})
}

// only leaves the figures of one section, so that a test sees what happens when others were not asked for.
func only(p *Paper, section string) *Paper {
	q := *p
	q.Cells, q.Saturation, q.Congestion, q.Bursts = p.section(section), nil, nil, nil
	q.Schemes = schemesIn(q.schemes())
	return &q
}

// unpadded drops the blanks at the ends of lines.
func unpadded(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return b.String()
}
