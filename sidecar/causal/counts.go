package causal

import "fmt"

// Counts compares what a machine has counted with what there is. Bounds go by counts: one that is not taken back when
// its cause is gone lets less and less in, and in the end nothing, and one that is taken back twice lets in anything.
// The simulator asks for these comparisons.
type Counts []string

// Compare notes a count that differs from what there is.
func (cs *Counts) Compare(what string, counted, is int) {
	if counted != is {
		*cs = append(*cs, fmt.Sprintf("%s: %d are counted, and there are %d", what, counted, is))
	}
}

// CheckEmpty notes what is left of something that ends with its cause, when nothing is under way: it would be kept, or
// repeated, for ever.
func (cs *Counts) CheckEmpty(what string, left int) {
	if left != 0 {
		*cs = append(*cs, fmt.Sprintf("%s: %d are left, and nothing is under way", what, left))
	}
}

// CheckEnded is CheckEmpty for something of which there is one.
func (cs *Counts) CheckEnded(what string, isThere bool) {
	if isThere {
		cs.CheckEmpty(what, 1)
	}
}
