package value

import "github.com/causalstore/causalstore/sidecar/causal"

// The formats of values, in the order in which releases came to know them. A release reads all formats up to its own,
// and no put of a format is accepted before all parts read it (PROTOCOL FMT). The numbers are on the wire and in logs.
const (
	FormatRegisters   causal.Format = iota
	FormatCollections               // all kinds of collections (kind.go)
	NewestFormat      = FormatCollections
)

// FormatOf returns the format of what a put brings: what a part has to read to handle it.
func FormatOf(v causal.Value) causal.Format {
	if v.Type == causal.Collection {
		return FormatCollections
	}
	return FormatRegisters
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
