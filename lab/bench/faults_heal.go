package bench

import (
	"context"
	"time"

	"github.com/causalstore/causalstore/lab/local"
)

// recovery is when a deployment was normal again after a heal. Zero times were not reached.
type recovery struct {
	// complete is when all writes that were accepted before the heal were in every ring, unbound when no session was bound by
	// one of them.
	complete, unbound time.Time
	// local is when as many reads as before the fault were answered in the data center of the client, here and elsewhere.
	local [2]time.Time
}

func (r *recovery) isOver() bool {
	return !r.complete.IsZero() && !r.unbound.IsZero() && !r.local[0].IsZero() && !r.local[1].IsZero()
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
	for !r.recovery.isOver() && time.Since(healed) < r.o.Recovery {
		if err := pauseFor(ctx, statePoll); err != nil {
			return err
		}
		now := time.Now()
		complete, unbound := normality(r.plane.State(), healed.UnixMilli())
		if complete && r.recovery.complete.IsZero() {
			r.recovery.complete = now
		}
		if complete && unbound && r.recovery.unbound.IsZero() {
			r.recovery.unbound = now
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

// normality reports whether all writes that were accepted up to a time are complete, and whether they bind no session.
func normality(st local.State, upToMs int64) (complete, unbound bool) {
	complete, unbound = true, true
	for _, o := range st.Origins {
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
		Local: max(since(x.local[0]), since(x.local[1])), Recovered: x.isOver()}
	h.Normal = max(h.LastError, h.Complete, h.Unbound, h.Local)
	return h
}
