package value

import (
	"encoding/binary"
	"strings"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// The data of a collection are
//
//	shown        byte, the kind that clients see (0: none, the key is missing)
//	overwritten  version of the newest register that has overwritten it
//	collected    varint HLC
//	deadlines    varint number, then each: version of the write that has set it, varint milliseconds, version of the
//	             newest one that it replaces
//	rows         to the end, each: byte kind * 16 + 1 if it is dead + 2 if it has sums, varint length and name,
//	             version of the write that has added it, then of one that is alive varint length and payload, of a
//	             dead one the version of its removal, and if it has sums varint number, then each: varint line,
//	             version of the write that has begun it, version of the write that has set it, varint lengths and
//	             texts of start and total
//
// A row of a list has a position (position.go) instead of a name, and no version of the write that has added it, which
// the position has; the byte has 4 if LSET has given it another text, and the version of that follows. The sums of a
// row of a HyperLogLog are its cells (hyperloglog.go).
//
// A version is 0 for none, 1 for that of the record, or 2, varint HLC and varint origin. What a put brings says 1 of
// what it writes, so a coordinator that gives it a version need not encode it again.

const (
	noVersion, ownVersion, otherVersion = 0, 1, 2
	deadRow, summedRow, setRow          = 1, 2, 4
	kindShift                           = 4
)

// record returns the record of a collection, of which v is the newest write; self: it has no version yet. That of a
// register is the register.
func (h *rows) record(v causal.Version) causal.Record {
	if h.isRegister(v) {
		return h.register(v)
	}
	size := 64
	for i := range h.list {
		size += len(h.list[i].name) + len(h.list[i].payload) + 40 + 60*len(h.list[i].sums)
	}
	shown := h.shown()
	b := appendVersion(append(make([]byte, 0, size), byte(shown)), h.overwritten, v)
	b = binary.AppendUvarint(b, uint64(h.collected))
	b = binary.AppendUvarint(b, uint64(len(h.deadlines)))
	for _, d := range h.deadlines {
		b = binary.AppendUvarint(appendVersion(b, d.at, v), uint64(d.ms))
		b = appendVersion(b, d.seen, v)
	}
	for i := range h.list {
		b = h.list[i].append(b, v)
	}
	if v == self {
		v = causal.Version{}
	}
	r := causal.Record{Version: v, Value: causal.Value{Data: b, Type: causal.Collection}}
	if shown != None {
		r.Value.ExpireAtMs = h.deadlines.ms()
	}
	return r
}

func (r *row) append(b []byte, v causal.Version) []byte {
	head := byte(r.kind) << kindShift
	if r.dead {
		head |= deadRow
	}
	if len(r.sums) > 0 {
		head |= summedRow
	}
	if r.kind == List {
		b = r.appendPosition(b, head, v)
	} else {
		b = appendText(append(b, head), r.name)
		b = appendVersion(b, r.at, v)
	}
	if r.dead {
		b = appendVersion(b, r.by, v)
	} else {
		b = appendText(b, r.payload)
	}
	if r.kind == HyperLogLog && len(r.sums) > 0 {
		return appendRaised(b, r.sums, v)
	}
	return appendSums(b, r.sums, v)
}

func appendSums(b []byte, sums []sum, v causal.Version) []byte {
	if len(sums) == 0 {
		return b
	}
	b = binary.AppendUvarint(b, uint64(len(sums)))
	for i := range sums {
		s := &sums[i]
		b = binary.AppendUvarint(b, uint64(s.line))
		b = appendVersion(appendVersion(b, s.began, v), s.at, v)
		b = appendText(appendText(b, s.start), s.total)
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendVersion(b []byte, v, own causal.Version) []byte {
	switch v {
	case causal.Version{}:
		return append(b, noVersion)
	case own:
		return append(b, ownVersion)
	}
	b = binary.AppendUvarint(append(b, otherVersion), uint64(v.HLC))
	return binary.AppendUvarint(b, uint64(v.Origin))
}

// decodeRows decodes a collection, which Check has accepted where it came in.
func decodeRows(r causal.Record) rows {
	h, ok := parseRows(r)
	if !ok {
		panic("value: a damaged collection was not refused where it came in")
	}
	return h
}

// parseRows decodes a collection. ok is false if it is none. The version of a record without one is self.
func parseRows(r causal.Record) (h rows, ok bool) {
	d := rowReader{FieldReader: causal.NewFieldReader(r.Value.Data), text: string(r.Value.Data), own: r.Version}
	if d.own.IsZero() {
		d.own = self
	}
	d.byte() // shown
	h.overwritten = d.version()
	h.collected = causal.HLC(d.Uvarint())
	for n := d.Uvarint(); n > 0 && !d.Failed(); n-- {
		h.deadlines = append(h.deadlines, deadline{d.version(), int64(d.Uvarint()), d.version()})
	}
	h.list = make([]row, 0, d.Left()/typicalRow)
	for d.Left() > 0 && !d.Failed() {
		h.list = append(h.list, d.row())
	}
	return h, !d.Failed() && h.sortPositions()
}

func isAscending(list []row) bool {
	for i := 1; i < len(list); i++ {
		if list[i-1].compare(list[i].element) >= 0 {
			return false
		}
	}
	return true
}

// typicalRow is about how many bytes a row has.
const typicalRow = 32

type rowReader struct {
	causal.FieldReader
	text  string // all that is read: what rows have of it is a part of that
	own   causal.Version
	names strings.Builder // of positions
}

// string returns the next text, with its length before it.
func (d *rowReader) string() string {
	n := len(d.Take(d.Uvarint()))
	end := len(d.text) - d.Left()
	return d.text[end-n : end]
}

func (d *rowReader) row() (r row) {
	head := d.byte()
	r.kind, r.dead = Kind(head>>kindShift), head&deadRow != 0
	if head&(1<<kindShift-1)&^(deadRow|summedRow|setRow) != 0 || r.kind == None || r.kind > lastKind {
		d.Fail()
	}
	switch r.kind {
	case List:
		r.name, r.at = d.position()
	default:
		r.name, r.at = d.string(), d.version()
	}
	if r.kind == Text && r.name != "" {
		d.Fail()
	}
	if head&setRow != 0 {
		if r.at = d.version(); r.kind != List || r.dead {
			d.Fail()
		}
	}
	if r.dead {
		r.by = d.version()
	} else {
		r.payload = d.string()
	}
	switch isSummed := head&summedRow != 0; {
	case r.kind == HyperLogLog:
		if isSummed {
			r.sums = d.raised(r.at)
		}
		if !r.isRegisters() {
			d.Fail()
		}
	case isSummed:
		r.sums = d.sums(r.kind, r.at)
	}
	if r.kind == Stream && !d.Failed() && !r.isStreamRow() {
		d.Fail()
	}
	return r
}

// sums returns what was added to an element since v.
func (d *rowReader) sums(k Kind, v causal.Version) (sums []sum) {
	for n := d.Uvarint(); n > 0 && !d.Failed(); n-- {
		s := sum{line: Line(d.Uvarint()), began: d.version(), at: d.version()}
		s.start, s.total = d.string(), d.string()
		sums = append(sums, s)
	}
	if !isSummable(k, sums) {
		d.Fail()
	}
	return joinSums(k, sums, nil, v)
}

func (d *rowReader) byte() byte {
	if b := d.Take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *rowReader) version() causal.Version {
	switch d.byte() {
	case noVersion:
	case ownVersion:
		return d.own
	case otherVersion:
		return causal.Version{HLC: causal.HLC(d.Uvarint()), Origin: topology.Origin(d.Uvarint())}
	default:
		d.Fail()
	}
	return causal.Version{}
}
