package causal

import "unsafe"

// BodyParts is a list in a body whose elements have fields of their own.
type BodyParts interface {
	Len() int
	Cap() int
	// At returns an element.
	At(i int) Body
	// Add appends an empty element and returns it.
	Add() Body
	// Grow makes room for n more elements.
	Grow(n int)
	// ElementBytes is what an element takes in memory, without its own lists.
	ElementBytes() int
	// List returns a pointer to the list.
	List() any
}

// visitParts visits a list of parts.
func visitParts[T any, P interface {
	*T
	Body
}](v BodyVisitor, f BodyField, list *[]T) {
	v.Parts(f, partList[T, P]{list})
}

// partList implements BodyParts.
type partList[T any, P interface {
	*T
	Body
}] struct{ list *[]T }

func (l partList[T, P]) Len() int      { return len(*l.list) }
func (l partList[T, P]) Cap() int      { return cap(*l.list) }
func (l partList[T, P]) At(i int) Body { return P(&(*l.list)[i]) }
func (l partList[T, P]) List() any     { return l.list }

func (l partList[T, P]) Grow(n int) {
	*l.list = append(make([]T, 0, len(*l.list)+n), *l.list...)
}

func (l partList[T, P]) ElementBytes() int {
	var element T
	return int(unsafe.Sizeof(element))
}

func (l partList[T, P]) Add() Body {
	var element T
	*l.list = append(*l.list, element)
	return l.At(len(*l.list) - 1)
}

// VisitorFunc is a BodyVisitor that is called with each field: with a pointer to it, or with BodyParts. It may change a
// number through its pointer, a *uint64.
type VisitorFunc func(f BodyField, p any)

// Number implements BodyVisitor.
func (visit VisitorFunc) Number(f BodyField, is uint64) (uint64, bool) {
	n := is
	visit(f, &n)
	return n, n != is
}

// Time implements BodyVisitor.
func (visit VisitorFunc) Time(f BodyField, p *HLC) { visit(f, p) }

// Flag implements BodyVisitor.
func (visit VisitorFunc) Flag(f BodyField, p *bool) { visit(f, p) }

// Float implements BodyVisitor.
func (visit VisitorFunc) Float(f BodyField, p *float64) { visit(f, p) }

// Text implements BodyVisitor.
func (visit VisitorFunc) Text(f BodyField, p *string) { visit(f, p) }

// Texts implements BodyVisitor.
func (visit VisitorFunc) Texts(f BodyField, p *[]string) { visit(f, p) }

// Bytes implements BodyVisitor.
func (visit VisitorFunc) Bytes(f BodyField, p *[]byte) { visit(f, p) }

// Record implements BodyVisitor.
func (visit VisitorFunc) Record(f BodyField, p *Record) { visit(f, p) }

// Records implements BodyVisitor.
func (visit VisitorFunc) Records(f BodyField, p *[]Moved) { visit(f, p) }

// Version implements BodyVisitor.
func (visit VisitorFunc) Version(f BodyField, p *Version) { visit(f, p) }

// Versions implements BodyVisitor.
func (visit VisitorFunc) Versions(f BodyField, p *[]Version) { visit(f, p) }

// Dep implements BodyVisitor.
func (visit VisitorFunc) Dep(f BodyField, p *Dep) { visit(f, p) }

// Deps implements BodyVisitor.
func (visit VisitorFunc) Deps(f BodyField, p *[]Dep) { visit(f, p) }

// Vectors implements BodyVisitor.
func (visit VisitorFunc) Vectors(f BodyField, p *[]VectorEntry) { visit(f, p) }

// Parts implements BodyVisitor.
func (visit VisitorFunc) Parts(f BodyField, l BodyParts) { visit(f, l) }
