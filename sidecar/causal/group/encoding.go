package group

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// entryFormat is the version of the encoding of an Entry. A reader refuses every other one. Formats 1 and 2 are those
// of the records of a coordinator, from when its log had one disk and no group.
const entryFormat = 3

// extendedEntryFormat is that of a state whose configuration is extended: Config.isExtended.
const extendedEntryFormat = 4

var errEntry = errors.New("damaged entry of a group's log")

// AppendTo appends the encoding of e to dst: a byte for the format, a byte for the kind, then the fields of that kind.
// Numbers are varints; strings and lists start with their length. The index is not encoded: the log that holds the
// entries knows it.
func (e *Entry) AppendTo(dst []byte) []byte {
	format := byte(entryFormat)
	if e.Kind == EntryState && e.State.Config.isExtended() {
		format = extendedEntryFormat
	}
	dst = append(dst, format, byte(e.Kind))
	switch e.Kind {
	case EntryState:
		return e.State.appendTo(dst)
	case EntryRecord:
		dst = appendStamp(binary.AppendUvarint(dst, e.Position), e.Record.Stamp)
		start := byte(0)
		if e.Record.Start {
			start = 1
		}
		return append(append(dst, start), e.Record.Data...)
	default:
		return appendStamp(binary.AppendUvarint(dst, e.Position), e.Anchor)
	}
}

func (s *State) appendTo(dst []byte) []byte {
	dst = appendString(binary.AppendUvarint(dst, s.Life), s.Cluster)
	dst = s.Config.appendTo(dst)
	return binary.AppendUvarint(appendIDs(appendStamp(dst, s.Session), s.Pending), s.Commit)
}

func (c *Config) appendTo(dst []byte) []byte {
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, c.Group), c.Epoch)
	dst = appendID(appendIDs(dst, c.Members), c.Primary)
	for _, n := range [...]uint64{c.Nonce.Volume, c.Nonce.Life, c.Nonce.Number} {
		dst = binary.AppendUvarint(dst, n)
	}
	if !c.isExtended() {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(len(c.Replaced)))
	for _, group := range c.Replaced {
		dst = binary.AppendUvarint(dst, group)
	}
	return dst
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendStamp(dst []byte, s Stamp) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(dst, s.Epoch), s.Life)
}

func appendID(dst []byte, id ID) []byte {
	return binary.AppendUvarint(appendString(dst, id.Name), id.Volume)
}

func appendIDs(dst []byte, ids []ID) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(ids)))
	for _, id := range ids {
		dst = appendID(dst, id)
	}
	return dst
}

// ParseEntry decodes the entry with an index. The result does not refer to b.
func ParseEntry(index uint64, b []byte) (Entry, error) {
	if len(b) < 2 {
		return Entry{}, errEntry
	}
	if b[0] != entryFormat && b[0] != extendedEntryFormat {
		return Entry{},
			fmt.Errorf(
				"entry %d of the log has format %d; this version reads formats %d and %d only: start the version "+
					"that wrote the log, and take the coordinator out of its data center with it, which drains the "+
					"log (docs/operations.md, Changing coordinators); then start this version with an empty dataDir",
				index, b[0], entryFormat, extendedEntryFormat)
	}
	d := newEntryReader(b[2:])
	d.extended = b[0] == extendedEntryFormat
	e := Entry{Index: index, Kind: EntryKind(b[1])}
	switch e.Kind {
	case EntryState:
		e.State = d.state()
	case EntryRecord:
		e.Position, e.Record.Stamp = d.Uvarint(), d.stamp()
		switch start := d.Take(1); {
		case d.Failed() || start[0] > 1:
			return Entry{}, errEntry
		default:
			e.Record.Start = start[0] == 1
		}
		if data := d.Take(uint64(d.Left())); len(data) > 0 {
			e.Record.Data = append([]byte(nil), data...)
		}
	case EntryTruncate, EntryBase, EntryReset:
		e.Position, e.Anchor = d.Uvarint(), d.stamp()
	default:
		return Entry{}, fmt.Errorf("entry %d of a group's log has the unknown kind %d: a later version has written "+
			"it; start that version, or one after it, with this dataDir", index, b[1])
	}
	if d.Failed() || d.malformed || d.Left() != 0 || e.Kind != EntryState && e.Position == 0 {
		return Entry{}, errEntry
	}
	return e, nil
}

// entryReader reads the fields of an entry, or of a message.
type entryReader struct {
	causal.FieldReader
	malformed bool // a field has a value that it cannot have
	extended  bool // configurations are extended: Config.isExtended
}

func newEntryReader(b []byte) entryReader { return entryReader{FieldReader: causal.NewFieldReader(b)} }

func (d *entryReader) stamp() Stamp { return Stamp{Epoch: d.Uvarint(), Life: d.Uvarint()} }

func (d *entryReader) id() ID { return ID{Name: string(d.Take(d.Uvarint())), Volume: d.Uvarint()} }

func (d *entryReader) ids() (ids []ID) {
	const minBytes = 2 // of one ID
	for range d.Count(minBytes) {
		ids = append(ids, d.id())
	}
	return ids
}

func (d *entryReader) config() Config {
	c := Config{Group: d.Uvarint(), Epoch: d.Uvarint(), Members: d.ids(), Primary: d.id(),
		Nonce: Nonce{Volume: d.Uvarint(), Life: d.Uvarint(), Number: d.Uvarint()}}
	if !d.extended {
		return c
	}
	n := d.Count(1)
	if n > maxReplaced {
		d.malformed = true
		return c
	}
	for range n {
		c.Replaced = append(c.Replaced, d.Uvarint())
	}
	d.malformed = d.malformed || !c.isExtended()
	return c
}

func (d *entryReader) state() State {
	s := State{Life: d.Uvarint(), Cluster: string(d.Take(d.Uvarint()))}
	s.Config = d.config()
	s.Session, s.Pending, s.Commit = d.stamp(), d.ids(), d.Uvarint()
	return s
}
