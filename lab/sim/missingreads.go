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
		case !last.deletes:
			violations = append(violations, "dropped: "+m.key+
				" was read as missing, but the newest write up to the horizon is "+last.op.String())
		case m.read < 0:
			wl.history[m.op].Version = last.version
		default:
			wl.history[m.op].Reads[m.read].Version = last.version
		}
	}
	return violations
}

// keyWrite is a write of a key.
type keyWrite struct {
	op      *history.Op
	version causal.Version
	deletes bool
}

// newestWrite returns the greatest write of a key at or below an HLC. It is not known if there is no such write, or if
// the key has a write of unknown outcome.
func (wl *workload) newestWrite(key string, upTo causal.HLC) (last keyWrite, known bool) {
	for i := range wl.history {
		w, found := writeOf(&wl.history[i], key)
		switch {
		case !found:
		case w.op.Unknown:
			return keyWrite{}, false
		case w.op.OK && w.version.HLC <= upTo && last.version.Less(w.version):
			last = w
		}
	}
	return last, last.op != nil
}

// writeOf returns what an operation writes to a key.
func writeOf(op *history.Op, key string) (w keyWrite, found bool) {
	for i := range op.Writes {
		if op.Writes[i].Key == key {
			return keyWrite{op, op.WriteVersion(i), op.Writes[i].Missing}, true
		}
	}
	isUpdate := op.Kind == history.Update && (op.Unknown || op.Version.Written())
	isWrite := op.Kind == history.Put || op.Kind == history.Delete || op.Kind == history.Add || isUpdate
	deletes := op.Kind == history.Delete || op.Kind == history.Update && op.Command[0] == "DEL"
	return keyWrite{op, op.Version, deletes}, isWrite && op.Key == key
}
