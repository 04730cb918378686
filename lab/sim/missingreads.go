package sim

import (
	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
)

// A read of a deleted key whose tombstone was dropped returns the horizon instead of the version of the delete. Without
// that version, the checker would allow a session to go back to before the delete, so it is resolved at the end of the
// run.

// missingRead is a read of a missing key that returned a horizon.
type missingRead struct {
	op, read int // read -1: a get
	key      string
	horizon  causal.HLC
}

func (wl *workload) recordMissing(op *history.Op, r *session.Result) {
	note := func(i int, key string, rec causal.Record) {
		if rec.Value.Tombstone && !rec.Version.Written() && rec.Version.HLC > 0 {
			wl.missing = append(wl.missing, missingRead{len(wl.history), i, key, rec.Version.HLC})
		}
	}
	if op.Kind == history.Get {
		note(-1, op.Key, r.Record)
	}
	for i := range op.Reads {
		note(i, op.Reads[i].Key, r.Records[i])
	}
}

// resolveMissing sets the version of those reads to that of the delete that they have seen: the greatest write of the
// key at or below the horizon. If that write is not a delete, the read is a violation.
func (wl *workload) resolveMissing() (violations []string) {
	for _, m := range wl.missing {
		last, known := wl.newestWrite(m.key, m.horizon)
		switch {
		case !known:
		case last.Kind != history.Delete:
			violations = append(violations, "dropped: "+m.key+
				" was read as missing, but the newest write up to the horizon is "+last.String())
		case m.read < 0:
			wl.history[m.op].Version = last.Version
		default:
			wl.history[m.op].Reads[m.read].Version = last.Version
		}
	}
	return violations
}

// newestWrite returns the greatest write of a key at or below an HLC. It is not known if there is no such write, or if
// the key has a write of unknown outcome.
func (wl *workload) newestWrite(key string, upTo causal.HLC) (last *history.Op, known bool) {
	for i := range wl.history {
		o := &wl.history[i]
		if o.Key != key || o.Kind != history.Put && o.Kind != history.Delete && o.Kind != history.Add {
			continue
		}
		if o.Unknown {
			return nil, false
		}
		if o.OK && o.Version.HLC <= upTo && (last == nil || last.Version.Less(o.Version)) {
			last = o
		}
	}
	return last, last != nil
}
