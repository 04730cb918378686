package wire

import (
	"bytes"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// fBody is the number of the body of kind 0 in Message: that of kind k is fBody+k.
const fBody = 64

// bodyGuess is about what a small body takes, and partGuess what a part of one takes.
const bodyGuess, partGuess = 100, 50

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

// Float implements causal.BodyVisitor.
func (w *bodyWriter) Float(f causal.BodyField, p *float64) {
	w.dst = appendFixed(w.dst, protowire.Number(f.Number), math.Float64bits(*p))
}

// Text implements causal.BodyVisitor.
func (w *bodyWriter) Text(f causal.BodyField, p *string) {
	if *p != "" {
		w.dst = protowire.AppendTag(w.dst, protowire.Number(f.Number), protowire.BytesType)
		w.dst = protowire.AppendString(w.dst, *p)
	}
}

// Texts implements causal.BodyVisitor.
func (w *bodyWriter) Texts(f causal.BodyField, p *[]string) {
	for _, text := range *p {
		w.dst = protowire.AppendTag(w.dst, protowire.Number(f.Number), protowire.BytesType)
		w.dst = protowire.AppendString(w.dst, text)
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

// Version implements causal.BodyVisitor.
func (w *bodyWriter) Version(f causal.BodyField, p *causal.Version) {
	w.dst = appendVersionField(w.dst, protowire.Number(f.Number), *p)
}

// Versions implements causal.BodyVisitor.
func (w *bodyWriter) Versions(f causal.BodyField, p *[]causal.Version) {
	for _, v := range *p {
		w.dst = appendVersionField(w.dst, protowire.Number(f.Number), v)
	}
}

// Dep implements causal.BodyVisitor.
func (w *bodyWriter) Dep(f causal.BodyField, p *causal.Dep) {
	w.dst = appendDep(w.dst, protowire.Number(f.Number), p)
}

// Deps implements causal.BodyVisitor.
func (w *bodyWriter) Deps(f causal.BodyField, p *[]causal.Dep) {
	for i := range *p {
		w.dst = appendDep(w.dst, protowire.Number(f.Number), &(*p)[i])
	}
}

// Vectors implements causal.BodyVisitor.
func (w *bodyWriter) Vectors(f causal.BodyField, p *[]causal.VectorEntry) {
	for i := range *p {
		w.dst = appendVector(w.dst, protowire.Number(f.Number), &(*p)[i])
	}
}

// Parts implements causal.BodyVisitor.
func (w *bodyWriter) Parts(f causal.BodyField, l causal.BodyParts) {
	for i := range l.Len() {
		dst := protowire.AppendTag(w.dst, protowire.Number(f.Number), protowire.BytesType)
		dst, start := openBytes(dst, partGuess)
		w.dst = dst
		l.At(i).Visit(w)
		w.dst = closeBytes(w.dst, start, partGuess)
	}
}

// body reads the body of a kind.
func (c *cursor) body(b causal.Body) {
	in := bodyReader{cursor: cursor{what: "body", b: c.bytes(), listRoom: c.listRoom, bounded: c.bounded}}
	in.fields(b)
	c.listRoom = in.listRoom
	c.adopt(&in.cursor)
}

// bodyReader decodes one field of a body, or of a part of one: the one at its cursor.
type bodyReader struct {
	cursor
	read bool
}

// fields reads all fields.
func (r *bodyReader) fields(b causal.Body) {
	for r.next() {
		r.read = false
		b.Visit(r)
		if !r.read {
			r.skip()
		}
	}
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

// Float implements causal.BodyVisitor.
func (r *bodyReader) Float(f causal.BodyField, p *float64) {
	if r.is(f) {
		*p = math.Float64frombits(r.fixed())
	}
}

// Text implements causal.BodyVisitor.
func (r *bodyReader) Text(f causal.BodyField, p *string) {
	if r.is(f) {
		*p = string(r.bytes())
	}
}

// Texts implements causal.BodyVisitor.
func (r *bodyReader) Texts(f causal.BodyField, p *[]string) {
	if r.is(f) {
		*p = append(grow(&r.cursor, *p, MaxList), string(r.bytes()))
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

// Version implements causal.BodyVisitor.
func (r *bodyReader) Version(f causal.BodyField, p *causal.Version) {
	if r.is(f) {
		*p = r.version()
	}
}

// Versions implements causal.BodyVisitor.
func (r *bodyReader) Versions(f causal.BodyField, p *[]causal.Version) {
	if r.is(f) {
		*p = append(grow(&r.cursor, *p, MaxList), r.version())
	}
}

// Dep implements causal.BodyVisitor.
func (r *bodyReader) Dep(f causal.BodyField, p *causal.Dep) {
	if r.is(f) {
		*p = r.dep()
	}
}

// Deps implements causal.BodyVisitor.
func (r *bodyReader) Deps(f causal.BodyField, p *[]causal.Dep) {
	if r.is(f) {
		*p = append(grow(&r.cursor, *p, causal.MaxDeps), r.dep())
	}
}

// Vectors implements causal.BodyVisitor.
func (r *bodyReader) Vectors(f causal.BodyField, p *[]causal.VectorEntry) {
	if r.is(f) {
		*p = append(grow(&r.cursor, *p, MaxList), r.vector())
	}
}

// Parts implements causal.BodyVisitor.
func (r *bodyReader) Parts(f causal.BodyField, l causal.BodyParts) {
	if !r.is(f) {
		return
	}
	if more := r.more(l.Len(), l.Cap(), MaxList); more > 0 && r.takeBytes(more*l.ElementBytes()) {
		l.Grow(more)
	}
	in := bodyReader{cursor: cursor{what: "part of a body", b: r.bytes(), listRoom: r.listRoom, bounded: r.bounded}}
	if r.err == nil {
		in.fields(l.Add())
	}
	r.listRoom = in.listRoom
	r.adopt(&in.cursor)
}
