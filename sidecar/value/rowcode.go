package value

import (
	"encoding/binary"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// The data of a hash are
//
//	overwritten  version of the newest register that has overwritten it
//	collected    varint HLC
//	deadline     version of the write that has set it; if there is one, varint milliseconds
//	rows         to the end, each: kind (1 alive, 2 dead), varint length and field, version of the write that has set it,
//	             then of one that is alive varint length and value, of a dead one the version of its removal
//
// A version is 0 for none, 1 for that of the record, or 2, varint HLC and varint origin. What a put brings says 1 of
// what it writes, so a coordinator that gives it a version need not encode it again.

const (
	noVersion, ownVersion, otherVersion = 0, 1, 2
	aliveRow, deadRow                   = 1, 2
)

// record returns the record of a hash, of which v is the newest write; self: it has no version yet.
func (h *rows) record(v causal.Version) causal.Record {
	size := 64
	for i := range h.list {
		size += len(h.list[i].field) + len(h.list[i].value) + 40
	}
	b := appendVersion(make([]byte, 0, size), h.overwritten, v)
	b = binary.AppendUvarint(b, uint64(h.collected))
	if b = appendVersion(b, h.deadline.at, v); !h.deadline.at.IsZero() {
		b = binary.AppendUvarint(b, uint64(h.deadline.ms))
	}
	for i := range h.list {
		b = h.list[i].append(b, v)
	}
	if v == self {
		v = causal.Version{}
	}
	return causal.Record{Version: v, Value: causal.Value{Data: b, ExpireAtMs: h.deadline.ms, Type: causal.Hash}}
}

func (r *row) append(b []byte, v causal.Version) []byte {
	kind := byte(aliveRow)
	if r.dead {
		kind = deadRow
	}
	b = appendText(append(b, kind), r.field)
	b = appendVersion(b, r.at, v)
	if r.dead {
		return appendVersion(b, r.by, v)
	}
	return appendText(b, r.value)
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

// decodeRows decodes a hash, which Check has accepted where it came in.
func decodeRows(r causal.Record) rows {
	h, ok := parseRows(r)
	if !ok {
		panic("value: a damaged hash was not refused where it came in")
	}
	return h
}

// parseRows decodes a hash. ok is false if it is none.
func parseRows(r causal.Record) (h rows, ok bool) {
	d := rowReader{causal.NewFieldReader(r.Value.Data), r.Version}
	h.overwritten = d.version()
	h.collected = causal.HLC(d.Uvarint())
	if h.deadline.at = d.version(); !h.deadline.at.IsZero() {
		h.deadline.ms = int64(d.Uvarint())
	}
	for d.Left() > 0 && !d.Failed() {
		h.list = append(h.list, d.row())
	}
	return h, !d.Failed() && isAscending(h.list)
}

func isAscending(list []row) bool {
	for i := 1; i < len(list); i++ {
		if list[i-1].field >= list[i].field {
			return false
		}
	}
	return true
}

type rowReader struct {
	causal.FieldReader
	own causal.Version
}

func (d *rowReader) row() (r row) {
	kind := d.byte()
	r.dead = kind == deadRow
	if kind != aliveRow && kind != deadRow {
		d.Fail()
	}
	r.field, r.at = string(d.Take(d.Uvarint())), d.version()
	if r.dead {
		r.by = d.version()
	} else {
		r.value = string(d.Take(d.Uvarint()))
	}
	return r
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
