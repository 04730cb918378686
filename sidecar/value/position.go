package value

import (
	"encoding/binary"
	"math"
	"strings"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// An element of a list is a position, which a push creates once, and which never changes: LSET gives it another text.
// It is a path in a tree. Each node is between its children before it and those after it, so where a new one belongs is
// said by the node beside it alone, and two data centers that add to a list need not know of each other.
//
// Before the root are what LPUSH has added, the newest one first, and after it what RPUSH has added, the newest one
// last. LINSERT adds a child to a position; of several, the newest one is next to it. What one put adds at a place
// stays together.
//
// In memory a position is a text, so that rows in the order of their names are in that of the list: a step for each
// node of the path, and the byte atNode. A step is a byte, beforeNode or afterNode, and the version of the put and
// which one of its positions it is; both inverted where the newest one comes first.
const (
	beforeNode, atNode, afterNode = 0, 1, 2

	placeBytes, versionBytes, numberBytes = 1, 8 + 4, 4
	stepBytes                             = placeBytes + versionBytes + numberBytes

	// maxSteps bounds a path.
	maxSteps = 64
)

// step is a step of a position.
type step struct {
	isAfter bool
	born    causal.Version
	number  uint32
}

// isInverted reports whether the newest one of such steps comes first. It is the first step of a path if isFirst.
func (s step) isInverted(isFirst bool) bool { return s.isAfter != isFirst }

// appendStep appends a step to a path in memory.
func appendStep(b []byte, s step) []byte {
	place := byte(beforeNode)
	if s.isAfter {
		place = afterNode
	}
	isFirst := len(b) == 0
	b = binary.BigEndian.AppendUint64(append(b, place), uint64(s.born.HLC))
	b = binary.BigEndian.AppendUint32(b, uint32(s.born.Origin))
	b = binary.BigEndian.AppendUint32(b, s.number)
	if s.isInverted(isFirst) {
		invert(b[len(b)-stepBytes+placeBytes:])
	}
	return b
}

func invert(b []byte) {
	for i := range b {
		b[i] = ^b[i]
	}
}

// stepAt returns the step of a position that begins at a byte.
func stepAt(name string, at int) step {
	b := name[at : at+stepBytes]
	s := step{isAfter: b[0] == afterNode}
	hlc, origin := bigEndian(b[placeBytes:placeBytes+8]), bigEndian(b[placeBytes+8:placeBytes+versionBytes])
	number := bigEndian(b[placeBytes+versionBytes:])
	if s.isInverted(at == 0) {
		hlc, origin, number = ^hlc, ^origin, ^number
	}
	s.born = causal.Version{HLC: causal.HLC(hlc), Origin: topology.Origin(origin)}
	s.number = uint32(number)
	return s
}

func bigEndian(b string) (n uint64) {
	for i := range len(b) {
		n = n<<8 | uint64(b[i])
	}
	return n
}

// steps returns the length of the path of a position.
func steps(name string) int { return len(name) / stepBytes }

// besides returns a position that is new, next to another one; "" is the root.
func besides(name string, s step) string {
	path := strings.TrimSuffix(name, string(rune(atNode)))
	if path == "" {
		return string(append(appendStep(nil, s), atNode))
	}
	return string(append(appendStep([]byte(path), s), atNode))
}

// since returns the version by which rows of one element are compared: of an element of a list when it was born, since
// one that was removed never comes back. A row that is dead has that in at.
func (r *row) since() causal.Version {
	if r.kind == List && !r.dead {
		return stepAt(r.name, len(r.name)-1-stepBytes).born
	}
	return r.at
}

// A position in a value is, for each step, a byte, 1 if it is after the node and 2 if it is the last step, the version
// of the put, and a varint number.
const stepAfter, lastStep = 1, 2

// appendPosition appends a position to a value, of which own is the version.
func appendPosition(b []byte, name string, own causal.Version) []byte {
	for i, n := 0, steps(name); i < n; i++ {
		s, head := stepAt(name, i*stepBytes), byte(0)
		if s.isAfter {
			head |= stepAfter
		}
		if i == n-1 {
			head |= lastStep
		}
		b = appendVersion(append(b, head), s.born, own)
		b = binary.AppendUvarint(b, uint64(s.number))
	}
	return b
}

// appendPosition appends what a row of a list begins with.
func (r *row) appendPosition(b []byte, head byte, own causal.Version) []byte {
	if isSet := r.at != r.since(); isSet {
		return appendVersion(appendPosition(append(b, head|setRow), r.name, own), r.at, own)
	}
	return appendPosition(append(b, head), r.name, own)
}

// position reads a position, and returns when it was born.
func (d *rowReader) position() (name string, born causal.Version) {
	var path [maxSteps*stepBytes + 1]byte
	b := path[:0]
	for isLast := false; !isLast; {
		head, v, number := d.byte(), d.version(), d.Uvarint()
		if head > stepAfter|lastStep || v.IsZero() || number > math.MaxUint32 || len(b) == maxSteps*stepBytes {
			d.Fail()
		}
		if d.Failed() {
			return "", causal.Version{}
		}
		b = appendStep(b, step{head&stepAfter != 0, v, uint32(number)})
		isLast, born = head&lastStep != 0, v
	}
	start := d.names.Len()
	d.names.Write(append(b, atNode))
	return d.names.String()[start:], born
}

// sortPositions brings the rows of a list into order, in which they are anyway if nobody has made them up: a put has a
// version above all that its client has read. It reports whether the other rows are in order.
func (h *rows) sortPositions() bool {
	for i := 1; i < len(h.list); i++ {
		a, b := &h.list[i-1], &h.list[i]
		switch {
		case a.compare(b.element) < 0:
		case a.kind == List && b.kind == List:
			h.sort()
			h.joinRepeated()
			return isAscending(h.list)
		default:
			return false
		}
	}
	return true
}

// joinRepeated makes one row of those of one element.
func (h *rows) joinRepeated() {
	joined := h.list[:0]
	for _, r := range h.list {
		switch n := len(joined); {
		case n == 0 || joined[n-1].element != r.element:
			joined = append(joined, r)
		case r.wins(&joined[n-1]):
			joined[n-1] = r
		}
	}
	h.list = joined
}
