package cost

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/causalstore/causalstore/lab/chart"
)

// Report is the output of `causalstore cost`.
type Report struct {
	DataCenters int     `json:"dataCenters"`
	Rings       int     `json:"rings"`
	MissRatio   float64 `json:"missRatio"`
	BoundReads  float64 `json:"boundReads"`
	// RemoteRatio is the share of gets that another data center answers.
	RemoteRatio    float64    `json:"remoteRatio"`
	MissOperations float64    `json:"missOperations"`
	CacheShare     float64    `json:"cacheShare"`
	PutBytes       float64    `json:"putBytesPerCopy"`
	GetBytes       float64    `json:"getBytesPerRemoteGet"`
	Alphas         []float64  `json:"alphas"`
	Capex          []CapexRow `json:"capex"`
	Opex           []OpexRow  `json:"opex"`
	// Month is set if the input has rates.
	Month *Month `json:"month,omitempty"`

	priced bool
}

// CapexRow is one put fraction. Compute and Storage are shares of full replication; Savings are by alpha.
type CapexRow struct {
	PutFraction float64   `json:"putFraction"`
	Compute     float64   `json:"compute"`
	Storage     float64   `json:"storage"`
	Savings     []float64 `json:"savings"`
}

// OpexRow is one put fraction.
type OpexRow struct {
	PutFraction float64   `json:"putFraction"`
	Full        Bandwidth `json:"fullReplication"`
	Rings       Bandwidth `json:"rings"`
	SavedBytes  float64   `json:"savedBytes"`
	SavedPrice  float64   `json:"savedPrice"`
}

// Month is the traffic of a mean month at the input's own rates and put fraction.
type Month struct {
	OperationsPerSecond float64 `json:"operationsPerSecond"`
	PutFraction         float64 `json:"putFraction"`
	FullGB              float64 `json:"fullReplicationGB"`
	RingsGB             float64 `json:"ringsGB"`
	FullPrice           float64 `json:"fullReplicationPrice"`
	RingsPrice          float64 `json:"ringsPrice"`

	full, rings string
}

// Compare compares a layout with full replication.
func (s *Scenario) Compare(l Layout) *Report {
	r := &Report{DataCenters: len(s.DCs), Rings: len(l), MissRatio: s.MissRatio(), BoundReads: s.BoundReads,
		MissOperations: s.MissOperations, CacheShare: s.CacheShare,
		PutBytes: s.PutBytes, GetBytes: s.GetBytes, Alphas: s.Alphas, priced: !s.PricesAreAlike()}
	for d, dc := range s.DCs {
		r.RemoteRatio += dc.Reads * (1 - s.Answers(l, d)[d])
	}
	capex := s.Capex(len(l))
	for _, w := range s.PutFractions {
		row := CapexRow{PutFraction: w, Compute: capex.Compute(w), Storage: capex.Storage(w)}
		for _, a := range s.Alphas {
			row.Savings = append(row.Savings, capex.Saving(w, a))
		}
		r.Capex = append(r.Capex, row)
		full, rings := s.Full(w), s.Rings(l, w)
		r.Opex = append(r.Opex, OpexRow{w, full, rings, rings.SavedBytes(full), rings.SavedPrice(full)})
	}
	if s.OperationsPerSecond > 0 {
		full, rings := s.Full(s.PutFraction), s.Rings(l, s.PutFraction)
		r.Month = &Month{s.OperationsPerSecond, s.PutFraction, s.PerMonth(full.Bytes()), s.PerMonth(rings.Bytes()),
			s.PerMonth(full.Price()), s.PerMonth(rings.Price()),
			s.Month(full), s.Month(rings)}
	}
	return r
}

// Text writes the report as tables.
func (r *Report) Text(out io.Writer) {
	fmt.Fprintf(out, "%s in %s, compared with full replication: a copy in each data center\n",
		counted(r.DataCenters, "data center"),
		counted(r.Rings, "ring"))
	fmt.Fprintf(out,
		"%s of gets miss the cache, %s are bound to their ring and bypass it; %s are answered by another "+
			"data center\n\n",
		percent(r.MissRatio), percent(r.BoundReads), percent(r.RemoteRatio))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "CAPEX: savings of compute and storage; alpha is the storage share of the cost of a server\n")
	fmt.Fprintf(w, "PUTS\tCOMPUTE\tSTORAGE")
	for _, a := range r.Alphas {
		fmt.Fprintf(w, "\tALPHA %.2f", a)
	}
	fmt.Fprintln(w)
	for _, row := range r.Capex {
		fmt.Fprintf(w, "%s\t%s\t%s", percent(row.PutFraction), percent(1-row.Compute), percent(1-row.Storage))
		for _, s := range row.Savings {
			fmt.Fprintf(w, "\t%s", percent(s))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "\nOPEX: bytes between data centers per operation; %.0f per copy of a put, %.0f per remote get\n",
		r.PutBytes, r.GetBytes)
	fmt.Fprintf(w, "PUTS\tFULL\tRINGS\tOF PUTS\tOF GETS\tSAVED")
	if r.priced {
		fmt.Fprintf(w, "\tPRICE FULL\tRINGS\tSAVED")
	}
	fmt.Fprintln(w)
	for _, row := range r.Opex {
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%s", percent(row.PutFraction), row.Full.Bytes(), row.Rings.Bytes(),
			row.Rings.PutBytes, row.Rings.GetBytes, percent(row.SavedBytes))
		if r.priced {
			fmt.Fprintf(w, "\t%.2f\t%.2f\t%s", row.Full.Price(), row.Rings.Price(), percent(row.SavedPrice))
		}
		fmt.Fprintln(w)
	}
	if r.priced {
		fmt.Fprintln(w, "Prices are per 10^9 operations.")
	}
	_ = w.Flush() // to a terminal or a buffer
	if m := r.Month; m != nil {
		fmt.Fprintf(out, "\nA month at %.0f operations per second, %s puts: full replication %s, rings %s\n",
			m.OperationsPerSecond,
			percent(m.PutFraction), m.full, m.rings)
	}
}

// Charts draws the report, by file name.
func (r *Report) Charts() map[string][]byte {
	capex := chart.Line{Title: fmt.Sprintf("CAPEX saved by %s of %s", counted(r.Rings, "ring"),
		counted(r.DataCenters, "data center")),
		X: chart.Axis{Label: "puts (% of operations)"}, Y: chart.Axis{Label: "saved of full replication (%)"}}
	for i, a := range r.Alphas {
		s := chart.Series{Name: fmt.Sprintf("alpha = %.2f", a)}
		for _, row := range r.Capex {
			s.Points = append(s.Points, chart.Point{X: 100 * row.PutFraction, Y: 100 * row.Savings[i]})
		}
		capex.Series = append(capex.Series, s)
	}
	opex := chart.Line{Title: fmt.Sprintf("OPEX saved by %s of %s", counted(r.Rings, "ring"), counted(r.DataCenters,
		"data center")), X: capex.X, Y: capex.Y}
	bytes, price := chart.Series{Name: "bytes between data centers"}, chart.Series{Name: "price of them"}
	for _, row := range r.Opex {
		bytes.Points = append(bytes.Points, chart.Point{X: 100 * row.PutFraction, Y: 100 * row.SavedBytes})
		price.Points = append(price.Points, chart.Point{X: 100 * row.PutFraction, Y: 100 * row.SavedPrice})
	}
	opex.Series = append(opex.Series, bytes)
	if r.priced {
		opex.Series = append(opex.Series, price)
	}
	return map[string][]byte{"capex.svg": capex.SVG(), "opex.svg": opex.SVG()}
}
