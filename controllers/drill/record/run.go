// Package record is what is known of the drills of a store: one ConfigMap for each run, in the namespace of the store.
// The command that runs drills writes them; the operator and the commands that report read them.
package record

import (
	"cmp"
	"slices"
	"time"
)

// Outcome is how a run has ended.
type Outcome string

// Outcomes. A run that was aborted has not failed a promise; a run that has broken one has Failed, also if it was
// aborted for that.
const (
	Running Outcome = "Running"
	Passed  Outcome = "Passed"
	Failed  Outcome = "Failed"
	Aborted Outcome = "Aborted"
)

// Result is whether a promise held.
type Result string

// Results.
const (
	Held        Result = "held"
	Broken      Result = "broken"
	NotMeasured Result = "not measured"
	// NotPromised is of what is measured, and not expected to hold in this drill.
	NotPromised Result = "not promised"
)

// Through is how clients connect to the store.
type Through string

// The ways in which clients connect.
const (
	// Front is the Service of a data center, which leads to its fronts. Runs that earlier versions have kept name none:
	// they are all of this kind.
	Front Through = "front"
	// Sidecar is the sidecar in the client's own pod.
	Sidecar Through = "sidecar"
)

// OrFront is Front if nothing is said.
func (t Through) OrFront() Through { return cmp.Or(t, Front) }

// Run is one run of a drill.
type Run struct {
	// Format is FormatVersion of the program that wrote it.
	Format int    `json:"format"`
	ID     string `json:"id"`
	Drill  string `json:"drill"`
	Title  string `json:"title"`
	Paper  string `json:"paper"`
	Store  string `json:"store"`
	// Namespace and Generation are those of the store.
	Namespace  string `json:"namespace"`
	Generation int64  `json:"generation"`
	// Hit describes what was chosen, such as "data center us-east-1", and HitDataCenters are those whose clients may
	// notice.
	Hit            string   `json:"hit"`
	HitDataCenters []string `json:"hitDataCenters"`
	// Pods are those that experiments selected, Experiments their objects.
	Pods        []string `json:"pods"`
	Experiments []string `json:"experiments"`
	// Canaries are those that watched, such as "us-east-1 (sidecar)". NoSidecars is why there were none with a sidecar
	// in some data center.
	Canaries   []string `json:"canaries,omitempty"`
	NoSidecars string   `json:"noSidecars,omitempty"`
	Version    string   `json:"version"`
	// User is who has run it, and Cluster the address of the API server; empty if that is not known. Settings are the
	// times and limits of the run.
	User     string `json:"user,omitempty"`
	Cluster  string `json:"cluster,omitempty"`
	Settings string `json:"settings,omitempty"`

	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	Phases  []Phase   `json:"phases,omitempty"`
	Events  []Event   `json:"events,omitempty"`

	Outcome  Outcome   `json:"outcome"`
	Reason   string    `json:"reason,omitempty"`
	Promises []Promise `json:"promises,omitempty"`

	Measures   []Measure  `json:"measures,omitempty"`
	Series     []Series   `json:"series,omitempty"`
	Checked    string     `json:"checked,omitempty"`
	Violations []string   `json:"violations,omitempty"`
	Leftovers  []Leftover `json:"leftovers,omitempty"`
	Notes      []string   `json:"notes,omitempty"`
}

// FormatVersion is the version of the format of a run.
const FormatVersion = 1

// Phase names of a run, in their order.
const (
	Baseline  = "baseline"
	Injection = "injection"
	Healing   = "healing"
	After     = "after"
)

// Phase is a stretch of a run.
type Phase struct {
	Name string    `json:"name"`
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// Event is something that happened in a run.
type Event struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// Promise is what a drill tests, and what came out.
type Promise struct {
	Text     string `json:"text"`
	Expected string `json:"expected"`
	Observed string `json:"observed"`
	Result   Result `json:"result"`
}

// Measure has the figures of the clients of one data center in one phase that connect in one way. Times are in
// milliseconds.
type Measure struct {
	Phase      string  `json:"phase"`
	DataCenter string  `json:"dataCenter"`
	Through    Through `json:"through,omitempty"`
	Hit        bool    `json:"hit"`
	// Stopped says that the faults stopped the clients themselves, with their zone. What they saw is no proof against
	// the store.
	Stopped    bool    `json:"stopped,omitempty"`
	Operations int     `json:"operations"`
	Failed     int     `json:"failed"`
	Unknown    int     `json:"unknown"`
	P50        float64 `json:"p50"`
	P99        float64 `json:"p99"`
	// LongestGap is the longest time without a successful operation.
	LongestGap float64 `json:"longestGap"`
	// Complete counts the writes that were in every ring in time, of Completions that were waited for.
	Complete    int `json:"complete"`
	Completions int `json:"completions"`
	// LongestIncomplete is the longest time in which no write that was waited for was in every ring.
	LongestIncomplete float64 `json:"longestIncomplete"`
	// LongestBound is the longest time in which a session of the canary was not free to read from every ring.
	LongestBound float64 `json:"longestBound"`
}

// Series has a point for each second of the run. Seconds without an operation have no latency (0).
type Series struct {
	DataCenter string    `json:"dataCenter"`
	Through    Through   `json:"through,omitempty"`
	Hit        bool      `json:"hit"`
	OK         []int     `json:"ok"`
	Failed     []int     `json:"failed"`
	P99        []float64 `json:"p99"`
}

// Leftover is something that an experiment left behind.
type Leftover struct {
	Object  string `json:"object"`
	What    string `json:"what"`
	Remedy  string `json:"remedy"`
	Removed bool   `json:"removed"`
}

// Find returns a measure, or nil.
func (r *Run) Find(phase, dc string, through Through) *Measure {
	i := slices.IndexFunc(r.Measures, func(m Measure) bool {
		return m.Phase == phase && m.DataCenter == dc && m.Through.OrFront() == through
	})
	if i < 0 {
		return nil
	}
	return &r.Measures[i]
}
