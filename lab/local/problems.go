package local

import (
	"fmt"
	"slices"

	"github.com/causalstore/causalstore/console"
)

// problems returns what is wrong in a snapshot, the worst first: each with what it means and the section of the
// runbooks to read.
func (d *Deployment) problems(s *console.Snapshot) (found []console.Problem) {
	found = append(found, cutProblems(s, d.wholeRings())...)
	found = append(found, slowProblems(s)...)
	for i := range s.DataCenters {
		dc := &s.DataCenters[i]
		found = append(found, console.PartProblems(dc)...)
		found = append(found, console.LagProblems(dc)...)
	}
	console.SortProblems(found)
	return found
}

// wholeRings returns the rings that have one data center only, by the name of that.
func (d *Deployment) wholeRings() map[string]string {
	sites := make([]int, len(d.topo.Rings))
	for i := range d.topo.DCs {
		sites[d.topo.DCs[i].Ring]++
	}
	rings := map[string]string{}
	for i := range d.topo.DCs {
		if dc := &d.topo.DCs[i]; sites[dc.Ring] == 1 {
			rings[dc.Name] = d.topo.Rings[dc.Ring].Name
		}
	}
	return rings
}

// cutProblems returns the cuts: one problem for a data center without any link, else one for each link. A data center
// in wholeRings is the only one of the ring that is named there, so it owns all keys in it.
func cutProblems(s *console.Snapshot, wholeRings map[string]string) (found []console.Problem) {
	cut := map[string][]string{}
	for _, l := range s.Links {
		if l.CutAB || l.CutBA {
			cut[l.A] = append(cut[l.A], l.B)
			cut[l.B] = append(cut[l.B], l.A)
		}
	}
	alone := map[string]bool{}
	for i := range s.DataCenters {
		if name := s.DataCenters[i].Name; len(cut[name]) == len(s.DataCenters)-1 && len(cut[name]) > 1 {
			alone[name] = true
			text := fmt.Sprintf(
				"%s is cut off from all others, which read its keys from other rings. A write of one of its keys, or "+
					"from there, gets OK at once, and is not complete until it is back.", name)
			if ring, whole := wholeRings[name]; whole {
				text = fmt.Sprintf(
					"%s, which is all of ring %s, is cut off from all others: they read all keys from other rings. "+
						"Every write, here or there, gets OK at once, and is not complete until it is back.",
					name, ring)
			}
			found = append(found, console.Problem{Severity: console.Critical, DataCenter: name,
				Runbook: "CausalStorePeersDisconnected", Text: text})
		}
	}
	for _, l := range s.Links {
		if (l.CutAB || l.CutBA) && !alone[l.A] && !alone[l.B] {
			found = append(found, console.Problem{Severity: console.Critical, DataCenter: l.A, Other: l.B,
				Runbook: "CausalStorePeersDisconnected",
				Text: fmt.Sprintf(
					"The link between %s and %s is cut. A write in one of them of a key that the other one owns gets "+
						"OK at once, and is not complete until the link is back.", l.A, l.B)})
		}
	}
	return found
}

// slowProblems returns the slow links: one problem for a data center whose links are all slow, else one for each link.
// Leaders measure round trips with requests to the parts of the other data center, so those of a data center with a
// part that does not serve say nothing of the network.
func slowProblems(s *console.Snapshot) (found []console.Problem) {
	impaired := map[string]bool{}
	for i := range s.DataCenters {
		dc := &s.DataCenters[i]
		impaired[dc.Name] = slices.ContainsFunc(dc.Parts, func(p console.Part) bool {
			return p.State != console.PartServing && p.State != console.PartFollowing
		})
	}
	measured, slow := map[string]int{}, map[string][]console.Link{}
	for _, l := range s.Links {
		if l.CutAB || l.CutBA || l.RoundTripMs == nil || impaired[l.A] || impaired[l.B] {
			continue
		}
		measured[l.A]++
		measured[l.B]++
		if *l.RoundTripMs > 2*l.DeclaredMs+100 {
			slow[l.A] = append(slow[l.A], l)
			slow[l.B] = append(slow[l.B], l)
		}
	}
	whole := map[string]bool{} // all links are slow
	for i := range s.DataCenters {
		name := s.DataCenters[i].Name
		if links := slow[name]; len(links) > 2 && len(links) == measured[name] {
			whole[name] = true
			now, declared := rangeOf(links, func(l console.Link) float64 {
				return *l.RoundTripMs
			}), rangeOf(links, func(l console.Link) float64 { return l.DeclaredMs })
			found = append(found, console.Problem{Severity: console.Warning, DataCenter: name,
				Runbook: "CausalStoreRingBehind",
				Text: fmt.Sprintf(
					"All links of %s are slow: round trips of %s ms, declared: %s ms. Writes take longer to reach "+
						"it, and from there the other rings.", name, now, declared)})
		}
	}
	for _, l := range s.Links {
		if slices.Contains(slow[l.A], l) && !whole[l.A] && !whole[l.B] {
			found = append(found, console.Problem{Severity: console.Warning, DataCenter: l.A, Other: l.B,
				Runbook: "CausalStoreRingBehind",
				Text: fmt.Sprintf("The link between %s and %s is slow: a round trip of %.0f ms, declared: %.0f ms.",
					l.A, l.B, *l.RoundTripMs, l.DeclaredMs)})
		}
	}
	return found
}

// rangeOf returns the least and the greatest figure of some links, as text.
func rangeOf(links []console.Link, figure func(console.Link) float64) string {
	least, most := figure(links[0]), figure(links[0])
	for _, l := range links {
		least, most = min(least, figure(l)), max(most, figure(l))
	}
	if fmt.Sprintf("%.0f", least) == fmt.Sprintf("%.0f", most) {
		return fmt.Sprintf("%.0f", least)
	}
	return fmt.Sprintf("%.0f to %.0f", least, most)
}
