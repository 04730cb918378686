package groups

import (
	"fmt"

	"github.com/causalstore/causalstore/sidecar/causal/group"
)

// checker remembers what was ever committed, in a group and those that were created again in its place. One that
// replaces a group which was given up has another one.
type checker struct {
	// committed maps positions to what was committed there; "" is a record that users do not see.
	committed map[uint64]string
	top       uint64 // the greatest position
	// sums maps positions to the sum of a storage with all records up to there.
	sums map[uint64]uint64
}

// checkers holds a checker for each group that was given up, and for the present one.
type checkers struct {
	all []*checker
	of  map[uint64]int // the index of its checker, by group; other groups have the first one
}

func (cs *checkers) init() { cs.of = map[uint64]int{}; cs.add(0) }

func (cs *checkers) add(group uint64) {
	cs.of[group] = len(cs.all)
	cs.all = append(cs.all, &checker{committed: map[uint64]string{}, sums: map[uint64]uint64{}})
}

// checker returns the one for the group of a member.
func (h *host) checker() *checker { return h.w.all[h.w.of[h.g.Group()]] }

// noteApplied notes that a storage has a record, and returns what is wrong with that.
func (c *checker) noteApplied(s *storage, data string) string {
	if was, ok := c.sums[s.position]; ok && was != s.sum {
		return fmt.Sprintf("with %q at position %d it differs from another one", data, s.position)
	}
	c.sums[s.position] = s.sum
	if data == "" {
		// a primary that does not serve yet may have committed the start of its session, while the one before serves by
		// its lease
		return ""
	}
	return c.note(s.position, data)
}

// note notes that a record is committed, and returns what is wrong with that.
func (c *checker) note(pos uint64, data string) string {
	if was, ok := c.committed[pos]; ok && was != data {
		return fmt.Sprintf("position %d had %q and now has %q", pos, was, data)
	}
	c.committed[pos] = data
	c.top = max(c.top, pos)
	return ""
}

// checkLead checks the log that a primary begins to serve with.
func (w *world) checkLead(h *host, e *group.Event) {
	c := h.checker()
	if e.Position < c.top {
		w.violate("%s serves with a log up to %d, and %d was committed", h.id(), e.Position, c.top)
		return
	}
	w.checkKept(h)
	if w.external {
		return // what is in the log is seen when it is applied to the storage
	}
	rest := e.Records
	for pos := h.g.Status().Base; pos <= e.Position; pos++ {
		data := ""
		if len(rest) > 0 && rest[0].Position == pos {
			data, rest = string(rest[0].Data), rest[1:]
		}
		if problem := c.note(pos, data); problem != "" {
			w.violate("%s serves: %s", h.id(), problem)
			return
		}
	}
}

// checkCommitted checks records that a primary has reported as committed.
func (w *world) checkCommitted(h *host, records []group.Positioned) {
	w.checkDurable(h, records)
	for _, r := range records {
		w.Commits++
		if problem := h.checker().note(r.Position, string(r.Data)); problem != "" {
			w.violate("%s committed: %s", h.id(), problem)
		}
	}
}

// checkLease checks that a member that holds a lease is the only one that serves.
func (w *world) checkLease(h *host) {
	if h.g == nil || !h.g.HoldsLease(h.clock()) {
		return
	}
	w.checkGrants(h)
	for _, other := range w.hosts {
		if other != h && other.g != nil && other.g.Status().Role == group.Serving && !h.isAfter(other) {
			w.violate("%s serves although %s holds a lease", other.id(), h.id())
		}
	}
}

// isAfter reports whether the configuration of a host is above that of another one, which then is the one that is too
// late.
func (h *host) isAfter(other *host) bool {
	return h.g.Status().Config.Epoch > other.g.Status().Config.Epoch
}
