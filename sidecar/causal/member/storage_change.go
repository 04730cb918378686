package member

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/topology"
)

// Write is a change of one key.
type Write = causal.Write

// Meta is a piece of metadata of the middleman.
type Meta struct {
	Name  string
	Value []byte
}

// Change is what one record of a shard's log does to the storage: all of it or nothing, in this order.
type Change struct {
	Writes []Write
	Meta   []Meta
}

// changeFormat is the version of the encoding of a Change. A reader refuses every other one.
const changeFormat = 1

// The flags of a write, and of a record.
const (
	flagDelete byte = 1 << iota
	flagKeyExists
	flagTombstone
	flagType // of a value that is no register: a byte follows
)

var errChange = errors.New("damaged change of a storage")

// SizeHint is at least the size of the encoding of c, in bytes.
func (c *Change) SizeHint() int {
	const fixed, perWrite, perMeta = 1 + 2*binary.MaxVarintLen64, 2 + 5*binary.MaxVarintLen64, 2 * binary.MaxVarintLen64
	n := fixed
	for i := range c.Writes {
		n += perWrite + len(c.Writes[i].Key) + len(c.Writes[i].Record.Value.Data)
	}
	for i := range c.Meta {
		n += perMeta + len(c.Meta[i].Name) + len(c.Meta[i].Value)
	}
	return n
}

// AppendTo appends the encoding of c to dst: a byte for the format, then the writes and the metadata. Numbers are
// varints; strings and lists start with their length.
func (c *Change) AppendTo(dst []byte) []byte {
	dst = append(slices.Grow(dst, c.SizeHint()), changeFormat)
	dst = binary.AppendUvarint(dst, uint64(len(c.Writes)))
	for i := range c.Writes {
		w := &c.Writes[i]
		flags := flagIf(w.Delete, flagDelete) | flagIf(w.KeyExists, flagKeyExists)
		if w.Delete {
			dst = appendBytes(append(dst, flags), w.Key)
			continue
		}
		dst = appendRecord(dst, flags, w.Key, w.Record)
	}
	return appendMeta(dst, c.Meta)
}

func appendBytes[T string | []byte](dst []byte, b T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// appendRecord appends a record with its key. A tombstone has no data.
func appendRecord(dst []byte, flags byte, key string, r causal.Record) []byte {
	dst = appendBytes(append(dst, flags|flagIf(r.Value.Tombstone, flagTombstone)|flagIf(r.Value.Merges(), flagType)),
		key)
	if r.Value.Merges() {
		dst = append(dst, byte(r.Value.Type))
	}
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(r.Version.HLC)), uint64(r.Version.Origin))
	dst = binary.AppendVarint(dst, r.Value.ExpireAtMs)
	if r.Value.Tombstone {
		return dst
	}
	return appendBytes(dst, r.Value.Data)
}

func appendMeta(dst []byte, meta []Meta) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(meta)))
	for i := range meta {
		dst = appendBytes(appendBytes(dst, meta[i].Name), meta[i].Value)
	}
	return dst
}

func flagIf(set bool, flag byte) byte {
	if set {
		return flag
	}
	return 0
}

// ParseChange decodes a change. Its data refers to b.
func ParseChange(b []byte) (Change, error) {
	d, err := newReader(b, changeFormat, "change of a storage")
	if err != nil {
		return Change{}, err
	}
	var c Change
	const minBytes = 2 // of one write
	if n := d.Count(minBytes); n > 0 {
		c.Writes = make([]Write, n)
	}
	for i := range c.Writes {
		w := &c.Writes[i]
		flags := d.flags(flagDelete | flagKeyExists | flagTombstone | flagType)
		w.Delete, w.KeyExists = flags&flagDelete != 0, flags&flagKeyExists != 0
		w.Key = string(d.bytes())
		if !w.Delete {
			w.Record = d.record(flags)
		} else if flags&(flagTombstone|flagType) != 0 {
			d.malformed = true
		}
	}
	c.Meta = d.meta()
	if !d.isComplete() {
		return Change{}, errChange
	}
	return c, nil
}

// reader reads the fields of what this package encodes.
type reader struct {
	causal.FieldReader
	malformed bool // a field has a value that it cannot have
}

func newReader(b []byte, format byte, what string) (reader, error) {
	if len(b) == 0 {
		return reader{}, fmt.Errorf("%s: nothing is there", what)
	}
	if b[0] != format {
		return reader{},
			fmt.Errorf("%s in format %d; this version reads format %d only: run one version in all members", what,
				b[0], format)
	}
	return reader{FieldReader: causal.NewFieldReader(b[1:])}, nil
}

// isComplete reports whether everything was read, and was as it should be.
func (d *reader) isComplete() bool { return !d.Failed() && !d.malformed && d.Left() == 0 }

// bytes returns a string of bytes, nil if it is empty.
func (d *reader) bytes() []byte {
	b := d.Take(d.Uvarint())
	if len(b) == 0 {
		return nil
	}
	return b[:len(b):len(b)]
}

func (d *reader) flags(known byte) byte {
	b := d.Take(1)
	if b == nil {
		return 0
	}
	d.malformed = d.malformed || b[0]&^known != 0
	return b[0]
}

func (d *reader) record(flags byte) causal.Record {
	valueType := causal.Register
	if flags&flagType != 0 {
		b := d.Take(1)
		if d.malformed = d.malformed || b == nil || b[0] == byte(causal.Register); !d.malformed {
			valueType = causal.TypeID(b[0])
		}
	}
	r := causal.Record{Version: causal.Version{HLC: causal.HLC(d.Uvarint())}}
	origin := d.Uvarint()
	r.Version.Origin = topology.Origin(origin)
	d.malformed = d.malformed || uint64(r.Version.Origin) != origin
	r.Value = causal.Value{ExpireAtMs: d.Varint(), Tombstone: flags&flagTombstone != 0, Type: valueType}
	if !r.Value.Tombstone {
		r.Value.Data = d.bytes()
	}
	return r
}

func (d *reader) meta() []Meta {
	const minBytes = 2 // of one piece
	n := d.Count(minBytes)
	if n == 0 {
		return nil
	}
	meta := make([]Meta, n)
	for i := range meta {
		meta[i] = Meta{Name: string(d.bytes()), Value: d.bytes()}
	}
	return meta
}

func (d *reader) stamp() group.Stamp { return group.Stamp{Epoch: d.Uvarint(), Life: d.Uvarint()} }
