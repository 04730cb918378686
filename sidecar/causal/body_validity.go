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

func (b *bodyValidity) judgeSeen(f BodyField) {
	if f.rule > anything && !f.rule.holds(&b.seen, b.t) {
		b.judge(f, Invalid)
	}
}

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

// Bytes implements BodyVisitor. Who reads them bounds what they encode.
func (b *bodyValidity) Bytes(BodyField, *[]byte) {}

// Record implements BodyVisitor.
func (b *bodyValidity) Record(f BodyField, p *Record) {
	b.seen.Record = *p
	b.judgeSeen(f)
}

// Records implements BodyVisitor.
func (b *bodyValidity) Records(f BodyField, p *[]Moved) {
	b.seen.Moved = *p
	b.judgeSeen(f)
}

// Versions implements BodyVisitor.
func (b *bodyValidity) Versions(f BodyField, p *[]Version) {
	b.seen.Versions = *p
	b.judgeSeen(f)
}

// Deps implements BodyVisitor.
func (b *bodyValidity) Deps(f BodyField, p *[]Dep) {
	b.seen.Deps = *p
	b.judgeSeen(f)
}
