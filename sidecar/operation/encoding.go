package operation

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// A put carries an operation in place of a value, as the data of a value of the type causal.Operation. A part that does
// not know the type, or the operation, refuses the put, and the sidecar executes the operation itself.

const (
	flagKeepExpireTime = 1 << iota
	flagFollows
	flagJoined
	flagFound
	flagFoundMerges // what was found is a value that merges
	flagSums        // who has sent it reads strings to which numbers were added
	allFlags        = 1<<iota - 1
)

// Value returns what a put carries to have the operation executed. follows says that it may be executed only if the put
// before it in the session was.
func (o *Operation) Value(follows bool) causal.Value {
	flags := byte(flagSums)
	if o.KeepExpireTime {
		flags |= flagKeepExpireTime
	}
	if follows {
		flags |= flagFollows
	}
	if o.Joined {
		flags |= flagJoined
	}
	if o.Found != nil {
		flags |= flagFound
		if o.Found.Value.Merges() {
			flags |= flagFoundMerges
		}
	}
	const fixed = 3 + 3*binary.MaxVarintLen64
	b := append(make([]byte, 0, fixed+len(o.Data)), byte(o.Kind), byte(o.Conditions), flags)
	b = binary.AppendVarint(binary.AppendVarint(b, o.Number), o.ExpireAtMs)
	b = binary.AppendUvarint(b, uint64(o.Limit))
	if o.Found != nil {
		b = o.Found.append(b)
	}
	return causal.Value{Type: causal.Operation, Data: append(b, o.Data...)}
}

// Parse returns the operation that a put carries. ok is false if there is something in it that is not known here. The
// data of the operation is that of the value.
func Parse(v causal.Value) (o Operation, follows, ok bool) {
	r := causal.NewFieldReader(v.Data)
	head := r.Take(3)
	if head == nil {
		return o, false, false
	}
	flags := head[2]
	o = Operation{Kind: Kind(head[0]), Conditions: Condition(head[1]), KeepExpireTime: flags&flagKeepExpireTime != 0,
		Joined: flags&flagJoined != 0, Sums: flags&flagSums != 0, Number: r.Varint(), ExpireAtMs: r.Varint()}
	limit := r.Uvarint()
	if flags&flagFound != 0 {
		o.Found = readFound(&r, flags&flagFoundMerges != 0)
	}
	ok = v.Type == causal.Operation && !r.Failed() && o.Kind > Read && o.Kind <= lastKind && limit <= math.MaxInt32 &&
		flags&^allFlags == 0 && o.Conditions&^allConditions == 0
	if !ok {
		return Operation{}, false, false
	}
	o.Limit, o.Data = int(limit), r.Take(uint64(r.Left()))
	return o, flags&flagFollows != 0, true
}

// Follows reports whether the operation that a put carries is executed only if the put before it was.
func Follows(v causal.Value) bool { return len(v.Data) > 2 && v.Data[2]&flagFollows != 0 }

// Alone returns what a put carries to have the operation executed whatever has become of the put before it.
func Alone(v causal.Value) causal.Value {
	if Follows(v) {
		v.Data = bytes.Clone(v.Data)
		v.Data[2] &^= flagFollows
	}
	return v
}
