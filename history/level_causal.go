package history

import "github.com/causalstore/causalstore/sidecar/causal"

func init() {
	register(causalPlus{}, causal.DefaultLevel, causal.Latest, causal.Snapshot, causal.Newest, causal.Local)
}

// causalPlus promises that nothing in the past of a read supersedes what it has returned, and that what an MGET has
// returned is one state. How new that is, it does not promise.
type causalPlus struct{}

func (causalPlus) addsToPast() bool { return true }

func (causalPlus) check(c *Checker, v int32, o *opInfo) {
	base := c.clockOf(v)
	merges := false
	for i := o.elems.from; i < o.elems.to; i++ {
		c.checkRead(i, base, -1)
		merges = merges || c.keys[c.elems[i].key].merges
	}
	if o.elems.len() < 2 && !merges {
		return
	}
	// The snapshot rule: a write in the past of one returned write must not supersede another returned write.
	for j := o.elems.from; j < o.elems.to; j++ {
		w := c.elems[j].write
		if w < 0 {
			continue
		}
		for i := o.elems.from; i < o.elems.to; i++ {
			if c.keys[c.elems[i].key].merges || i != j && c.elems[i].write != w {
				// a write of a merging value may follow another one
				c.checkRead(i, c.clockOf(w), w)
			}
		}
	}
}
