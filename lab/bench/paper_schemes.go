package bench

import (
	"fmt"
	"slices"
	"strings"
)

// Scheme is a way to keep data causally consistent. All schemes run the same program.
type Scheme struct {
	// Name is used in tables and charts.
	Name string `json:"name"`
	// About describes it.
	About string `json:"about"`
	// Flags are the flags of `causalstore local` that select it.
	Flags []string `json:"flags,omitempty"`
	// Ideal gives every data center a full copy of the data: a ring of its own.
	Ideal bool `json:"ideal,omitempty"`
}

// The schemes. COPS-PR, COPS-Ideal and Karma-NC are the baselines of the Karma paper (section 5).
var (
	causalStore = Scheme{Name: "CausalStore", About: "everything on", Flags: []string{"--reads", "snapshot"}}
	// Its sessions are those of sidecars, and not of connections: scope DataCenter has no others where apps have a
	// sidecar.
	oneRedis = Scheme{Name: "CausalStore one Redis",
		About: "scope DataCenter: as CausalStore, with near copies, and all clients of a data center are as at " +
			"one Redis",
		Flags: []string{"--session-scope", "datacenter"}}
	latestReads = Scheme{Name: "CausalStore latest",
		About: "without Snapshot reads: a read takes the newest version and is bound " +
			"by it",
		Flags: []string{"--reads", "latest"}}
	karma = Scheme{Name: "Karma",
		About: "as published: the newest version, one ring while bound, one put after the other, asks " +
			"every ring",
		Flags: []string{"--reads", "latest", "--without", "ring-sets,pipelining,sv-lifting"}}
	karmaNC = Scheme{Name: "Karma-NC", About: "Karma without caches",
		Flags: []string{"--reads", "latest", "--without", "ring-sets,pipelining,sv-lifting", "--cache=false"}}
	copsPR = Scheme{Name: "COPS-PR",
		About: "partial replication in the same rings; every session stays in the ring of its data " +
			"center; no caches",
		Flags: []string{"--binding", "static", "--cache=false"}}
	copsIdeal = Scheme{Name: "COPS-Ideal", About: "full replication: a whole copy in every data center; no caches",
		Flags: []string{"--binding", "static", "--cache=false"}, Ideal: true}

	withoutRingSets = Scheme{Name: "without ring sets",
		About: "a bound session stays in the one ring that it read from",
		Flags: []string{"--reads", "snapshot", "--without", "ring-sets"}}
	withoutPipelining = Scheme{Name: "without pipelining",
		About: "a session's put waits in each ring for the one before",
		Flags: []string{"--reads", "snapshot", "--without", "pipelining"}}
	withoutSVLifting = Scheme{Name: "without SV lifting",
		About: "a bound session asks every ring, and does not wait for the vectors",
		Flags: []string{"--reads", "snapshot", "--without", "sv-lifting"}}
)

// allSchemes are in the order of tables.
var allSchemes = []Scheme{causalStore, oneRedis, latestReads, karma, karmaNC, copsPR, copsIdeal, withoutRingSets,
	withoutPipelining,
	withoutSVLifting}

// schemesIn returns the schemes with these names, in the order of tables.
func schemesIn(names []string) []Scheme {
	return slices.DeleteFunc(slices.Clone(allSchemes), func(s Scheme) bool { return !slices.Contains(names, s.Name) })
}

// unpipelined reports whether each put of a session takes a round trip.
func (s Scheme) unpipelined() bool {
	return slices.ContainsFunc(s.Flags, func(f string) bool { return strings.Contains(f, "pipelining") })
}

// caches reports whether the scheme has caches to warm.
func (s Scheme) caches() bool { return !slices.Contains(s.Flags, "--cache=false") }

// folder is the directory name for the data of a system.
func folder(parts ...any) string {
	return strings.ReplaceAll(strings.TrimSpace(fmt.Sprintln(parts...)), " ", "-")
}
