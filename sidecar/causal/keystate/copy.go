package keystate

import "github.com/causalstore/causalstore/sidecar/causal"

// Copy is the value of a key as of some time, with up to when it is the newest. Caches and near copies hold it.
//
// Invariant: it is the value at every cut from its own version up to below Next.
type Copy struct {
	Record causal.Record
	// Next is the HLC of the write that came after it; 0: none has.
	Next causal.HLC
}

// IsNewest reports whether no write came after it.
func (c *Copy) IsNewest() bool { return c.Next == 0 }

// IsAt reports whether it is the value at a cut.
func (c *Copy) IsAt(cut causal.HLC) bool { return c.Answers(cut, cut) }

// Lacks reports whether a reader whose cut has a write of the key, v, would get the copy, although it is older. A value
// that merges is not judged.
func (c *Copy) Lacks(v causal.Version) bool {
	return !c.Record.Value.Merges() && c.Record.Version.Less(v) && c.IsAt(v.HLC)
}

// Answers reports whether it has everything up to from, and nothing above upTo.
func (c *Copy) Answers(from, upTo causal.HLC) bool {
	return c.Record.Version.HLC <= upTo && (c.Next == 0 || from < c.Next)
}

// Withdraw withdraws it from the readers that have seen a write at next. It returns false if nobody may have it any
// more: a merging value that lacks a write in its middle is not the value at any cut that it was good for.
func (c *Copy) Withdraw(next causal.HLC) bool {
	switch {
	case c.Record.Version.HLC > next:
		return !c.Record.Value.Merges() // a register that won over it is as good as before
	case c.Next == 0 || next < c.Next:
		c.Next = next
	}
	return true
}

// Follow prepares the copy for taking the place of another one of the key, and reports whether it may. The older one
// does not: it comes from another shard, or was made for a reader at an older cut.
func (c *Copy) Follow(other *Copy) bool {
	switch {
	case Newer(&other.Record, &c.Record):
		return false
	case other.Record.Version == c.Record.Version && other.Next != 0 && (c.Next == 0 || other.Next < c.Next):
		c.Next = other.Next
	}
	return true
}
