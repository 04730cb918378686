package planner

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/lab/cost"
	"github.com/causalstore/causalstore/topology"
)

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// sorted is the layout with its rings and their members in order.
func sorted(l cost.Layout) cost.Layout {
	var all cost.Layout
	for _, ring := range l {
		all = append(all, slices.Sorted(slices.Values(ring)))
	}
	slices.SortFunc(all, func(a, b []int) int { return a[0] - b[0] })
	return all
}

// Text writes the plan.
func (p *Plan) Text(out io.Writer) {
	s := p.scenario
	how := fmt.Sprintf("all %d ways to make the rings were compared", p.Examined)
	if !p.Exact {
		how = fmt.Sprintf("%d layouts were compared; a better one may exist", p.Examined)
	}
	fmt.Fprintf(out, "%d data centers, %s puts; %s of gets miss the cache, %s are bound to their ring\n%s\n\n",
		len(s.DCs),
		percent(s.PutFraction), percent(s.MissRatio()), percent(s.BoundReads), how)
	priced := !s.PricesAreAlike()
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	head(w, "LAYOUT", priced)
	for _, other := range p.Others {
		row(w, other.Name, other.Figures, priced)
	}
	row(w, "workload-aware (proposed)", p.Proposed.Figures, priced)
	if p.ByCopies != nil {
		fmt.Fprintln(w)
		head(w, "COPIES", priced)
		for _, c := range p.ByCopies {
			row(w, fmt.Sprint(c.Figures.Rings), c.Figures, priced)
		}
	}
	_ = w.Flush() // to a terminal or a buffer
	fmt.Fprintln(out)
	w = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "DATA CENTER\tRING\tREADS\tOWNS\tLOCAL READS\tMISS ms\tBOUND ms\tREAD ms")
	for _, d := range p.DataCenters {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%.1f\t%.1f\t%.2f\n", d.Name, d.Ring, percent(d.Reads), percent(d.Owned),
			percent(d.LocalShare), d.MissMs, d.BoundMs, d.ReadMs)
	}
	_ = w.Flush()
	fmt.Fprintln(out, "\nWhy these rings")
	for _, text := range p.Why {
		for i, line := range wrap(text, 116) {
			fmt.Fprintln(out, []string{"- ", "  "}[min(i, 1)]+line)
		}
	}
	if s.OperationsPerSecond > 0 {
		fmt.Fprintf(out, "\nA month at %.0f operations per second, between data centers: %s; full replication: %s\n",
			s.OperationsPerSecond, s.Month(p.Proposed.Figures.Bandwidth), s.Month(p.Others[0].Figures.Bandwidth))
	}
	fmt.Fprintf(out, "\nFor the manifest:\n%s", p.Manifest())
}

func head(w io.Writer, first string, priced bool) {
	fmt.Fprintf(w, "%s\tRINGS\tREAD ms\tLOCAL READS\tTRAFFIC SAVED\t", first)
	if priced {
		fmt.Fprint(w, "ITS PRICE SAVED\t")
	}
	fmt.Fprintln(w, "CAPEX SAVED\tSCORE")
}

func row(w io.Writer, name string, f Figures, priced bool) {
	fmt.Fprintf(w, "%s\t%d\t%.2f\t%s\t%s\t", name, f.Rings, f.ReadMs, percent(f.LocalShare), percent(f.SavedBytes))
	if priced {
		fmt.Fprintf(w, "%s\t", percent(f.SavedPrice))
	}
	fmt.Fprintf(w, "%s\t%.4f\n", percent(f.SavedCapex), f.Score)
}

// wrap breaks a text into lines at spaces.
func wrap(text string, width int) []string {
	var lines []string
	for _, word := range strings.Fields(text) {
		if last := len(lines) - 1; last >= 0 && len(lines[last])+1+len(word) <= width {
			lines[last] += " " + word
			continue
		}
		lines = append(lines, word)
	}
	return lines
}

// Manifest returns the rings section of a CausalStore resource.
func (p *Plan) Manifest() string {
	var b strings.Builder
	b.WriteString("  rings:\n")
	for _, r := range p.Proposed.Rings {
		fmt.Fprintf(&b, "  - {name: %s, dataCenters: [%s]}\n", r.Name, strings.Join(r.DataCenters, ", "))
	}
	return b.String()
}

// Topology returns a topology file with the proposed rings. Its epoch is the next one after that of the input.
func (p *Plan) Topology() ([]byte, error) {
	s := p.scenario
	f := topology.File{Epoch: s.Epoch + 1, RoundTripMs: map[string]map[string]float64{}}
	for i, d := range s.DCs {
		f.DataCenters = append(f.DataCenters, topology.FileDataCenter{Name: d.Name, Coordinators: &d.Coordinators,
			Caches: &d.Caches,
			Shards: &d.Shards})
		for j := range i {
			if s.RTT[i][j] > 0 {
				if f.RoundTripMs[d.Name] == nil {
					f.RoundTripMs[d.Name] = map[string]float64{}
				}
				f.RoundTripMs[d.Name][s.DCs[j].Name] = s.RTT[i][j]
			}
		}
	}
	for _, r := range p.Proposed.Rings {
		f.Rings = append(f.Rings, topology.FileRing{Name: r.Name, DataCenters: r.DataCenters})
	}
	if _, err := f.Topology(); err != nil {
		return nil, fmt.Errorf("write topology: %w", err)
	}
	b, err := yaml.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("write topology: %w", err)
	}
	return append([]byte("# Rings as proposed by causalstore plan.\n"), b...), nil
}
