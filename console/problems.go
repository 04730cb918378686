package console

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// behindAfter is the lag from which a ring counts as behind: no WAN is so slow.
const behindAfter = 5 * time.Second

// SortProblems puts the worst first.
func SortProblems(all []Problem) {
	// critical, warning
	slices.SortStableFunc(all, func(a, b Problem) int {
		return strings.Compare(string(a.Severity), string(b.Severity))
	})
}

// consequences says what the loss of a part means while it lasts, by its kind.
var consequences = map[string]string{
	"coordinator": "Writes here go to another coordinator, or to another data center; one that was sent to it may " +
		"end with UNKNOWN. Those in flight that it had accepted are not complete until it is back.",
	"middleman": "Its keys are read from other rings. A write of them gets OK at once, and is not complete " +
		"until it is back.",
	"cache": "Reads here go to shards.",
}

// PartProblems returns what is wrong with the parts of a data center.
func PartProblems(dc *DataCenter) (found []Problem) {
	for i := range dc.Parts {
		switch p := &dc.Parts[i]; p.State {
		case PartDown, PartHung:
			severity, means := Critical, consequences[p.Kind]
			if p.Kind == "cache" {
				severity = Warning
			}
			if p.Member != 0 {
				severity, means = Warning, "Another member serves, if most of them are up."
			}
			is := "is down"
			if p.State == PartHung {
				is = "hangs"
			}
			found = append(found, Problem{Severity: severity, DataCenter: dc.Name, Part: p.Name,
				Runbook: "CausalStorePartDown",
				Text:    fmt.Sprintf("%s of %s %s. %s", capitalize(p.Name), dc.Name, is, means)})
		case PartIdle:
			found = append(found, Problem{Severity: Warning, DataCenter: dc.Name, Part: p.Name,
				Runbook: "CausalStorePartNotReady",
				Text:    fmt.Sprintf("%s of %s does not serve yet.", capitalize(p.Name), dc.Name)})
		}
	}
	return found
}

func capitalize(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// LagProblems returns where writes of a data center wait.
func LagProblems(dc *DataCenter) (found []Problem) {
	if dc.BufferBytes != nil && *dc.BufferBytes > *dc.BufferLimitBytes*8/10 {
		found = append(found, Problem{Severity: Critical, DataCenter: dc.Name, Runbook: "CausalStoreWriteBufferFilling",
			Text: fmt.Sprintf(
				"The write buffer of %s is more than four fifths full. When it is full, writes are refused.", dc.Name)})
	}
	var behind []string
	for ring, ms := range dc.RingLagMs {
		if ms != nil && *ms > behindAfter.Milliseconds() {
			behind = append(behind, ring)
		}
	}
	if slices.Sort(behind); len(behind) > 0 {
		found = append(found, Problem{Severity: Warning, DataCenter: dc.Name, Runbook: "CausalStoreRingBehind",
			Text: fmt.Sprintf(
				"Writes from %s have not reached %s for more than %.0f s. A session that has read such a write "+
					"stays bound.", dc.Name,
				strings.Join(behind, ", "), behindAfter.Seconds())})
	}
	return found
}
