package local

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/causalstore/causalstore/console"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// behindAfter is the lag from which a ring counts as behind: no WAN is so slow.
const behindAfter = 5 * time.Second

// problems returns what is wrong in a snapshot, the worst first: each with what it means and the section of the runbooks to read.
func (d *Deployment) problems(s *console.Snapshot) (found []console.Problem) {
	found = append(found, d.networkProblems(s.Links)...)
	for i := range s.DataCenters {
		dc := &s.DataCenters[i]
		found = append(found, d.partProblems(dc)...)
		found = append(found, lagProblems(dc)...)
	}
	slices.SortStableFunc(found, func(a, b console.Problem) int { return strings.Compare(string(a.Severity), string(b.Severity)) }) // critical, warning
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

// consequences says what the loss of a part means while it lasts.
var consequences = map[string]string{
	topology.Coordinator.String(): "Writes here go to another coordinator, or to another data center; its own wait.",
	topology.Middleman.String():   "Its keys are read from other rings; writes of them wait.",
	topology.Cache.String():       "Reads here go to shards.",
}

func (d *Deployment) partProblems(dc *console.DataCenter) (found []console.Problem) {
	for i := range dc.Parts {
		switch p := &dc.Parts[i]; p.State {
		case console.PartDown, console.PartHung:
			severity, means := console.Critical, consequences[p.Kind]
			if p.Kind == topology.Cache.String() {
				severity = console.Warning
			}
			if p.Member != 0 {
				severity, means = console.Warning, "Another member serves, if most of them are up."
			}
			is := "is down"
			if p.State == console.PartHung {
				is = "hangs"
			}
			found = append(found, console.Problem{Severity: severity, DataCenter: dc.Name, Runbook: "CausalStorePartDown",
				Text: fmt.Sprintf("%s of %s %s. %s", capitalize(p.Name), dc.Name, is, means)})
		case console.PartIdle:
			found = append(found, console.Problem{Severity: console.Warning, DataCenter: dc.Name, Runbook: "CausalStorePartNotReady",
				Text: fmt.Sprintf("%s of %s does not serve yet.", capitalize(p.Name), dc.Name)})
		}
	}
	return found
}

func capitalize(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func lagProblems(dc *console.DataCenter) (found []console.Problem) {
	if dc.BufferBytes != nil && *dc.BufferBytes > *dc.BufferLimitBytes*8/10 {
		found = append(found, console.Problem{Severity: console.Critical, DataCenter: dc.Name, Runbook: "CausalStoreWriteBufferFilling",
			Text: fmt.Sprintf("The write buffer of %s is more than four fifths full. When it is full, writes are refused.", dc.Name)})
	}
	var behind []string
	for ring, ms := range dc.RingLagMs {
		if ms != nil && *ms > behindAfter.Milliseconds() {
			behind = append(behind, ring)
		}
	}
	if slices.Sort(behind); len(behind) > 0 {
		found = append(found, console.Problem{Severity: console.Warning, DataCenter: dc.Name, Runbook: "CausalStoreRingBehind",
			Text: fmt.Sprintf("Writes from %s have not reached %s for more than %.0f s. Who has read such a write stays bound.", dc.Name,
				strings.Join(behind, ", "), behindAfter.Seconds())})
	}
	return found
}
