package groups

import (
	"fmt"

	"github.com/causalstore/causalstore/sidecar/causal/group"
)

// checker remembers what was ever committed.
type checker struct {
	// committed maps positions to what was committed there; "" is a record that users do not see.
	committed map[uint64]string
	top       uint64 // the greatest position
}

func (c *checker) init() { c.committed = map[uint64]string{} }

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
	if e.Position < w.top {
		w.violate("%s serves with a log up to %d, and %d was committed", h.id(), e.Position, w.top)
		return
	}
	rest := e.Records
	for pos := h.g.Status().Base; pos <= e.Position; pos++ {
		data := ""
		if len(rest) > 0 && rest[0].Position == pos {
			data, rest = string(rest[0].Data), rest[1:]
		}
		if problem := w.note(pos, data); problem != "" {
			w.violate("%s serves: %s", h.id(), problem)
			return
		}
	}
}

// checkCommitted checks records that a primary has reported as committed.
func (w *world) checkCommitted(h *host, records []group.Positioned) {
	for _, r := range records {
		w.Commits++
		if problem := w.note(r.Position, string(r.Data)); problem != "" {
			w.violate("%s committed: %s", h.id(), problem)
		}
	}
}

// checkLease checks that a member that holds a lease is the only one that serves.
func (w *world) checkLease(h *host) {
	if h.g == nil || !h.g.HoldsLease(h.clock()) {
		return
	}
	for _, other := range w.hosts {
		if other != h && other.g != nil && other.g.Status().Role == group.Serving && !h.isAfter(other) {
			w.violate("%s serves although %s holds a lease", other.id(), h.id())
		}
	}
}

// isAfter reports whether the configuration of a host is above that of another one, which then is the one that is too late.
func (h *host) isAfter(other *host) bool {
	return h.g.Status().Config.Epoch > other.g.Status().Config.Epoch
}
