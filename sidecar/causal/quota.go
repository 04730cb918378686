package causal

import "github.com/causalstore/causalstore/topology"

// Quota bounds how much parts can make another one remember: all of them together, and each holder. The zero Quota
// permits nothing.
//
// A holder is an identity, since whoever has a certificate can open many links and call itself another sidecar on each;
// without identities, a node.
type Quota struct {
	Total, Each int
	// OwnerOf returns the identity behind a node, which needs to have a link; "": unknown. nil: there are none.
	OwnerOf func(topology.Node) string

	held     int
	byHolder map[Holder]int
}

// Holder is who has made a part remember something.
type Holder struct {
	identity string
	node     topology.Node
}

// Take counts one more for a node and returns who holds it, or false if there is no room.
func (q *Quota) Take(n topology.Node) (Holder, bool) { return q.TakeSize(n, 1) }

// TakeSize is Take for what counts for its size.
func (q *Quota) TakeSize(n topology.Node, size int) (Holder, bool) {
	h := q.Holder(n)
	if !q.hasRoom(h, size) {
		return h, false
	}
	q.add(h, size)
	return h, true
}

// HasRoom reports whether TakeSize would take it.
func (q *Quota) HasRoom(n topology.Node, size int) bool {
	return q.held+size <= min(q.Total, q.Each) || q.hasRoom(q.Holder(n), size) // whoever it is: mostly, little is held
}

func (q *Quota) hasRoom(h Holder, size int) bool {
	return q.held+size <= q.Total && q.byHolder[h]+size <= q.Each
}

// TakeFor is Take for a holder.
func (q *Quota) TakeFor(h Holder) bool {
	if !q.hasRoom(h, 1) {
		return false
	}
	q.add(h, 1)
	return true
}

// Must counts one more for a node, though there may be no room, and returns who holds it.
func (q *Quota) Must(n topology.Node) Holder {
	h := q.Holder(n)
	q.add(h, 1)
	return h
}

func (q *Quota) add(h Holder, n int) {
	if q.byHolder == nil {
		q.byHolder = map[Holder]int{}
	}
	q.held += n
	q.byHolder[h] += n
}

// Release counts n less for a holder.
func (q *Quota) Release(h Holder, n int) {
	q.held -= n
	if q.byHolder[h] -= n; q.byHolder[h] == 0 {
		delete(q.byHolder, h)
	}
}

// Held returns how much there is.
func (q *Quota) Held() int { return q.held }

// Holder returns who holds what a node makes a part remember now.
func (q *Quota) Holder(n topology.Node) Holder {
	if q.OwnerOf != nil {
		if id := q.OwnerOf(n); id != "" {
			return Holder{identity: id}
		}
	}
	return Holder{node: n}
}
