package groups

import (
	"math"

	"github.com/causalstore/causalstore/sidecar/causal/group"
)

// What members say is compared with their disks and clocks, whether or not anything comes of it: that a committed
// record is missing on one disk is seen by users only if all other disks are lost next, and that a grant ends before
// the lease that it gives only if its member takes over just then.

// checkDurable checks that records which a primary has reported as committed are durable on all members of its
// configuration.
func (w *world) checkDurable(h *host, records []group.Positioned) {
	if len(records) == 0 {
		return
	}
	for _, id := range h.g.Status().Config.Members {
		for _, other := range w.hosts {
			if d := other.disk; other.id() == id && !d.damaged && !d.lost {
				for _, r := range records {
					if !d.has(r) {
						w.violate("%s committed %q at position %d, which is not durable on %s", h.id(), r.Data,
							r.Position, id)
						return
					}
				}
			}
		}
	}
}

// checkKept checks that what was ever committed is still durable on all members with which a primary begins to serve.
func (w *world) checkKept(h *host) {
	var kept []group.Positioned
	for pos, data := range h.checker().committed {
		if data != "" {
			kept = append(kept, group.Positioned{Position: pos, Data: []byte(data)})
		}
	}
	w.checkDurable(h, kept)
}

// has reports whether a record is durable here, or was when it was removed from the beginning of the log.
func (d *disk) has(r group.Positioned) bool {
	end := uint64(math.MaxUint64) // records from there on are removed later
	for i := len(d.entries) - 1; i >= 0; i-- {
		e := &d.entries[i]
		if e.Index > d.synced {
			continue
		}
		switch e.Kind {
		case group.EntryTruncate:
			end = min(end, e.Position)
		case group.EntryBase:
			if e.Position > r.Position {
				return true
			}
		case group.EntryReset:
			return e.Position > r.Position // its user has copied a state with the record
		case group.EntryRecord:
			if e.Position == r.Position && e.Position < end {
				return string(e.Record.Data) == string(r.Data)
			}
		}
	}
	return false
}

// checkGrants checks that every member of the configuration of a primary keeps from serving for at least as long as the
// primary holds the lease.
func (w *world) checkGrants(h *host) {
	end := h.g.LeaseEnd(h.clock())
	if end == 0 || !w.withRegister {
		return
	}
	for _, id := range h.g.Status().Config.Members {
		for _, other := range w.hosts {
			if other == h || other.g == nil || other.id() != id {
				continue
			}
			if until, known := other.g.Promised(); known && h.at(end)-other.at(until) > tolerance {
				w.violate("%s holds a lease for longer than %s has granted it", h.id(), id)
			}
		}
	}
}

// tolerance is for the rounding of clocks, in nanoseconds.
const tolerance = 1e3

// at returns the time of the world at a time of the clock of a host.
func (h *host) at(mono int64) int64 {
	return h.startedAt + int64(float64(mono-h.firstTime())/(1+h.drift))
}

// firstTime is what the clock of a host shows when its process starts: most begin near zero, as that of a process does.
// Every fourth begins elsewhere, so that no time of one process means anything to another.
func (h *host) firstTime() int64 {
	if n := int64(h.name[0])*7919 + int64(h.instance)*104729; n%4 == 0 {
		return (1 + n%5000) * 1e9
	}
	return 1
}
