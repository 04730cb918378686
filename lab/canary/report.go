package canary

// SampleKind is what a Sample measures.
type SampleKind string

// The kinds of samples.
const (
	// Complete: a write was made, and OK says whether it was in every ring before the time ran out.
	Complete SampleKind = "complete"
	// Bound: whether the sessions may not read from every ring. OK is false while one of them is bound.
	Bound SampleKind = "bound"
	// Forged: a value was read that no canary of the run has written. Text shows it.
	Forged SampleKind = "forged"
)

// Sample is a measurement that is not an operation of the history. Times are nanoseconds since 1970 on the clock of the
// canary.
type Sample struct {
	Kind  SampleKind `json:"kind"`
	Start int64      `json:"start"`
	End   int64      `json:"end"`
	OK    bool       `json:"ok"`
	Text  string     `json:"text,omitempty"`
}

// Report is what a canary has seen since a position.
type Report struct {
	DataCenter string `json:"dataCenter"`
	// Now is the time on the clock of the canary, in nanoseconds since 1970.
	Now int64 `json:"now"`
	// History has operations as JSON lines, in the format of history.
	History string   `json:"history,omitempty"`
	Samples []Sample `json:"samples,omitempty"`
	// Next is the position to ask from the next time.
	Next Position `json:"next"`
	// Stopped says that no further operation will be made.
	Stopped bool `json:"stopped"`
	// Full says that the canary stopped by itself, because nobody fetched what it has seen, or there is too much of it.
	Full bool `json:"full,omitempty"`
	// Errors counts failed operations by kind.
	Errors map[string]int `json:"errors,omitempty"`
}

// Position is how much of a canary's report has been fetched.
type Position struct {
	// Incarnation names the canary that the others are of. One that was stopped, and runs again, has another name, and
	// begins at 0. Earlier versions have none.
	Incarnation string `json:"incarnation,omitempty"`

	Bytes   int `json:"bytes"`
	Samples int `json:"samples"`
}
