package history

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// OpKind is the kind of an operation.
type OpKind uint8

// The kinds of operations.
const (
	Get OpKind = iota + 1
	Put
	Delete
	MGet
	// Token exports the session's state; Resume continues it in another session (PROTOCOL SES).
	Token
	Resume
	// Add is a write that leaves the other writes of the key in place: the value merges (parts.go).
	Add
	// Update is a command that reads a key and may write it in one step (update.go).
	Update
	// Commit writes several keys in one step, in which it may have read some (commit.go).
	Commit
)

var opNames = [...]string{"", "get", "put", "delete", "mget", "token", "resume", "add", "update",
	"commit"}

func (k OpKind) String() string {
	if k >= Get && k <= Commit {
		return opNames[k]
	}
	return fmt.Sprintf("op(%d)", uint8(k))
}

// Read is one key of an MGet and what it returned.
type Read struct {
	Key, Value string
	Version    causal.Version
	Missing    bool
	// Parts are the writes of a value that merges, in place of Value. What a commit writes is an add if it has a part.
	Parts []Part
}

// Op is one operation. The package comment explains its fields.
type Op struct {
	Session, Process string
	Key, Value       string
	Token            string
	Source           string // reads: where the endpoint says that it was answered; empty: unknown
	DC               string
	Reads            []Read         // MGet and Commit; Add: what it was accepted on, if it had to be the newest
	Writes           []Read         // Commit: in order; those that are Missing are deletes
	Parts            []Part         // Get: the writes of a value that merges, in place of Value
	Command          []string       // Update: without its key; Value or Missing is the reply
	Version          causal.Version // zero if unknown; Commit: of the last one of its writes, which are consecutive
	Start, End       int64          // nanoseconds
	Kind             OpKind
	Level            causal.Level // of reads; zero: that of the session, which is any that promises causal+
	OK               bool
	Unknown          bool // writes: the outcome is unknown
	Missing          bool // Get: there was no value. Update: the reply is nil
	InFlight         bool // reads: a version that was read was not complete
	Apart            bool // Commit: each of Writes has a version of its own, or none is known
	Final            bool // Get and MGet: read after quiescence
}

// History is a list of operations, those of each process in its order.
type History []Op

func (o *Op) isRead() bool  { return o.Kind == Get || o.Kind == MGet }
func (o *Op) isWrite() bool { return o.Kind == Put || o.Kind == Delete || o.Kind == Add }

// Keys returns the keys that an operation names.
func (o *Op) Keys() (keys []string) {
	if o.Key != "" {
		keys = append(keys, o.Key)
	}
	for _, r := range slices.Concat(o.Reads, o.Writes) {
		keys = append(keys, r.Key)
	}
	return keys
}

// MayWrite reports whether an operation is no mere read.
func (o *Op) MayWrite() bool { return !o.isRead() && o.Kind != Token && o.Kind != Resume }

func (o *Op) process() string {
	if o.Process == "" {
		return o.Session
	}
	return o.Process
}

// shownBytes is how much of a value or key an explanation shows: load generators pad values to a size.
const shownBytes = 48

func shown(s string) string {
	if len(s) > shownBytes {
		s = s[:shownBytes] + "..."
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return strconv.Quote(s)
		}
	}
	return s
}

// String returns the short form used in explanations: "s1 put x=1".
func (o *Op) String() string {
	var b strings.Builder
	b.WriteString(o.process())
	b.WriteByte(' ')
	if o.Kind != Update {
		b.WriteString(o.Kind.String())
	}
	switch o.Kind {
	case Put, Add:
		showRead(&b, Read{Key: o.Key, Value: o.Value, Version: o.Version})
	case Get:
		showRead(&b, Read{Key: o.Key, Value: o.Value, Missing: o.Missing, Version: o.Version, Parts: o.Parts})
	case Update:
		o.showUpdate(&b)
	case Commit:
		o.showCommit(&b)
	case Delete:
		b.WriteString(" " + shown(o.Key))
		showVersion(&b, o.Version)
	case MGet:
		for _, r := range o.Reads {
			showRead(&b, r)
		}
	case Token, Resume:
		b.WriteString(" " + shown(o.Token))
	}
	switch {
	case o.Unknown:
		b.WriteString(" [outcome unknown]")
	case !o.OK:
		b.WriteString(" [failed]")
	}
	if o.Final {
		b.WriteString(" [final]")
	}
	return b.String()
}

func showRead(b *strings.Builder, r Read) {
	b.WriteString(" " + shown(r.Key) + "=")
	switch {
	case r.Missing:
		b.WriteString("<missing>")
	case len(r.Parts) > 0:
		for i, p := range r.Parts {
			if i > 0 {
				b.WriteByte('+')
			}
			b.WriteString(shown(p.Value))
			showVersion(b, p.Version)
		}
		return
	default:
		b.WriteString(shown(r.Value))
	}
	showVersion(b, r.Version)
}

func showVersion(b *strings.Builder, v causal.Version) {
	if !v.IsZero() {
		b.WriteString(" (" + FormatVersion(v) + ")")
	}
}

// FormatVersion returns "<hlc>@<origin>".
func FormatVersion(v causal.Version) string {
	return string(appendVersion(make([]byte, 0, 32), v))
}

func appendVersion(b []byte, v causal.Version) []byte {
	b = strconv.AppendUint(b, uint64(v.HLC), 10)
	b = append(b, '@')
	return strconv.AppendUint(b, uint64(v.Origin), 10)
}

// ParseVersion parses "<hlc>@<origin>" and "<ms>.<counter>@<origin>".
func ParseVersion(s string) (causal.Version, error) {
	bad := func() (causal.Version, error) {
		return causal.Version{}, fmt.Errorf("version %q is neither <hlc>@<origin> nor <ms>.<counter>@<origin>", s)
	}
	clock, origin, found := strings.Cut(s, "@")
	if !found {
		return bad()
	}
	o, err := strconv.ParseUint(origin, 10, 32)
	if err != nil {
		return bad()
	}
	ms, counter, split := strings.Cut(clock, ".")
	bits := 64
	if split {
		bits = 48
	}
	hlc, err := strconv.ParseUint(ms, 10, bits)
	if err != nil {
		return bad()
	}
	if split {
		n, err := strconv.ParseUint(counter, 10, 16)
		if err != nil {
			return bad()
		}
		hlc = hlc<<16 | n
	}
	return causal.Version{HLC: causal.HLC(hlc), Origin: topology.Origin(o)}, nil
}
