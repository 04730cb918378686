package kubectl

import (
	"io"
	"slices"
	"strings"
	"time"
)

// storeLoad is what `top -o json` prints of a store: rates per second over Seconds, or totals since each process
// started if Seconds is 0. Names of fields do not change.
type storeLoad struct {
	Namespace   string           `json:"namespace"`
	Name        string           `json:"name"`
	Seconds     float64          `json:"seconds"`
	Processes   int              `json:"processes"`
	Answered    int              `json:"answered"`
	DataCenters []dataCenterLoad `json:"dataCenters"`
	// Links are the bytes between coordinators of a data center and parts of another one.
	Links    []linkLoad    `json:"links,omitempty"`
	NoAnswer []unreadEntry `json:"noAnswer,omitempty"`
}

// dataCenterLoad has the work of a data center. Bound are reads by sessions that may not read from every ring. A lag
// that is not known is missing.
type dataCenterLoad struct {
	Name                 string             `json:"name"`
	Commands             float64            `json:"commands"`
	Writes               float64            `json:"writes"`
	Gets                 float64            `json:"gets"`
	Bound                float64            `json:"bound"`
	Reads                map[string]float64 `json:"readsBySource"`
	StabilityLagSeconds  *float64           `json:"stabilityLagSeconds,omitempty"`
	VisibilityLagSeconds *float64           `json:"visibilityLagSeconds,omitempty"`
	Incomplete           float64            `json:"incompleteWrites"`
}

type linkLoad struct {
	From          string  `json:"from"`
	To            string  `json:"to"`
	SentBytes     float64 `json:"sentBytes"`
	ReceivedBytes float64 `json:"receivedBytes"`
}

// unreadEntry is a process that did not answer, or a context that could not be read.
type unreadEntry struct {
	Name  string `json:"name"`
	Error string `json:"error"`
}

// writeJSON writes what is known of the data centers. Those without an entry run elsewhere, or did not answer.
func (s *summary) writeJSON(w io.Writer, namespace, name string, dataCenters []string, period time.Duration,
	unread table) error {
	all := storeLoad{Namespace: namespace, Name: name, Seconds: period.Seconds(), Processes: s.processes,
		Answered:    s.answers,
		DataCenters: []dataCenterLoad{}}
	for _, dc := range dataCenters {
		l := s.loads[dc]
		if l == nil {
			continue
		}
		all.DataCenters = append(all.DataCenters, dataCenterLoad{Name: dc, Commands: l.commands, Writes: l.writes,
			Gets: l.gets, Bound: l.bound,
			Reads: l.reads, StabilityLagSeconds: inSeconds(l.stability), VisibilityLagSeconds: inSeconds(l.visibility),
			Incomplete: l.incomplete})
	}
	for pair, n := range s.traffic {
		all.Links = append(all.Links, linkLoad{pair[0], pair[1], n.sent, n.received})
	}
	slices.SortFunc(all.Links, func(a, b linkLoad) int { return strings.Compare(a.From+" "+a.To, b.From+" "+b.To) })
	slices.SortFunc(s.failed, slices.Compare)
	for _, row := range slices.Concat(unread, s.failed) {
		all.NoAnswer = append(all.NoAnswer, unreadEntry{row[0], row[1]})
	}
	return writeJSON(w, all)
}

func inSeconds(d *time.Duration) *float64 {
	if d == nil {
		return nil
	}
	return new(d.Seconds())
}

// period returns the time between two lists of readings, or 0 if before is nil.
func period(before, now []reading) time.Duration {
	if before == nil {
		return 0
	}
	return now[0].at.Sub(before[0].at)
}
