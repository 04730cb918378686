package history

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// parse reads the notation of the tests: one operation a line or between semicolons,
//
//	s1 put x=1 ; s1/c2 get x=1 ; s2 mget x=1 y=- ; s1 del x ; s1 token t ; s2 resume t ; s1 do x=3 INCRBY 2
//
// of which the last one is an update and its reply; a commit has what it has read, what it writes, and its version:
//
//	s1 commit x<1 x=2 y=- @7.2
//
// with "-" for missing, "x=1+2" for two writes of a value that merges, "x=1+" for one, "x=1@7.2" for version (hlc 7,
// origin 2), and the flags "?" outcome unknown, "!" failed, "final", "apart" (a commit of several homes), "[3,9]" start
// and end. By default every operation ends before the next one starts.
func parse(t testing.TB, text string) History {
	t.Helper()
	var h History
	for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == ';' }) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		op := Op{Process: words[0], OK: true, Start: int64(10 * len(h)), End: int64(10*len(h) + 5)}
		op.Session, _, _ = strings.Cut(words[0], "/")
		kind := map[string]OpKind{"put": Put, "get": Get, "del": Delete, "mget": MGet, "token": Token, "resume": Resume,
			"add": Add, "do": Update, "commit": Commit}
		op.Kind = kind[words[1]]
		for _, word := range words[2:] {
			switch {
			case word == "?":
				op.OK, op.Unknown = false, true
			case word == "!":
				op.OK = false
			case word == "apart":
				op.Apart = true
			case word == "in-flight":
				op.InFlight = true
			case word == "final":
				op.Final = true
			case word[0] == '[':
				if _, err := fmt.Sscanf(word, "[%d,%d]", &op.Start, &op.End); err != nil {
					t.Fatalf("%q: %v", word, err)
				}
			case op.Kind == Commit:
				parseCommitted(t, &op, word)
			case op.Kind == Token || op.Kind == Resume:
				op.Token = word
			case op.Kind == Update && op.Key != "":
				op.Command = append(op.Command, word)
			default:
				r := parseRead(t, word)
				if op.Kind == MGet {
					op.Reads = append(op.Reads, r)
				} else {
					op.Key, op.Value, op.Missing, op.Version, op.Parts = r.Key, r.Value,
						r.Missing && (op.Kind == Get || op.Kind == Update), r.Version, r.Parts
				}
			}
		}
		h = append(h, op)
	}
	return h
}

// parseCommitted adds what a commit has read or written, or its version.
func parseCommitted(t testing.TB, op *Op, word string) {
	t.Helper()
	switch key, value, read := strings.Cut(word, "<"); {
	case read:
		op.Reads = append(op.Reads, parseRead(t, key+"="+value))
	case word[0] == '@':
		op.Version = parseVersioned(t, word).Version
	default:
		op.Writes = append(op.Writes, parseRead(t, word))
	}
}

func parseRead(t testing.TB, word string) Read {
	t.Helper()
	if key, parts, _ := strings.Cut(word, "="); strings.Contains(parts, "+") {
		r := Read{Key: key}
		for part := range strings.SplitSeq(strings.TrimSuffix(parts, "+"), "+") {
			p := parseVersioned(t, key+"="+part)
			r.Parts = append(r.Parts, Part{p.Value, p.Version})
		}
		return r
	}
	return parseVersioned(t, word)
}

func parseVersioned(t testing.TB, word string) Read {
	t.Helper()
	word, version, versioned := strings.Cut(word, "@")
	key, value, _ := strings.Cut(word, "=")
	r := Read{Key: key, Value: value}
	if value == "-" {
		r.Value, r.Missing = "", true
	}
	if versioned {
		hlc, origin, _ := strings.Cut(version, ".")
		a, err := strconv.ParseUint(hlc, 10, 64)
		b, err2 := strconv.ParseUint(origin, 10, 32)
		if err != nil || err2 != nil {
			t.Fatalf("bad version in %q", word)
		}
		r.Version = causal.Version{HLC: causal.HLC(a), Origin: topology.Origin(b)}
	}
	return r
}
