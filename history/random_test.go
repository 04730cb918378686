package history

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// folded is what a report found, in the reference's names.
func folded(r Report, h History) map[Kind]bool {
	kinds := map[Kind]bool{}
	for _, v := range r.Violations {
		k := v.Kind
		if k == ReadYourWrites || k == MonotonicReads {
			k = StaleRead
			if strings.Contains(v.Text, "as missing") {
				k = MissingRead
			}
		}
		kinds[k] = true
	}
	return kinds
}

// show prints a history so that a failure can be made into a case.
func show(h History) string {
	var b strings.Builder
	for i := range h {
		fmt.Fprintf(&b, "  %s [%d,%d]\n", h[i].String(), h[i].Start, h[i].End)
	}
	return b.String()
}

type versionMode int

const (
	noVersions versionMode = iota
	someVersions
	allVersions
)

// randomHistory makes up operations with no regard to any order, so that every violation turns up, among few keys and
// operations, so that many histories have none.
func randomHistory(r *rand.Rand, mode versionMode) History {
	n := 2 + r.IntN(9)
	keys, sessions := 1+r.IntN(2), 1+r.IntN(3)
	if r.IntN(20) == 0 {
		n, keys, sessions = n+20, keys+2, sessions+3
	}
	type proc struct{ start, end int64 }
	procs := map[string]*proc{}
	final := map[string]bool{}
	var h History
	var puts []int
	version := func() causal.Version {
		if mode == noVersions || mode == someVersions && r.IntN(2) == 0 {
			return causal.Version{}
		}
		hlc := len(h) + 1
		if r.IntN(8) == 0 {
			hlc = r.IntN(n)
		}
		return causal.Version{HLC: causal.HLC(hlc), Origin: topology.Origin(1 + r.IntN(2))}
	}
	now := int64(0)
	tokens := 0
	for i := range n {
		now += int64(r.IntN(6))
		s := fmt.Sprintf("s%d", r.IntN(sessions))
		p := fmt.Sprintf("%s/%d", s, r.IntN(2))
		at := procs[p]
		if at == nil {
			at = &proc{}
			procs[p] = at
		}
		start := max(now-int64(r.IntN(4)), at.start)
		if r.IntN(5) > 0 {
			start = max(start, at.end)
		}
		end := max(start+int64(r.IntN(12)), at.end)
		at.start, at.end = start, end
		op := Op{Session: s, Process: p, Start: start, End: end, OK: true, Key: fmt.Sprintf("k%d", r.IntN(keys))}
		read := func(key string) Read {
			e := Read{Key: key, Missing: true}
			for range 4 {
				if len(puts) == 0 || r.IntN(6) == 0 {
					break
				}
				w := &h[puts[r.IntN(len(puts))]]
				if w.Key != key || !w.OK && !w.Unknown && r.IntN(4) > 0 {
					continue
				}
				e.Value, e.Missing = w.Value, w.Kind == Delete
				if mode != noVersions && r.IntN(3) > 0 {
					e.Version = w.Version
				}
				if mode != noVersions && e.Version.IsZero() && r.IntN(4) == 0 {
					e.Version = version()
				}
				break
			}
			return e
		}
		kind := r.IntN(20)
		if final[p] || i > n-3 && r.IntN(3) == 0 {
			kind = 12 + r.IntN(7)
			op.Final, final[p] = true, true
		}
		switch {
		case kind < 8:
			op.Kind, op.Value, op.Version = Put, fmt.Sprint(i), version()
		case kind < 11:
			op.Kind, op.Version = Delete, version()
		case kind < 16:
			e := read(op.Key)
			op.Kind, op.Value, op.Missing, op.Version = Get, e.Value, e.Missing, e.Version
		case kind < 19:
			op.Kind = MGet
			for k := range keys {
				op.Reads = append(op.Reads, read(fmt.Sprintf("k%d", k)))
			}
			op.Key = ""
		case tokens > 0 && r.IntN(2) == 0:
			op.Kind, op.Token = Resume, fmt.Sprint(r.IntN(tokens))
		default:
			op.Kind, op.Token = Token, fmt.Sprint(tokens)
			tokens++
		}
		if op.isWrite() && r.IntN(5) == 0 {
			op.OK, op.Unknown = false, true
		} else if op.Kind != Token && r.IntN(15) == 0 {
			op.OK = false
		}
		if op.isWrite() {
			puts = append(puts, len(h))
		}
		h = append(h, op)
	}
	// Reads may also come before the writes they read.
	if r.IntN(3) == 0 {
		for i := range h {
			if j := r.IntN(len(h)); h[i].Kind == Get && h[j].Kind == Put && h[j].OK {
				h[i].Key, h[i].Value, h[i].Missing, h[i].Version = h[j].Key, h[j].Value, false, h[j].Version
				break
			}
		}
	}
	return h
}

func TestCheckerAgreesWithTheReferenceOnRandomHistories(t *testing.T) {
	rounds := 30000
	if testing.Short() {
		rounds = 6000
	}
	var c Checker
	seen := map[Kind]int{}
	accepted := 0
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 1))
		mode := versionMode(seed % 3)
		h := randomHistory(r, mode)
		report := c.Check(h, Options{MaxViolations: 1000})
		if report.Has(Malformed) {
			t.Fatalf("seed %d: %v\n%s", seed, report, show(h))
		}
		got, want := folded(report, h), kindsOf(h)
		for k := range want {
			seen[k]++
		}
		if len(want) == 0 {
			accepted++
		}
		if got[Cycle] && want[Cycle] {
			// After a cycle only the rules that need no order are compared.
			for _, k := range []Kind{StaleRead, MissingRead, Snapshot, LostWrite, Convergence, VersionOrder} {
				delete(got, k)
				delete(want, k)
			}
		}
		if got[VersionOrder] && want[VersionOrder] || got[VersionReused] && want[VersionReused] {
			// What supersedes what is not well defined then, and the checker keeps only the greatest and the last
			// writes.
			for _, k := range []Kind{MissingRead, StaleRead, Snapshot, LostWrite, Convergence} {
				delete(got, k)
				delete(want, k)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("seed %d, mode %d: got %v, the reference says %v\n%v\n%s", seed, mode, got, want, report, show(h))
		}
	}
	t.Logf("%d of %d accepted; refused for %v", accepted, rounds, seen)
	for _, k := range []Kind{ThinAir, Cycle, MissingRead, StaleRead, Convergence, VersionOrder, VersionMismatch,
		VersionReused, Snapshot, Diverged, LostWrite} {
		if seen[k] < rounds/2000 {
			t.Errorf("only %d histories with %s: the generator must be widened", seen[k], k)
		}
	}
	if accepted < rounds/10 {
		t.Errorf("only %d histories are causal+: the generator must be narrowed", accepted)
	}
}
