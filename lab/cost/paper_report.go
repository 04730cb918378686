package cost

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/causalstore/causalstore/lab/chart"
)

// Paper is the cost analysis of the paper, repeated with the model.
type Paper struct {
	// Alphas are solved for: the storage shares at which the model saves 32 and 43 % with 5 % puts.
	Alphas [2]float64    `json:"alphas"`
	Claims []Claim       `json:"claims"`
	Cases  []TwitterCase `json:"twitter"`
	Report *Report       `json:"report"`
}

// Claim is one figure of the paper beside the model's.
type Claim struct {
	What string `json:"what"`
	// Paper is the published figure. The model's should be close to it, or above it if AtLeast is set.
	Paper   float64 `json:"paper"`
	AtLeast bool    `json:"atLeast,omitempty"`
	Model   float64 `json:"model"`
	// OneOperation is the model's figure if a missed get costs one extra operation instead of two.
	OneOperation *float64 `json:"oneOperationPerMiss,omitempty"`
	// Fitted: this figure determined an input that the paper leaves open. The others follow.
	Fitted bool `json:"fitted"`
}

// TwitterCases are the settings that the paper's text allows, most likely first.
func TwitterCases() ([]TwitterCase, error) {
	t, err := newTwitter()
	if err != nil {
		return nil, err
	}
	alike := make([]float64, len(t.base.DCs))
	for i := range alike {
		alike[i] = 1 / float64(len(alike))
	}
	return []TwitterCase{
		t.fromFirstReads(),
		t.fromReads("as tweets: 70 % East, 29 % West", t.regions(1-paperEast-paperWest)),
		t.fromReads("alike in each data center", alike),
	}, nil
}

// RepeatPaper performs the analysis.
func RepeatPaper(putFractions []float64) (*Paper, error) {
	if err := checkShares("put fraction", putFractions...); err != nil {
		return nil, err
	}
	cases, err := TwitterCases()
	if err != nil {
		return nil, err
	}
	capex := Capex{DataCenters: 8, Rings: 3, MissRatio: paperMissRatio, MissOperations: DefaultMissOperations,
		CacheShare: DefaultCacheShare}
	p := &Paper{Cases: cases, Alphas: alphasOf(capex)}
	p.Claims = capexClaims(capex)
	p.Claims = append(p.Claims,
		Claim{What: "OPEX, rings by delay", Paper: paperOpexAgnostic, Model: cases[0].Agnostic, Fitted: true},
		Claim{What: "OPEX, rings by users", Paper: paperOpexAware, Model: cases[0].Aware})
	s := *cases[0].Scenario
	s.Alphas = p.Alphas[:]
	if len(putFractions) > 0 {
		s.PutFractions = putFractions
	}
	// The paper has one miss ratio for CAPEX; the traffic between data centers comes from the cases.
	s.DCs = append([]DataCenter(nil), s.DCs...)
	for i := range s.DCs {
		s.DCs[i].MissRatio = paperMissRatio
	}
	p.Report = s.Compare(s.Today)
	return p, nil
}

func alphasOf(c Capex) [2]float64 {
	return [2]float64{c.AlphaFor(paperReadHeavy, paperCapexLow), c.AlphaFor(paperReadHeavy, paperCapexHigh)}
}

func capexClaims(c Capex) []Claim {
	one := c
	one.MissOperations = 1
	claim := func(what string, paper float64, miss, puts float64, which int, fitted, atLeast bool) Claim {
		saving := func(c Capex) float64 {
			alpha := alphasOf(c)[which]
			c.MissRatio = miss
			return c.Saving(puts, alpha)
		}
		other := saving(one)
		return Claim{What: what, Paper: paper, Model: saving(c), OneOperation: &other, Fitted: fitted, AtLeast: atLeast}
	}
	return []Claim{
		claim("CAPEX, 5 % puts, least alpha", paperCapexLow, paperMissRatio, paperReadHeavy, 0, true, false),
		claim("CAPEX, 5 % puts, greatest alpha", paperCapexHigh, paperMissRatio, paperReadHeavy, 1, true, false),
		claim("CAPEX, 50 % puts, least alpha", paperCapexWriteHeavy, paperMissRatio, paperWriteHeavy, 0, false, true),
		claim("CAPEX, 50 % puts, greatest alpha", paperCapexMost, paperMissRatio, paperWriteHeavy, 1, false, false),
		claim("CAPEX, 5 % puts, 31 % misses, least", paperYCSBCapexLow, paperYCSBMissRatio, paperReadHeavy, 0,
			false, false),
		claim("CAPEX, 5 % puts, 31 % misses, greatest", paperYCSBCapexHigh, paperYCSBMissRatio, paperReadHeavy, 1,
			false, false),
	}
}

// Text writes the analysis.
func (p *Paper) Text(out io.Writer) {
	fmt.Fprintf(out, "Karma's section 6.4: 8 data centers in 3 rings against full replication, %s of gets missed\n\n",
		percent(paperMissRatio))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SAVED\tPAPER\tMODEL\tONE OPERATION PER MISS\tROLE")
	for _, c := range p.Claims {
		paper, role, other := percent(c.Paper), "follows", ""
		if c.AtLeast {
			paper = "> " + paper
		}
		if c.Fitted {
			role = "fitted"
		}
		if c.OneOperation != nil {
			other = percent(*c.OneOperation)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", c.What, paper, percent(c.Model), other, role)
	}
	fmt.Fprintln(w, "Fitted: this figure determined an input that the paper leaves open. The others follow.")
	fmt.Fprintf(w, "Alpha, the storage share of the cost of a server, is %.2f and %.2f.\n\n", p.Alphas[0], p.Alphas[1])
	fmt.Fprintln(w, "OPEX BY WHERE GETS MISS\tPUTS\tREADS OUTSIDE US\tRINGS BY DELAY\tRINGS BY USERS")
	for _, c := range p.Cases {
		fmt.Fprintf(w, "%s\t%.2f %%\t%s\t%s\t%s\n", c.Name, 100*c.PutFraction, percent(c.Outside), percent(c.Agnostic),
			percent(c.Aware))
	}
	fmt.Fprintf(w, "the paper\tnot given\tnot given\t%s\t> 30 %%, %s\n", percent(paperOpexAgnostic),
		percent(paperOpexAware))
	fmt.Fprintln(w,
		"Puts are chosen so that rings by delay save what the paper reports; so are the readers outside in "+
			"the first line.")
	_ = w.Flush() // to a terminal or a buffer
	fmt.Fprintln(out, "\nFigure 13(a), by the model:")
	w = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "PUTS\tALPHA %.2f\tALPHA %.2f\n", p.Alphas[0], p.Alphas[1])
	for _, row := range p.Report.Capex {
		fmt.Fprintf(w, "%s\t%s\t%s\n", percent(row.PutFraction), percent(row.Savings[0]), percent(row.Savings[1]))
	}
	_ = w.Flush()
}

// Charts draws Figure 13, by file name.
func (p *Paper) Charts() map[string][]byte {
	bars := chart.Bars{Title: "OPEX saved, rings by delay and by users (Twitter)",
		Y:      chart.Axis{Label: "saved of full replication (%)"},
		Groups: []string{"rings by delay (workload-agnostic)", "rings by users (workload-aware)"}, Format: "%.1f",
		Series: []chart.BarSeries{
			{Name: "paper", Bars: []chart.Bar{{Value: 100 * paperOpexAgnostic}, {Value: 100 * paperOpexAware}}},
		}}
	for _, c := range p.Cases {
		bars.Series = append(bars.Series, chart.BarSeries{Name: "misses: " + c.Name,
			Bars: []chart.Bar{{Value: 100 * c.Agnostic},
				{Value: 100 * c.Aware}}})
	}
	return map[string][]byte{"figure13a.svg": p.Report.Charts()["capex.svg"], "figure13b.svg": bars.SVG()}
}
