package history

import (
	"errors"
	"fmt"
	"strings"
)

// The violations of what is promised inside a data center.
const (
	// OldRead: a read returned a version that is older than a write that was acknowledged before.
	OldRead Kind = "old-read"
	// OldWrite: a write got a version that is not above that of a write that was acknowledged before.
	OldWrite Kind = "old-write"
	// NotOneRedis: no order of the operations on a key explains their replies.
	NotOneRedis Kind = "not-one-redis"
	// NotOneStep: no order explains operations on several keys as one step each: a commit was seen in parts, or what
	// one goes by has changed meanwhile.
	NotOneStep Kind = "not-one-step"
)

// PromiseReport is how a promise was kept.
type PromiseReport struct {
	// Judged counts operations, each key of an mget as one. NotJudged counts those that the history does not tell
	// enough of.
	Judged, NotJudged int
	// Keys counts keys, in each data center. Undecided are those for which no answer was found within the bounds.
	Keys      int
	Undecided []string
	// Violations are explained; Total counts them all. A key counts once if it is searched for an order. Of what is not
	// one step, those that are explained are counted.
	Violations []Violation
	Total      int
}

func (p *PromiseReport) add(kind Kind, o DataCenterOptions, text string, ops ...int) {
	if p.Total++; len(p.Violations) < o.MaxViolations {
		p.Violations = append(p.Violations, Violation{Kind: kind, Text: text, Ops: ops})
	}
}

// DataCenterReport is the result of CheckDataCenters.
type DataCenterReport struct {
	// Operations counts operations by key, Keys the keys in each data center.
	Operations, Keys, DataCenters int
	Visibility, Exact, OneStep    PromiseReport
}

// OK reports whether all promises were kept. A key that is not decided does not count as one that is.
func (r *DataCenterReport) OK() bool {
	return r.Visibility.Total+r.Exact.Total+r.OneStep.Total+len(r.Visibility.Undecided)+len(r.Exact.Undecided) == 0
}

// Err returns nil, or an error that lists what is wrong.
func (r *DataCenterReport) Err() error {
	if r.OK() {
		return nil
	}
	return errors.New(r.String())
}

// String returns a text for people: a line for each promise, and one for each violation.
func (r *DataCenterReport) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "inside data centers: %d operations on %d keys of %d data centers", r.Operations, r.Keys,
		r.DataCenters)
	r.Visibility.write(&b, "local visibility", "operations")
	r.Exact.write(&b, "exact commands", "keys")
	r.OneStep.write(&b, "several keys in one step", "cycles")
	return b.String()
}

func (p *PromiseReport) write(b *strings.Builder, name, violated string) {
	fmt.Fprintf(b, "\n  %s: %d operations judged", name, p.Judged)
	if p.NotJudged > 0 {
		fmt.Fprintf(b, " (%d not)", p.NotJudged)
	}
	fmt.Fprintf(b, " on %d keys; %d %s violate it, %d keys not decided", p.Keys, p.Total, violated, len(p.Undecided))
	for _, v := range p.Violations {
		b.WriteString("\n    " + v.String())
	}
	if more := p.Total - len(p.Violations); more > 0 {
		fmt.Fprintf(b, "\n    and %d more", more)
	}
	for i, key := range p.Undecided {
		if i == maxUndecidedShown {
			fmt.Fprintf(b, "\n    and %d more that are not decided", len(p.Undecided)-i)
			break
		}
		b.WriteString("\n    not decided: " + key)
	}
}

// maxUndecidedShown is how many keys are named that were not decided.
const maxUndecidedShown = 5
