package bench

import (
	"context"
	"slices"
	"time"

	"github.com/causalstore/causalstore/lab/local"
)

// recovery is when a deployment was normal again after a heal. Zero times were not reached.
type recovery struct {
	// complete is when all writes that were accepted before the heal were in every ring, unbound when no session was
	// bound by one of them.
	complete, unbound time.Time
	// refilled is when no shard lacked data that it had lost, and copied what that took.
	refilled time.Time
	copied   copied
	// local is when as many reads as before the fault were answered in the data center of the client, here and
	// elsewhere.
	local [2]time.Time
}

// copied are the keys that were looked up in other rings, and the bytes of the values that were taken from there.
type copied struct{ keys, bytes uint64 }

func (r *recovery) isOver() bool {
	return !r.complete.IsZero() && !r.unbound.IsZero() && !r.refilled.IsZero() && !r.local[0].IsZero() &&
		!r.local[1].IsZero()
}

const (
	// statePoll is how often the state of the deployment is looked at after the heal.
	statePoll = 50 * time.Millisecond
	// Reads are local again when in a second their share is at most localSlack below that before the fault.
	localWindow = time.Second
	localSlack  = 0.07
)

// awaitNormal waits until the deployment is normal again, or the time is up.
func (r *faultRun) awaitNormal(ctx context.Context, healed time.Time) error {
	gone := ""
	if r.fault.gone { // its own clients do not read locally any more
		gone, r.recovery.local[0] = r.o.DC, healed
	}
	for !r.recovery.isOver() && time.Since(healed) < r.o.Recovery {
		if err := sleep(ctx, statePoll); err != nil {
			return err
		}
		now := time.Now()
		st := r.plane.State()
		complete, unbound := normality(st, healed.UnixMilli(), gone)
		if complete && r.recovery.complete.IsZero() {
			r.recovery.complete = now
		}
		if complete && unbound && r.recovery.unbound.IsZero() {
			r.recovery.unbound = now
		}
		if got, whole := refilled(st, r.fault.lost()); whole && r.recovery.refilled.IsZero() {
			r.recovery.refilled, r.recovery.copied = now, got
		}
		from := now.Add(-localWindow)
		for i, group := range r.groups() {
			if r.recovery.local[i].IsZero() && from.After(healed) && r.watch.isLocalAgain(group, from, now) {
				r.recovery.local[i] = from
			}
		}
	}
	return nil
}

// refilled reports whether all shards of some data centers have the data again that they had lost, and what they have
// looked up and copied.
func refilled(st local.State, lost []string) (got copied, whole bool) {
	whole = true
	for _, dc := range st.DataCenters {
		if !slices.Contains(lost, dc.Name) {
			continue
		}
		for _, m := range dc.Middlemen {
			if m.Backfill == nil || m.DataLost { // it may not know of its loss yet
				whole = false
				continue
			}
			got.keys, got.bytes = got.keys+m.Backfill.Keys, got.bytes+m.Backfill.Bytes
		}
	}
	return got, whole
}

// normality reports whether all writes that were accepted up to a time are complete, except for those of a data center
// that is gone, and whether none of them binds a session.
func normality(st local.State, upToMs int64, gone string) (complete, unbound bool) {
	complete, unbound = true, true
	for _, o := range st.Origins {
		if gone != "" && o.DC == gone {
			continue
		}
		complete = complete && o.Up && o.SV.WallMs() > upToMs
	}
	for _, dc := range st.DataCenters {
		for _, s := range dc.BoundBy {
			unbound = unbound && (s.InFlight == 0 || s.OldestInFlight.WallMs() > upToMs)
		}
	}
	return complete, unbound
}

// healTimes says how long after the heal everything was normal again.
func (r *faultRun) healTimes() *FaultHeal {
	healed, end := r.watch.enteredAt(phaseAfter), r.watch.enteredAt(phaseEnd)
	since := func(t time.Time) float64 {
		if t.IsZero() {
			t = end
		}
		return t.Sub(healed).Seconds()
	}
	x := &r.recovery
	h := &FaultHeal{LastError: r.watch.lastError().Seconds(), Complete: since(x.complete), Unbound: since(x.unbound),
		Refilled: since(x.refilled), Local: max(since(x.local[0]), since(x.local[1])), LookedUpKeys: x.copied.keys,
		CopiedBytes: x.copied.bytes, Recovered: x.isOver()}
	h.Normal = max(h.LastError, h.Complete, h.Unbound, h.Refilled, h.Local)
	return h
}
