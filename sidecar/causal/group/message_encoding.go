package group

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// messageFormat is the version of the encoding of a Message. A reader refuses every other one.
const messageFormat = 1

// extendedMessageFormat is that of a message whose configuration is extended: Config.isExtended.
const extendedMessageFormat = 2

var errMessage = errors.New("damaged message between the members of a group")

// The kinds of bodies, as they are encoded.
const (
	bodyFrame byte = iota + 1
	bodyAck
	bodyReport
	bodyProbe
	bodyAnswer
)

// The bits of the flags, by what they are of.
const (
	flagStart byte = 1 << 0 // of a record

	flagReset    byte = 1 << 0 // of a frame
	flagReleased byte = 1 << 1

	flagGranted   byte = 1 << 0 // of an ack
	flagResigning byte = 1 << 1
	flagUnfit     byte = 1 << 2
	flagImpaired  byte = 1 << 3

	flagJoin byte = 1 << 0 // of a probe

	flagFresh   byte = 1 << 0 // of an answer
	flagDamaged byte = 1 << 1
	flagServing byte = 1 << 2
	flagBlank   byte = 1 << 3
	flagWhole   byte = 1 << 4
)

// AppendTo appends the encoding of m to dst: a byte for the format, a byte for the kind, the volumes of sender and
// receiver, then the fields of that kind. Numbers are varints; strings and lists start with their length. The names of
// sender and receiver are not encoded: what carries the message knows them.
func (m *Message) AppendTo(dst []byte) []byte {
	dst = slices.Grow(dst, sizeHint(m.Body)) // the data of records is copied once
	at := len(dst) + 1
	dst = append(dst, formatOf(m.Body), 0)
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, m.From.Volume), m.To.Volume)
	switch b := m.Body.(type) {
	case *Frame:
		dst[at] = bodyFrame
		dst = b.appendTo(dst)
	case *Ack:
		dst[at] = bodyAck
		dst = binary.AppendUvarint(appendStamp(dst, b.Session), b.Match)
		dst = append(binary.AppendVarint(dst, b.SentAt),
			flags(b.Granted, flagGranted)|flags(b.Resigning, flagResigning)|flags(b.Unfit, flagUnfit)|
				flags(b.Impaired, flagImpaired))
	case *Report:
		dst[at] = bodyReport
		dst = appendStamp(dst, b.Session)
		for _, n := range [...]uint64{b.Number, b.Acked, b.Base, b.Last, b.Commit, uint64(len(b.Runs))} {
			dst = binary.AppendUvarint(dst, n)
		}
		for _, r := range b.Runs {
			dst = binary.AppendUvarint(appendStamp(dst, r.Stamp), r.First)
		}
	case *Probe:
		dst[at] = bodyProbe
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, b.Number), b.Group)
		dst = append(dst, flags(b.Join, flagJoin))
	case *Answer:
		dst[at] = bodyAnswer
		dst = appendStamp(b.Config.appendTo(appendString(binary.AppendUvarint(dst, b.Number), b.Cluster)), b.Session)
		dst = append(dst, flags(b.Fresh, flagFresh)|flags(b.Damaged, flagDamaged)|flags(b.Serving, flagServing)|
			flags(b.Blank, flagBlank)|flags(b.Whole, flagWhole))
	}
	return dst
}

// formatOf returns the format in which a message is encoded.
func formatOf(b Body) byte {
	var c *Config
	switch b := b.(type) {
	case *Frame:
		c = &b.Config
	case *Answer:
		c = &b.Config
	}
	if c != nil && c.isExtended() {
		return extendedMessageFormat
	}
	return messageFormat
}

func (f *Frame) appendTo(dst []byte) []byte {
	dst = f.Config.appendTo(appendString(appendStamp(dst, f.Session), f.Cluster))
	dst = appendStamp(binary.AppendUvarint(dst, f.Position), f.Stamp)
	for _, n := range [...]uint64{f.Commit, f.Base, f.Number, f.Acked} {
		dst = binary.AppendUvarint(dst, n)
	}
	dst = append(binary.AppendVarint(dst, f.SentAt), flags(f.Reset, flagReset)|flags(f.Released, flagReleased))
	dst = binary.AppendUvarint(dst, uint64(len(f.Records)))
	for i := range f.Records {
		r := &f.Records[i]
		dst = append(appendStamp(dst, r.Stamp), flags(r.Start, flagStart))
		dst = append(binary.AppendUvarint(dst, uint64(len(r.Data))), r.Data...)
	}
	return dst
}

func flags(set bool, bit byte) byte {
	if set {
		return bit
	}
	return 0
}

// sizeHint is mostly above the size of an encoded message.
func sizeHint(b Body) int {
	const fixed, perRecord = 256, 32
	n := fixed
	if f, ok := b.(*Frame); ok {
		for i := range f.Records {
			n += len(f.Records[i].Data) + perRecord
		}
	}
	return n
}

// ParseMessage decodes a message between two members. The data of its records refers to b.
func ParseMessage(from, to string, b []byte) (Message, error) {
	if len(b) < 2 {
		return Message{}, errMessage
	}
	if b[0] != messageFormat && b[0] != extendedMessageFormat {
		return Message{},
			fmt.Errorf(
				"message between the members of a group in format %d; this version reads formats %d and %d only: run "+
					"one version in all members",
				b[0], messageFormat, extendedMessageFormat)
	}
	kind, d := b[1], newEntryReader(b[2:])
	d.extended = b[0] == extendedMessageFormat
	m := Message{From: ID{from, d.Uvarint()}, To: ID{to, d.Uvarint()}}
	switch kind {
	case bodyFrame:
		m.Body = d.frame()
	case bodyAck:
		a := &Ack{Session: d.stamp(), Match: d.Uvarint(), SentAt: d.Varint()}
		d.flags(flagBit{flagGranted, &a.Granted}, flagBit{flagResigning, &a.Resigning}, flagBit{flagUnfit, &a.Unfit},
			flagBit{flagImpaired, &a.Impaired})
		m.Body = a
	case bodyReport:
		m.Body = d.report()
	case bodyProbe:
		p := &Probe{Number: d.Uvarint(), Group: d.Uvarint()}
		d.flags(flagBit{flagJoin, &p.Join})
		m.Body = p
	case bodyAnswer:
		a := &Answer{Number: d.Uvarint(), Cluster: string(d.Take(d.Uvarint())), Config: d.config(), Session: d.stamp()}
		d.flags(flagBit{flagFresh, &a.Fresh}, flagBit{flagDamaged, &a.Damaged}, flagBit{flagServing, &a.Serving},
			flagBit{flagBlank, &a.Blank}, flagBit{flagWhole, &a.Whole})
		m.Body = a
	default:
		return Message{}, fmt.Errorf("message between the members of a group of the unknown kind %d", kind)
	}
	if d.Failed() || d.malformed || d.Left() != 0 || m.From.Volume == 0 {
		return Message{}, errMessage
	}
	return m, nil
}

func (d *entryReader) frame() *Frame {
	f := &Frame{Session: d.stamp(), Cluster: string(d.Take(d.Uvarint())), Config: d.config(), Position: d.Uvarint(),
		Stamp:  d.stamp(),
		Commit: d.Uvarint(), Base: d.Uvarint(), Number: d.Uvarint(), Acked: d.Uvarint(), SentAt: d.Varint()}
	d.flags(flagBit{flagReset, &f.Reset}, flagBit{flagReleased, &f.Released})
	const minBytes = 4 // of one record
	n := d.Count(minBytes)
	if n > 0 {
		f.Records = make([]Record, n)
	}
	for i := range f.Records {
		r := &f.Records[i]
		r.Stamp = d.stamp()
		d.flags(flagBit{flagStart, &r.Start})
		if data := d.Take(d.Uvarint()); len(data) > 0 {
			r.Data = data[:len(data):len(data)]
		}
	}
	d.malformed = d.malformed || f.Position+n < f.Position // positions do not wrap
	return f
}

func (d *entryReader) report() *Report {
	r := &Report{Session: d.stamp(), Number: d.Uvarint(), Acked: d.Uvarint(), Base: d.Uvarint(), Last: d.Uvarint(),
		Commit: d.Uvarint()}
	const minBytes = 3 // of one run
	n := d.Count(minBytes)
	if n > maxRuns {
		d.malformed = true
		return r
	}
	for range n {
		r.Runs = append(r.Runs, Run{d.stamp(), d.Uvarint()})
	}
	return r
}

// flagBit is a flag and where its value goes.
type flagBit struct {
	bit   byte
	value *bool
}

// flags reads a byte of flags. Others than those given are malformed.
func (d *entryReader) flags(bits ...flagBit) {
	b := d.Take(1)
	if b == nil {
		return
	}
	rest := b[0]
	for _, f := range bits {
		*f.value = rest&f.bit != 0
		rest &^= f.bit
	}
	d.malformed = d.malformed || rest != 0
}
