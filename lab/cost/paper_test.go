package cost

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"testing"
)

func TestModelsReproduceThePapersFigures(t *testing.T) {
	p, err := RepeatPaper(nil)
	if err != nil {
		t.Fatal(err)
	}
	fitted := 0
	for _, c := range p.Claims {
		switch {
		case c.Fitted:
			fitted++
			near(t, c.What, c.Model, c.Paper, 1e-6)
		case c.AtLeast:
			if c.Model <= c.Paper {
				t.Errorf("%s is %.3f, the paper has more than %.2f", c.What, c.Model, c.Paper)
			}
		default:
			near(t, c.What, c.Model, c.Paper, 0.03)
		}
	}
	if fitted != 3 || len(p.Claims) != 8 {
		t.Errorf("%d of %d figures are fitted, want 3 of 8", fitted, len(p.Claims))
	}
	for _, a := range p.Alphas {
		if a <= 0 || a >= 1 {
			t.Errorf("alpha %g is no share", a)
		}
	}
}

func TestTwitterCasesHaveThePapersMissRatioTweetsAndSaving(t *testing.T) {
	cases, err := TwitterCases()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		s := c.Scenario
		near(t, c.Name+": gets from another data center", s.Rings(s.Today, 0).GetBytes, 0.035, 1e-6)
		near(t, c.Name+": saving with rings by delay", c.Agnostic, 0.14, 1e-6)
		near(t, c.Name+": tweets from the East", s.DCs[0].Writes, 0.70, 1e-9)
		near(t, c.Name+": tweets from the West", s.DCs[1].Writes+s.DCs[2].Writes, 0.29, 1e-9)
		if c.Aware <= c.Agnostic {
			t.Errorf("%s: rings by users save %.3f, no more than those by delay", c.Name, c.Aware)
		}
	}
}

func TestInputsOfTwitterCasesGiveTheSameFigures(t *testing.T) {
	cases, err := TwitterCases()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		b, err := c.Input()
		if err != nil {
			t.Fatal(err)
		}
		s := parse(t, string(b))
		near(t, "put fraction", s.PutFraction, c.PutFraction, 1e-5)
		near(t, "saving", s.Rings(s.Today, s.PutFraction).SavedBytes(s.Full(s.PutFraction)), c.Agnostic, 1e-3)
	}
}

func TestPlotsAreWellFormed(t *testing.T) {
	p, err := RepeatPaper([]float64{0.1, 0.9})
	if err != nil {
		t.Fatal(err)
	}
	plots := p.Charts()
	for name, svg := range p.Report.Charts() {
		plots[name] = svg
	}
	if len(plots) != 4 {
		t.Errorf("%d plots, want 4", len(plots))
	}
	for name, svg := range plots {
		for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
}
