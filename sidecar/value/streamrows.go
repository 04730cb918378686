package value

import (
	"encoding/binary"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// The elements of a stream are rows of five sorts. The first byte of a name says which:
//
//	state     the line that keeps it; the greatest id that the line knows of, the greatest that it has removed, and
//	          how many entries it has added
//	entry     the id, so that rows in the order of their names are in that of the stream; the line that has added it,
//	          and the fields with their values
//	group     the line that keeps it, and the name; how many entries were read, and for each line the last one of its
//	          entries that was delivered
//	consumer  the group, and the name; when it was last seen
//	pending   the group, and the id; when it was delivered, how often, and to which consumer
//
// Of a state, and of a group, each line has its own row, which no other one writes but to take it back, so data centers
// do not overwrite what they have not seen. A reader takes the greatest of each part.
const (
	stateRow = iota
	entryRow
	groupRow
	consumerRow
	pendingRow
)

// streamState is what a line knows of a stream, besides its entries.
type streamState struct {
	last, maxDeleted StreamID
	added            int64
}

func stateName(line Line) string { return string(binary.AppendUvarint([]byte{stateRow}, uint64(line))) }

func entryName(id StreamID) string { return string(id.append([]byte{entryRow})) }

func groupName(group string, line Line) string {
	return string(binary.AppendUvarint(appendText([]byte{groupRow}, group), uint64(line)))
}

func consumerName(group, consumer string) string {
	return string(append(appendText([]byte{consumerRow}, group), consumer...))
}

func pendingName(group string, id StreamID) string {
	return string(id.append(appendText([]byte{pendingRow}, group)))
}

func appendID(b []byte, id StreamID) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, id.Ms), id.Seq)
}

func (s *streamState) payload() string {
	return string(binary.AppendVarint(appendID(appendID(nil, s.last), s.maxDeleted), s.added))
}

func entryPayload(line Line, fields []string) string {
	b := binary.AppendUvarint(nil, uint64(line))
	for _, f := range fields {
		b = appendText(b, f)
	}
	return string(b)
}

// streamReader reads names and payloads of the rows of a stream.
type streamReader struct {
	causal.FieldReader
	text string
}

func newStreamReader(text string) streamReader {
	return streamReader{causal.NewFieldReader([]byte(text)), text}
}

func (d *streamReader) id() StreamID { return StreamID{d.Uvarint(), d.Uvarint()} }

func (d *streamReader) string() string { return string(d.Take(d.Uvarint())) }

func (d *streamReader) rest() string { return d.text[len(d.text)-d.Left():] }

// isStreamRow reports whether a row, which comes from another process, is one of a stream.
func (r *row) isStreamRow() bool {
	ok := false
	(&StreamLog{}).read(r.name, r.text(), &ok)
	if r.dead { // it has no payload
		return r.name != "" && r.name[0] <= pendingRow
	}
	return ok
}

// read adds a row to what is known of the stream.
func (s *StreamLog) read(name, payload string, ok *bool) {
	if name == "" {
		return
	}
	d, p := newStreamReader(name[1:]), newStreamReader(payload)
	switch name[0] {
	case stateRow:
		line := Line(d.Uvarint())
		s.addState(line, streamState{p.id(), p.id(), p.Varint()})
	case entryRow:
		if d.Left() != streamIDBytes {
			return
		}
		s.Entries = append(s.Entries, StreamEntry{streamIDOf(name[1:]), Line(p.Uvarint()), p.rest()})
		d.Take(streamIDBytes)
		p.skipFields()
	case groupRow:
		s.group(d.string()).addCut(Line(d.Uvarint()), &p)
	case consumerRow:
		s.group(d.string()).consumers[d.rest()] = p.Varint()
		d.Take(uint64(d.Left()))
	case pendingRow:
		g := s.group(d.string())
		if d.Left() != streamIDBytes {
			return
		}
		g.pending = append(g.pending, Pending{ID: streamIDOf(d.rest()), AtMs: p.Varint(), Count: p.Varint(),
			Consumer: p.rest()})
		d.Take(streamIDBytes)
		p.Take(uint64(p.Left()))
	default:
		return
	}
	*ok = !d.Failed() && !p.Failed() && d.Left() == 0 && p.Left() == 0
}

// skipFields goes on behind the fields of an entry, and fails if they have no value each.
func (d *streamReader) skipFields() {
	n := 0
	for ; d.Left() > 0 && !d.Failed(); n++ {
		d.Take(d.Uvarint())
	}
	if n%2 != 0 || n == 0 {
		d.Fail()
	}
}
