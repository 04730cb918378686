package wire

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// fBody is the number of the body of kind 0 in Message: that of kind k is fBody+k.
const fBody = 64

// bodyGuess is about what a small body takes.
const bodyGuess = 100

func appendBody(dst []byte, k causal.Kind, b causal.Body) []byte {
	dst = protowire.AppendTag(dst, fBody+protowire.Number(k), protowire.BytesType)
	dst, start := openBytes(dst, bodyGuess)
	w := bodyWriter{dst}
	b.Visit(&w)
	return closeBytes(w.dst, start, bodyGuess)
}

// bodyWriter encodes the fields of a body. Zero fields are left out.
type bodyWriter struct{ dst []byte }

// Number implements causal.BodyVisitor.
func (w *bodyWriter) Number(f causal.BodyField, is uint64) (uint64, bool) {
	w.dst = appendUint(w.dst, protowire.Number(f.Number), is)
	return 0, false
}

// Time implements causal.BodyVisitor.
func (w *bodyWriter) Time(f causal.BodyField, p *causal.HLC) {
	w.dst = appendFixed(w.dst, protowire.Number(f.Number), uint64(*p))
}

// Flag implements causal.BodyVisitor.
func (w *bodyWriter) Flag(f causal.BodyField, p *bool) {
	w.dst = appendBool(w.dst, protowire.Number(f.Number), *p)
}

// Text implements causal.BodyVisitor.
func (w *bodyWriter) Text(f causal.BodyField, p *string) {
	if *p != "" {
		w.dst = protowire.AppendTag(w.dst, protowire.Number(f.Number), protowire.BytesType)
		w.dst = protowire.AppendString(w.dst, *p)
	}
}

// Bytes implements causal.BodyVisitor.
func (w *bodyWriter) Bytes(f causal.BodyField, p *[]byte) {
	if len(*p) > 0 {
		w.dst = protowire.AppendTag(w.dst, protowire.Number(f.Number), protowire.BytesType)
		w.dst = protowire.AppendBytes(w.dst, *p)
	}
}

// Record implements causal.BodyVisitor.
func (w *bodyWriter) Record(f causal.BodyField, p *causal.Record) {
	w.dst = appendRecord(w.dst, protowire.Number(f.Number), p)
}

// Records implements causal.BodyVisitor.
func (w *bodyWriter) Records(f causal.BodyField, p *[]causal.Moved) {
	for i := range *p {
		w.dst = appendMoved(w.dst, protowire.Number(f.Number), &(*p)[i])
	}
}

// Versions implements causal.BodyVisitor.
func (w *bodyWriter) Versions(f causal.BodyField, p *[]causal.Version) {
	for _, v := range *p {
		w.dst = appendVersionField(w.dst, protowire.Number(f.Number), v)
	}
}

// Deps implements causal.BodyVisitor.
func (w *bodyWriter) Deps(f causal.BodyField, p *[]causal.Dep) {
	for i := range *p {
		w.dst = appendDep(w.dst, protowire.Number(f.Number), &(*p)[i])
	}
}

// body reads the body of a kind.
func (c *cursor) body(b causal.Body) {
	in := bodyReader{cursor: cursor{what: "body", b: c.bytes(), listRoom: c.listRoom, bounded: c.bounded}}
	for in.next() {
		in.read = false
		b.Visit(&in)
		if !in.read {
			in.skip()
		}
	}
	c.listRoom = in.listRoom
	c.adopt(&in.cursor)
}

// bodyReader decodes one field of a body: the one at its cursor.
type bodyReader struct {
	cursor
	read bool
}

// is reports whether a field is the one to read.
func (r *bodyReader) is(f causal.BodyField) bool {
	if r.read || int32(r.num) != f.Number {
		return false
	}
	r.read = true
	return true
}

// Number implements causal.BodyVisitor.
func (r *bodyReader) Number(f causal.BodyField, _ uint64) (uint64, bool) {
	if !r.is(f) {
		return 0, false
	}
	return r.uint(f.Max), true
}

// Time implements causal.BodyVisitor.
func (r *bodyReader) Time(f causal.BodyField, p *causal.HLC) {
	if r.is(f) {
		*p = causal.HLC(r.fixed())
	}
}

// Flag implements causal.BodyVisitor.
func (r *bodyReader) Flag(f causal.BodyField, p *bool) {
	if r.is(f) {
		*p = r.bool()
	}
}

// Text implements causal.BodyVisitor.
func (r *bodyReader) Text(f causal.BodyField, p *string) {
	if r.is(f) {
		*p = string(r.bytes())
	}
}

// Bytes implements causal.BodyVisitor.
func (r *bodyReader) Bytes(f causal.BodyField, p *[]byte) {
	if r.is(f) {
		*p = nil
		if data := r.bytes(); len(data) > 0 {
			*p = bytes.Clone(data)
		}
	}
}

// Record implements causal.BodyVisitor.
func (r *bodyReader) Record(f causal.BodyField, p *causal.Record) {
	if r.is(f) {
		r.record(p)
	}
}

// Records implements causal.BodyVisitor.
func (r *bodyReader) Records(f causal.BodyField, p *[]causal.Moved) {
	if r.is(f) {
		*p = append(grow(&r.cursor, *p, MaxList), r.moved())
	}
}

// Versions implements causal.BodyVisitor.
func (r *bodyReader) Versions(f causal.BodyField, p *[]causal.Version) {
	if r.is(f) {
		*p = append(grow(&r.cursor, *p, MaxList), r.version())
	}
}

// Deps implements causal.BodyVisitor.
func (r *bodyReader) Deps(f causal.BodyField, p *[]causal.Dep) {
	if r.is(f) {
		*p = append(grow(&r.cursor, *p, causal.MaxDeps), r.dep())
	}
}
