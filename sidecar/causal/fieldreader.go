package causal

import "encoding/binary"

// FieldReader reads the fields of an encoded record. After a failure it returns zeros.
type FieldReader struct {
	b      []byte
	failed bool
}

// NewFieldReader returns a reader of b. What Take returns refers to b.
func NewFieldReader(b []byte) FieldReader { return FieldReader{b: b} }

// Failed reports whether a field was missing or malformed.
func (r *FieldReader) Failed() bool { return r.failed }

// Fail notes that what was read means nothing.
func (r *FieldReader) Fail() { r.failed = true }

// Left returns how many bytes follow.
func (r *FieldReader) Left() int { return len(r.b) }

// Take returns the next n bytes.
func (r *FieldReader) Take(n uint64) []byte {
	if r.failed || n > uint64(len(r.b)) {
		r.failed = true
		return nil
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}

// Uvarint returns the next unsigned number.
func (r *FieldReader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if !r.advance(n) {
		return 0
	}
	return v
}

// Varint returns the next signed number.
func (r *FieldReader) Varint() int64 {
	v, n := binary.Varint(r.b)
	if !r.advance(n) {
		return 0
	}
	return v
}

func (r *FieldReader) advance(n int) bool {
	if r.failed || n <= 0 {
		r.failed = true
		return false
	}
	r.b = r.b[n:]
	return true
}

// Count returns the length of a list whose elements have minBytes each at least. A list that cannot fit is a failure.
func (r *FieldReader) Count(minBytes int) uint64 {
	n := r.Uvarint()
	if n > uint64(len(r.b)/minBytes) {
		r.failed = true
		return 0
	}
	return n
}
