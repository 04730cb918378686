package operation

import (
	"slices"
	"strconv"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// Operations of a pipeline that follow one another on one key are sent as one where their replies follow from the last
// value: the home then writes one record for all of them.

// Join returns the operation that does what o and then next do, if both add numbers of the same sign, or append.
func (o Operation) Join(next *Operation) (joined Operation, ok bool) {
	switch {
	case o.Kind != next.Kind, o.Limit != next.Limit:
		return o, false
	case o.Kind == Add && (o.Number < 0) == (next.Number < 0):
		o.Number, ok = addInt(o.Number, next.Number)
	case o.Kind == Append && len(o.Data)+len(next.Data) <= o.Limit:
		if !o.Joined {
			o.Data = slices.Clip(o.Data)
		}
		o.Data, ok = append(o.Data, next.Data...), true
	}
	o.Joined = true
	return o, ok
}

// Undo returns the outcome of the operation that was joined before o, by that of o.
func (o *Operation) Undo(r Outcome) Outcome {
	switch {
	case !r.Writes:
	case o.Kind == Append:
		r.Next.Data = r.Next.Data[:len(r.Next.Data)-len(o.Data)]
	case o.Kind == Add:
		n, _ := ParseInt(r.Next.Data)
		r.Next = causal.Value{Data: strconv.AppendInt(nil, n-o.Number, 10), ExpireAtMs: r.Next.ExpireAtMs}
	}
	return r
}
