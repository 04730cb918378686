// Package operation has the operations that read one key and may write it, as data: what a command such as INCR does to
// the value of its key. It is pure, so that an operation gives the same result wherever it is executed: in the sidecar,
// or at the home of the key (PROTOCOL HOM).
package operation

import (
	"bytes"
	"errors"
	"math"
	"strconv"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// Kind is what an operation does.
type Kind uint8

// The kinds, with the fields of Operation that each uses. The numbers are in messages, so they never change.
const (
	Read     Kind = iota + 1 // write nothing
	Add                      // add Number to an integer; a missing key counts as 0
	AddFloat                 // add the number that Data is the text of
	Append                   // append Data
	Overlay                  // write Data from byte Number on, and pad with zero bytes
	Set                      // write Data, with the expire time ExpireAtMs
	Delete                   // delete a key that exists
	Expire                   // set the expire time of a key that exists to ExpireAtMs
	Persist                  // remove the expire time of a key
	lastKind = Persist
)

// Condition says when an operation writes. An operation with several conditions writes if all are met.
type Condition uint8

// The conditions. The numbers are in messages, so they never change.
const (
	IfMissing     Condition = 1 << iota // Set: there is no value
	IfExists                            // Set: there is one
	IfPersistent                        // Expire: it has no expire time
	IfExpiring                          // Expire: it has one
	IfLater                             // Expire: the new one is later; none counts as later than any other
	IfEarlier                           // Expire: the new one is earlier
	IfDifferent                         // Expire: the new one is another one
	allConditions = IfMissing | IfExists | IfPersistent | IfExpiring | IfLater | IfEarlier | IfDifferent
)

// Has reports whether all of some conditions are among those of c.
func (c Condition) Has(some Condition) bool { return c&some == some }

// Operation reads one key, and may write it.
type Operation struct {
	Kind       Kind
	Conditions Condition
	Number     int64
	Data       []byte
	ExpireAtMs int64 // milliseconds since the epoch; 0: none
	// KeepExpireTime makes Set keep the expire time that there is. The kinds that change a value do so anyway.
	KeepExpireTime bool
	// ReturnsOld says that the reply has the value that was there before.
	ReturnsOld bool
	// Joined says that it stands for several operations, of which none is executed if one would fail.
	Joined bool
	// Sums says, of one that was parsed, that who has sent it reads strings to which numbers were added.
	Sums bool
	// Found is what the home may go on from; nil: only from what it has. Apply does not use it.
	Found *Found
	// Limit bounds the resulting value of Append and Overlay, in bytes.
	Limit int
}

// Outcome is what an operation has done.
type Outcome struct {
	// Old is what was there before; Exists says whether there was something.
	Old    causal.Value
	Exists bool
	// Next is the value that is to be written, if Writes.
	Next   causal.Value
	Writes bool
	// Err says why the operation has failed, and writes nothing.
	Err error
}

// Why an operation fails.
var (
	ErrNotInteger = errors.New("the value is not an integer")
	ErrOverflow   = errors.New("the sum is not a 64-bit integer")
	ErrNotFloat   = errors.New("the value, or the increment, is not a number")
	ErrNotFinite  = errors.New("the sum is not finite")
	ErrTooLong    = errors.New("the resulting value is too long")
)

// Exists reports whether v exists at a time. As in Redis, a value still exists in the millisecond of its expire time.
func Exists(v causal.Value, nowMs int64) bool {
	return !v.Tombstone && (v.ExpireAtMs == 0 || nowMs <= v.ExpireAtMs)
}

// Apply executes an operation on the value of its key at a time. It neither changes nor keeps a reference to what o and
// old refer to, but for the data of a Set.
func (o *Operation) Apply(old causal.Value, nowMs int64) Outcome {
	r := Outcome{Old: old, Exists: Exists(old, nowMs)}
	if !r.Exists {
		r.Old = causal.Value{Tombstone: true}
	}
	r.Next, r.Writes, r.Err = o.next(r.Old, r.Exists, nowMs)
	if r.Err != nil || !r.Writes {
		r.Next, r.Writes = causal.Value{}, false
	}
	return r
}

// next returns what is to be written, if anything. A missing value is a tombstone.
func (o *Operation) next(old causal.Value, exists bool, nowMs int64) (next causal.Value, writes bool, err error) {
	switch o.Kind {
	case Add:
		return o.add(old, exists)
	case AddFloat:
		return o.addFloat(old, exists)
	case Append:
		length := len(old.Data) + len(o.Data)
		if length > o.Limit {
			return next, false, ErrTooLong
		}
		data := append(make([]byte, 0, length), old.Data...)
		return changed(old, append(data, o.Data...)), true, nil
	case Overlay:
		return o.overlay(old)
	case Set:
		writes = !(o.Conditions.Has(IfMissing) && exists) && !(o.Conditions.Has(IfExists) && !exists)
		next = causal.Value{Data: o.Data, ExpireAtMs: o.ExpireAtMs}
		if o.KeepExpireTime {
			next.ExpireAtMs = old.ExpireAtMs
		}
		return next, writes, nil
	case Delete:
		return causal.Value{Tombstone: true}, exists, nil
	case Expire:
		if !exists || !o.allows(old.ExpireAtMs) {
			return next, false, nil
		}
		if o.ExpireAtMs <= nowMs {
			return causal.Value{Tombstone: true}, true, nil
		}
		old.ExpireAtMs = o.ExpireAtMs
		return old, true, nil
	case Persist:
		writes = exists && old.ExpireAtMs != 0
		old.ExpireAtMs = 0
		return old, writes, nil
	}
	return next, false, nil
}

// changed returns a value with other data and the expire time of the old one.
func changed(old causal.Value, data []byte) causal.Value {
	return causal.Value{Data: data, ExpireAtMs: old.ExpireAtMs}
}

func (o *Operation) add(old causal.Value, exists bool) (next causal.Value, writes bool, err error) {
	var n int64
	if exists {
		var ok bool
		if n, ok = ParseInt(old.Data); !ok {
			return next, false, ErrNotInteger
		}
	}
	sum, ok := addInt(n, o.Number)
	if !ok {
		return next, false, ErrOverflow
	}
	return changed(old, strconv.AppendInt(nil, sum, 10)), true, nil
}

func (o *Operation) addFloat(old causal.Value, exists bool) (next causal.Value, writes bool, err error) {
	text := old.Data
	if !exists {
		text = []byte("0")
	}
	a, ok1 := parseFloat(text)
	b, ok2 := parseFloat(o.Data)
	if !ok1 || !ok2 {
		return next, false, ErrNotFloat
	}
	sum, ok := addFloat(a, b)
	if !ok {
		return next, false, ErrNotFinite
	}
	return changed(old, []byte(formatFloat(sum))), true, nil
}

func (o *Operation) overlay(old causal.Value) (next causal.Value, writes bool, err error) {
	if len(o.Data) == 0 || o.Number < 0 {
		return next, false, nil
	}
	if o.Number > int64(o.Limit-len(o.Data)) {
		return next, false, ErrTooLong
	}
	end := int(o.Number) + len(o.Data)
	data := make([]byte, max(len(old.Data), end))
	copy(data, old.Data)
	copy(data[o.Number:], o.Data)
	return changed(old, data), true, nil
}

// allows reports whether the conditions permit to replace an expire time. 0 is none.
func (o *Operation) allows(oldMs int64) bool {
	has, c := oldMs != 0, o.Conditions
	switch {
	case c.Has(IfPersistent) && has, c.Has(IfExpiring) && !has:
		return false
	case c.Has(IfLater) && (!has || o.ExpireAtMs <= oldMs):
		return false
	case c.Has(IfEarlier) && has && o.ExpireAtMs >= oldMs:
		return false
	case c.Has(IfDifferent) && o.ExpireAtMs == oldMs:
		return false
	}
	return true
}

// Adds reports whether the operation adds to a number.
func (o *Operation) Adds() bool { return o.Kind == Add || o.Kind == AddFloat }

// CanBeShipped reports whether the home of a key may execute the operation. It may, if the reply follows from what the
// operation has written: then an operation that is sent again is answered as it was before, by what the log has.
func (o *Operation) CanBeShipped() bool {
	return !o.ReturnsOld && o.Kind != Read && o.Limit <= math.MaxInt32
}

// Clone returns an operation that does not share its data with o.
func (o Operation) Clone() Operation {
	o.Data = bytes.Clone(o.Data)
	return o
}
