package load

import (
	"fmt"
	"slices"

	"github.com/causalstore/causalstore/history"
)

// Verb is a kind of operation. Shares and latencies are per verb.
type Verb uint8

// The verbs, with what they send.
const (
	Get             Verb = iota // GET
	MGet                        // MGET
	Set                         // SET of an existing key
	Add                         // SET NX
	Insert                      // SET of a new key
	ReadModifyWrite             // GET, then SET after its reply
	Incr                        // INCR of a counter
	Del                         // DEL
	verbs
	// Update is any other command on one key. Workloads do not have it.
	Update = verbs
)

var verbNames = [verbs]string{"get", "mget", "set", "add", "insert", "rmw", "incr", "del"}

func (v Verb) String() string {
	switch {
	case v < verbs:
		return verbNames[v]
	case v == Update:
		return "update"
	}
	return fmt.Sprintf("verb(%d)", uint8(v))
}

func parseVerb(name string) (Verb, error) {
	i := slices.Index(verbNames[:], name)
	if i < 0 {
		return 0, fmt.Errorf("operation %q: it must be one of %v", name, verbNames)
	}
	return Verb(i), nil
}

// recordable reports whether a history can express the verb.
func (v Verb) recordable() bool { return v != Add && v != Incr }

// kind is what an operation is in a history. For verbs that are not recordable it tells whether they write.
func (v Verb) kind() history.OpKind {
	switch v {
	case Get, ReadModifyWrite:
		return history.Get
	case MGet:
		return history.MGet
	case Del:
		return history.Delete
	default:
		return history.Put
	}
}
