package bench

import (
	"fmt"
	"slices"
	"strings"
)

// Scheme is a way to keep data causally consistent; all run the same program.
type Scheme struct {
	// Name is how tables and charts call it.
	Name string `json:"name"`
	// About says what it does.
	About string `json:"about"`
	// Flags of `causalstore local` make it.
	Flags []string `json:"flags,omitempty"`
	// Ideal gives every data centre a full copy of the data, a ring of its own.
	Ideal bool `json:"ideal,omitempty"`
}

// The schemes. COPS-PR, COPS-Ideal and Karma-NC are those that Karma was compared with (section 5).
var (
	causalStore = Scheme{Name: "CausalStore", About: "everything on", Flags: []string{"--reads", "snapshot"}}
	latestReads = Scheme{Name: "CausalStore latest", About: "without Snapshot reads: a read takes the newest version and is bound " +
		"by it",
		Flags: []string{"--reads", "latest"}}
	karma = Scheme{Name: "Karma", About: "as published: the newest version, one ring while bound, one put after the other, asks " +
		"every ring",
		Flags: []string{"--reads", "latest", "--without", "ring-sets,pipelining,sv-lifting"}}
	karmaNC = Scheme{Name: "Karma-NC", About: "Karma without caches",
		Flags: []string{"--reads", "latest", "--without", "ring-sets,pipelining,sv-lifting", "--cache=false"}}
	copsPR = Scheme{Name: "COPS-PR", About: "partial replication in the same rings; every session stays in the ring of its data " +
		"centre; no caches",
		Flags: []string{"--binding", "static", "--cache=false"}}
	copsIdeal = Scheme{Name: "COPS-Ideal", About: "full replication: a whole copy in every data centre; no caches",
		Flags: []string{"--binding", "static", "--cache=false"}, Ideal: true}

	withoutRingSets = Scheme{Name: "without ring sets", About: "a bound session stays in the one ring that it read from",
		Flags: []string{"--reads", "snapshot", "--without", "ring-sets"}}
	withoutPipelining = Scheme{Name: "without pipelining", About: "a session's put waits in each ring for the one before",
		Flags: []string{"--reads", "snapshot", "--without", "pipelining"}}
	withoutSVLifting = Scheme{Name: "without SV lifting", About: "a bound session asks every ring, and does not wait for the vectors",
		Flags: []string{"--reads", "snapshot", "--without", "sv-lifting"}}
)

// allSchemes are in the order of tables.
var allSchemes = []Scheme{causalStore, latestReads, karma, karmaNC, copsPR, copsIdeal, withoutRingSets, withoutPipelining,
	withoutSVLifting}

// schemesIn returns those of allSchemes that names holds, in their order.
func schemesIn(names []string) []Scheme {
	return slices.DeleteFunc(slices.Clone(allSchemes), func(s Scheme) bool { return !slices.Contains(names, s.Name) })
}

// unpipelined reports whether a session's puts take a round trip each.
func (s Scheme) unpipelined() bool {
	return slices.ContainsFunc(s.Flags, func(f string) bool { return strings.Contains(f, "pipelining") })
}

// caches reports whether there is something to warm up.
func (s Scheme) caches() bool { return !slices.Contains(s.Flags, "--cache=false") }

// folder is a name for the data of a system.
func folder(parts ...any) string {
	return strings.ReplaceAll(strings.TrimSpace(fmt.Sprintln(parts...)), " ", "-")
}
