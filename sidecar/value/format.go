package value

import "github.com/causalstore/causalstore/sidecar/causal"

// The formats of values, in the order in which releases came to know them. A release reads all formats up to its own,
// and no put of a format is accepted before all parts read it (PROTOCOL FMT). The numbers are on the wire and in logs.
const (
	FormatRegisters   causal.Format = iota
	FormatCollections               // hashes, sets, sorted sets and lists
	FormatLaterKinds                // collections with elements of later kinds
	NewestFormat      = FormatLaterKinds
)

// lastOfFormatCollections is the last kind that parts read which read FormatCollections only.
const lastOfFormatCollections = List

// FormatOf returns the format of what a put brings: what a part has to read to handle it.
func FormatOf(v causal.Value) causal.Format {
	switch {
	case v.Type != causal.Collection:
		return FormatRegisters
	case hasLaterKind(v):
		return FormatLaterKinds
	}
	return FormatCollections
}

// hasLaterKind reports whether a collection has an element, perhaps a removed one, of a kind after those of
// FormatCollections.
func hasLaterKind(v causal.Value) bool {
	if KindOf(v) > lastOfFormatCollections {
		return true
	}
	d := rowReader{FieldReader: causal.NewFieldReader(v.Data)}
	d.skipHead()
	for d.Left() > 0 && !d.Failed() {
		if d.skipRow() > lastOfFormatCollections {
			return true
		}
	}
	return false
}

// skipHead goes on to the first row.
func (d *rowReader) skipHead() {
	d.byte()
	d.version()
	d.Uvarint()
	for n := d.Uvarint(); n > 0 && !d.Failed(); n-- {
		d.version()
		d.Uvarint()
		d.version()
	}
}

// skipRow goes on behind a row, and returns its kind.
func (d *rowReader) skipRow() Kind {
	head := d.byte()
	kind := Kind(head >> kindShift)
	if kind == List {
		d.skipPosition()
	} else {
		d.skipText()
		d.version()
	}
	if head&setRow != 0 {
		d.version()
	}
	if head&deadRow != 0 {
		d.version()
	} else {
		d.skipText()
	}
	if head&summedRow != 0 {
		d.skipSums()
	}
	return kind
}

func (d *rowReader) skipText() { d.Take(d.Uvarint()) }

func (d *rowReader) skipPosition() {
	for isLast := false; !isLast && !d.Failed(); {
		isLast = d.byte()&lastStep != 0
		d.version()
		d.Uvarint()
	}
}

func (d *rowReader) skipSums() {
	for n := d.Uvarint(); n > 0 && !d.Failed(); n-- {
		d.Uvarint()
		d.version()
		d.version()
		d.skipText()
		d.skipText()
	}
}

// Formatted is a type whose values are not known to parts of earlier versions.
type Formatted interface {
	// Reads returns the newest format of values of the type.
	Reads() causal.Format
	// FormatOf returns the format of what a put brings.
	FormatOf(v causal.Value) causal.Format
}

// Reads implements Formatted.
func (collection) Reads() causal.Format { return NewestFormat }

// FormatOf implements Formatted.
func (collection) FormatOf(v causal.Value) causal.Format { return FormatOf(v) }

// Reads returns up to which format values can be read with the types that ts knows.
func (ts *Types) Reads() causal.Format {
	if formatted, ok := ts.formatted(); ok {
		return formatted.Reads()
	}
	return FormatRegisters
}

// FormatOf returns the format of a value that ts accepts.
func (ts *Types) FormatOf(v *causal.Value) causal.Format {
	if formatted, ok := ts.formatted(); ok && v.Merges() {
		return formatted.FormatOf(*v)
	}
	return FormatRegisters
}

func (ts *Types) formatted() (f Formatted, ok bool) {
	if ts == nil {
		return nil, false
	}
	f, ok = ts.merging.(Formatted)
	return f, ok
}
