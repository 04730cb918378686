package local

import (
	"fmt"
	"slices"

	"github.com/causalstore/causalstore/console"
)

// problems returns what is wrong in a snapshot, the worst first: each with what it means and the section of the runbooks to read.
func (d *Deployment) problems(s *console.Snapshot) (found []console.Problem) {
	found = append(found, d.networkProblems(s.Links)...)
	for i := range s.DataCenters {
		dc := &s.DataCenters[i]
		found = append(found, console.PartProblems(dc)...)
		found = append(found, console.LagProblems(dc)...)
	}
	console.SortProblems(found)
	return found
}

func (d *Deployment) networkProblems(links []console.Link) (found []console.Problem) {
	cut := map[string][]string{}
	for _, l := range links {
		if l.CutAB || l.CutBA {
			cut[l.A] = append(cut[l.A], l.B)
			cut[l.B] = append(cut[l.B], l.A)
		} else if l.RoundTripMs != nil && *l.RoundTripMs > 2*l.DeclaredMs+100 {
			found = append(found, console.Problem{Severity: console.Warning, DataCenter: l.A, Runbook: "CausalStoreRingBehind",
				Text: fmt.Sprintf("The round trip between %s and %s is %.0f ms, declared are %.0f ms.", l.A, l.B, *l.RoundTripMs, l.DeclaredMs)})
		}
	}
	for _, dc := range d.topo.DCs {
		switch others := cut[dc.Name]; {
		case len(others) == len(d.topo.DCs)-1 && len(others) > 1:
			found = append(found, console.Problem{Severity: console.Critical, DataCenter: dc.Name, Runbook: "CausalStorePeersDisconnected",
				Text: fmt.Sprintf("%s is cut off from all others. Writes wait until it is back; reads of its keys go to other rings.", dc.Name)})
			delete(cut, dc.Name)
			for _, o := range others {
				cut[o] = slices.DeleteFunc(cut[o], func(name string) bool { return name == dc.Name })
			}
		}
	}
	for _, dc := range d.topo.DCs {
		for _, o := range cut[dc.Name] {
			if dc.Name < o {
				found = append(found, console.Problem{Severity: console.Critical, DataCenter: dc.Name, Runbook: "CausalStorePeersDisconnected",
					Text: fmt.Sprintf("The link between %s and %s is cut. Writes from one to the other wait.", dc.Name, o)})
			}
		}
	}
	return found
}
