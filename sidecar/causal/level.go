package causal

import (
	"fmt"
	"strings"
)

// Level is what a read asks for: which version it may return, and what that does to its session. It is not the Level of
// the API of Kubernetes, which is what a store promises; there, this one is Reads. It belongs to an operation; which
// rings may be read belongs to the deployment (Binding). What the sessions of a sidecar do for each level is in package
// session, and what a history must show in package history, a file for each.
type Level uint8

// The levels.
const (
	// DefaultLevel is the level that the sessions of the sidecar have.
	DefaultLevel Level = iota
	// Latest reads the newest version that causality allows. One that is in-flight binds the session.
	Latest
	// Snapshot reads the newest complete version, at a cut, rather than a newer one that would bind the session. While
	// the cut does not move it is Latest.
	Snapshot
	// Newest is Latest of several keys too: what a ring has, past all copies. Commands that write what follows from
	// what they have read use it, whatever level the session has.
	Newest
	// Local reads the newest version that any client of the data center has written or was shown, at the key's home,
	// and beside it what Snapshot reads. A put follows all that was read there.
	Local

	levelCount
)

var levelNames = [levelCount]string{DefaultLevel: "default", Latest: "Latest", Snapshot: "Snapshot", Newest: "Newest",
	Local: "Local"}

func (l Level) String() string {
	if l >= levelCount {
		return fmt.Sprintf("level(%d)", uint8(l))
	}
	return levelNames[l]
}

// Or returns the level, or that of sessions in the place of DefaultLevel.
func (l Level) Or(ofSessions Level) Level {
	if l == DefaultLevel {
		return ofSessions
	}
	return l
}

// Levels returns all levels that an operation can name.
func Levels() []Level {
	all := make([]Level, 0, levelCount-1)
	for l := DefaultLevel + 1; l < levelCount; l++ {
		all = append(all, l)
	}
	return all
}

// SessionLevels returns the levels that the sessions of a sidecar can have, the default first.
func SessionLevels() []Level { return []Level{Latest, Snapshot} }

// ParseName returns the value of a name, in any case of letters.
func ParseName[T interface{ String() string }](name string, values []T) (value T, ok bool) {
	for _, v := range values {
		if strings.EqualFold(v.String(), name) {
			return v, true
		}
	}
	return value, false
}

// JoinNames returns the names of values for a message: "Latest or Snapshot".
func JoinNames[T interface{ String() string }](values []T) string {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = v.String()
	}
	return strings.Join(names, " or ")
}
