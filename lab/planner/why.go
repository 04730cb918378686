package planner

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/causalstore/causalstore/lab/cost"
)

// explain gives the reasons for the proposed rings: what each of them gains, and what the nearest alternatives would
// cost.
func explain(s *cost.Scenario, p *Plan, r *rules, o Options) []string {
	var all []string
	for i, ring := range p.Proposed.Layout {
		all = append(all, explainRing(s, p, i, ring))
	}
	all = append(all, describeSurvival(r, p.Proposed.Layout))
	if text := nextBest(s, p, r, o); text != "" {
		all = append(all, text)
	}
	for _, other := range p.Others {
		if other.Name != "full replication" {
			all = append(all, against(s, r, p.Proposed, other))
		}
	}
	return all
}

func explainRing(s *cost.Scenario, p *Plan, i int, ring []int) string {
	name, reads, writes := p.Proposed.Rings[i].Name, 0.0, 0.0
	for _, d := range ring {
		reads, writes = reads+s.DCs[d].Reads, writes+s.DCs[d].Writes
	}
	traffic := fmt.Sprintf("%s of the reads and %s of the puts", percent(reads), percent(writes))
	if len(ring) == 1 {
		d := ring[0]
		return fmt.Sprintf(
			"Ring %s: %s has a whole copy to itself, with %s. It never waits for another data center to read, and "+
				"its puts cross %s; on average puts cross %.2f times.",
			name, s.DCs[d].Name, traffic, times(len(p.Proposed.Layout)-1), crossings(s, p.Proposed.Layout))
	}
	within, most := 0.0, 0.0
	pairs := 0
	out, outName := math.Inf(1), ""
	for _, a := range ring {
		for b := range s.DCs {
			switch inside := slices.Contains(ring, b); {
			case inside && a < b:
				within, most, pairs = within+s.RTT[a][b], max(most, s.RTT[a][b]), pairs+1
			case !inside && s.RTT[a][b] < out:
				out, outName = s.RTT[a][b], fmt.Sprintf("%s from %s", s.DCs[b].Name, s.DCs[a].Name)
			}
		}
	}
	text := fmt.Sprintf("Ring %s: %d data centers share a copy, with %s.", name, len(ring), traffic)
	if !s.HasRTT {
		return text
	}
	text += fmt.Sprintf(" Round trips within it are %.0f ms on average and %.0f ms at most",
		within/float64(pairs), most)
	if outName != "" {
		text += fmt.Sprintf("; the nearest outside is %s, %.0f ms", outName, out)
	}
	return text + "."
}

// crossings is how many copies of a put are made in other data centers, on average.
func crossings(s *cost.Scenario, l cost.Layout) float64 {
	counted := *s
	counted.PutBytes = 1
	return counted.Rings(l, 1).PutBytes
}

func times(n int) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// describeSurvival tells how many zones may fail.
func describeSurvival(r *rules, l cost.Layout) string {
	all := 0
	for _, ring := range l {
		all += r.breaking(ring)
	}
	if all == 1 {
		return "No zone may fail: it could be one without which no ring has all keys."
	}
	return fmt.Sprintf("Zones: whichever %d fail, some ring still has all keys.", all-1)
}

// nextBest is the best allowed layout that is one step away: one data center (or those that must stay together) moved
// or swapped, or two rings joined.
func nextBest(s *cost.Scenario, p *Plan, r *rules, o Options) string {
	e := newEvaluator(s, o)
	look := &search{e: e, rules: r, atoms: r.atoms(), left: 1, best: map[int]cost.Layout{}, scores: map[int]float64{}}
	now := make([]int, len(look.atoms))
	for a, atom := range look.atoms {
		for i, ring := range p.Proposed.Layout {
			if slices.Contains(ring, members(atom)[0]) {
				now[a] = i
			}
		}
	}
	var best cost.Layout
	bestScore := math.Inf(1)
	near := joins(now)
	for a := range now {
		near = append(near, stepsOf(now, a)...)
	}
	for _, next := range near {
		l := look.layout(next)
		if bracketed(s, l) == bracketed(s, sorted(p.Proposed.Layout)) {
			continue // the same ring under another number
		}
		if score := e.score(l); r.brokenBy(l) == 0 && score < bestScore {
			best, bestScore = l, score
		}
	}
	if best == nil {
		return "No allowed layout is one step away: the constraints leave no choice."
	}
	return "One step away, the best is " + bracketed(s, best) + ": " +
		change(Evaluate(s, p.Proposed.Layout, o), Evaluate(s, best,
			o)) + "."
}

// change compares the figures of other with ours in words.
func change(ours, other Figures) string {
	return fmt.Sprintf("reads %s, traffic between data centers %s", grows(other.ReadMs, ours.ReadMs, " ms"),
		grows(100*(1-other.SavedBytes), 100*(1-ours.SavedBytes), " % of full replication"))
}

func grows(other, ours float64, unit string) string {
	if math.Abs(other-ours) < 0.005 {
		return fmt.Sprintf("the same (%.2f%s)", ours, unit)
	}
	return fmt.Sprintf("%.2f instead of %.2f%s", other, ours, unit)
}

func against(s *cost.Scenario, r *rules, ours, other Proposal) string {
	what := map[string]string{"today": "Rings of today", "network-aware": "Rings by delay alone"}[other.Name]
	if bracketed(s, sorted(other.Layout)) == bracketed(s, sorted(ours.Layout)) {
		return what + ": the same."
	}
	text := fmt.Sprintf("%s, %s: %s.", what, bracketed(s, other.Layout), change(ours.Figures, other.Figures))
	if r.brokenBy(other.Layout) > 0 {
		text += " They do not keep to the constraints."
	}
	return text
}

// bracketed formats a layout as [a b] [c].
func bracketed(s *cost.Scenario, l cost.Layout) string {
	var rings []string
	for _, ring := range l {
		var names []string
		for _, d := range ring {
			names = append(names, s.DCs[d].Name)
		}
		rings = append(rings, "["+strings.Join(names, " ")+"]")
	}
	return strings.Join(rings, " ")
}
