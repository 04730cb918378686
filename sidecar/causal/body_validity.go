package causal

import "github.com/causalstore/causalstore/topology"

// bodyValidity is a BodyVisitor that judges each field of a body by its rule.
type bodyValidity struct {
	t       *topology.Topology
	seen    Fields // what the rules of later fields look at
	verdict Validity
	field   string // the first one that is not valid
}

func validateBody(b Body, t *topology.Topology) (Validity, string) {
	if b == nil {
		return Invalid, "Body"
	}
	v := bodyValidity{t: t}
	b.Visit(&v)
	return v.verdict, v.field
}

func (b *bodyValidity) judge(f BodyField, is Validity) {
	if b.verdict == Valid && is != Valid {
		b.verdict, b.field = is, f.Name
	}
}

// require judges a field that has a rule.
func (b *bodyValidity) require(f BodyField, holds bool) {
	if f.rule > anything && !holds {
		b.judge(f, Invalid)
	}
}

func (b *bodyValidity) last() topology.Origin { return topology.Origin(b.t.Origins()) }

// Number implements BodyVisitor.
func (b *bodyValidity) Number(f BodyField, is uint64) (uint64, bool) {
	if f.rule > anything {
		b.judge(f, f.rule.judgeNumber(is, &b.seen, b.t))
	}
	return 0, false
}

// Time implements BodyVisitor. A part bounds a timestamp by its clock.
func (b *bodyValidity) Time(BodyField, *HLC) {}

// Flag implements BodyVisitor.
func (b *bodyValidity) Flag(BodyField, *bool) {}

// Text implements BodyVisitor.
func (b *bodyValidity) Text(BodyField, *string) {}

// Texts implements BodyVisitor.
func (b *bodyValidity) Texts(BodyField, *[]string) {}

// Bytes implements BodyVisitor. Who reads them bounds what they encode.
func (b *bodyValidity) Bytes(BodyField, *[]byte) {}

// Float implements BodyVisitor.
func (b *bodyValidity) Float(f BodyField, p *float64) { b.require(f, f.rule == finite && isFinite(*p)) }

// Record implements BodyVisitor.
func (b *bodyValidity) Record(f BodyField, p *Record) { b.Version(f, &p.Version) }

// Records implements BodyVisitor.
func (b *bodyValidity) Records(f BodyField, p *[]Moved) {
	b.require(f, f.rule == records && areReadable(*p, b.last()))
}

// Version implements BodyVisitor.
func (b *bodyValidity) Version(f BodyField, p *Version) { b.require(f, f.rule.holdsOf(*p, b.last())) }

// Versions implements BodyVisitor.
func (b *bodyValidity) Versions(f BodyField, p *[]Version) {
	b.require(f, f.rule == versions && areVersions(*p, b.last()))
}

// Dep implements BodyVisitor.
func (b *bodyValidity) Dep(f BodyField, p *Dep) {
	b.require(f, f.rule == dependency && isDep(p, b.last()))
}

// Deps implements BodyVisitor.
func (b *bodyValidity) Deps(f BodyField, p *[]Dep) {
	b.seen.Deps = *p
	b.require(f, f.rule == dependencies && areWrites(*p, b.last()))
}

// Vectors implements BodyVisitor.
func (b *bodyValidity) Vectors(f BodyField, p *[]VectorEntry) {
	b.require(f, f.rule == vectors && areVectors(*p, b.t))
}

// Parts implements BodyVisitor.
func (b *bodyValidity) Parts(f BodyField, l BodyParts) {
	b.require(f, f.rule.holdsOfParts(l, b.t))
	for i := range l.Len() {
		l.At(i).Visit(b)
	}
}
