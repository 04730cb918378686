package value

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// deadlines say when a key expires. Each write that has set a deadline, or that has made the collection or is the
// register, has a cell; one goes when another one has seen it. So a deadline that was set for a collection that was
// deleted meanwhile does not end the one that was made after it. Of those that have not seen each other the longest
// counts.
type deadlines []deadline // in ascending order of at

// deadline is a cell.
type deadline struct {
	at   causal.Version // the write that has set it
	ms   int64          // when, in milliseconds since the epoch; 0: never
	seen causal.Version // the newest cell that this one replaces
}

// join adds the cells of another collection.
func (d deadlines) join(o deadlines) deadlines {
	all := slices.Concat(d, o)
	slices.SortFunc(all, func(a, b deadline) int { return a.at.Compare(b.at) })
	return slices.CompactFunc(all, func(a, b deadline) bool { return a.at == b.at }).after(causal.Version{})
}

// after returns the cells that are left when a register at v has overwritten the key: that of the register, and newer
// ones.
func (d deadlines) after(v causal.Version) deadlines {
	seen := causal.Version{}
	for i := range d {
		seen = maxVersion(seen, d[i].seen)
	}
	return slices.DeleteFunc(d, func(c deadline) bool { return !seen.Less(c.at) || c.at.Less(v) })
}

// ms returns when the collection expires, in milliseconds since the epoch; 0: never.
func (d deadlines) ms() (latest int64) {
	for i := range d {
		if d[i].ms == 0 {
			return 0
		}
		latest = max(latest, d[i].ms)
	}
	return latest
}

// seen returns the newest cell that a new one replaces.
func (d deadlines) seen() (v causal.Version) {
	for i := range d {
		if v = maxVersion(v, d[i].seen); d[i].at != self {
			v = maxVersion(v, d[i].at)
		}
	}
	return v
}
