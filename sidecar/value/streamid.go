package value

import (
	"cmp"
	"encoding/binary"
	"math"
	"strconv"
)

// StreamID names an entry of a stream, and orders it: a time in milliseconds, and a number.
type StreamID struct{ Ms, Seq uint64 }

// MaxStreamID is the last one.
var MaxStreamID = StreamID{math.MaxUint64, math.MaxUint64}

// streamIDBytes is the length of an id in the name of a row.
const streamIDBytes = 16

// Compare orders ids.
func (id StreamID) Compare(o StreamID) int {
	if c := cmp.Compare(id.Ms, o.Ms); c != 0 {
		return c
	}
	return cmp.Compare(id.Seq, o.Seq)
}

// Less reports whether id is before o.
func (id StreamID) Less(o StreamID) bool { return id.Compare(o) < 0 }

// Next returns the id after this one. ok is false if there is none.
func (id StreamID) Next() (next StreamID, ok bool) {
	switch {
	case id == MaxStreamID:
		return id, false
	case id.Seq == math.MaxUint64:
		return StreamID{id.Ms + 1, 0}, true
	}
	return StreamID{id.Ms, id.Seq + 1}, true
}

// Previous returns the id before this one. ok is false if there is none.
func (id StreamID) Previous() (previous StreamID, ok bool) {
	switch {
	case id == StreamID{}:
		return id, false
	case id.Seq == 0:
		return StreamID{id.Ms - 1, math.MaxUint64}, true
	}
	return StreamID{id.Ms, id.Seq - 1}, true
}

// String returns the id as clients write it.
func (id StreamID) String() string {
	return string(strconv.AppendUint(append(strconv.AppendUint(nil, id.Ms, 10), '-'), id.Seq, 10))
}

func (id StreamID) append(b []byte) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, id.Ms), id.Seq)
}

func streamIDOf(name string) StreamID { return StreamID{bigEndian(name[:8]), bigEndian(name[8:])} }

func maxStreamID(a, b StreamID) StreamID {
	if a.Less(b) {
		return b
	}
	return a
}
