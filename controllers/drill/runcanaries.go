package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/causalstore/causalstore/controllers/drill/record"
	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/lab/canary"
)

// startCanaries starts canaries at the fronts of all data centers, and with sidecars where there can be some.
func (x *Runner) startCanaries(ctx context.Context) error {
	x.note("starting canaries in %s; with a sidecar in %s", orNone(x.pre.Watched),
		orNone(dataCentersOf(x.pre.Landscape.Canaries)))
	var all []CanaryID
	for _, dc := range x.pre.Watched {
		all = append(all, CanaryID{dc, record.Front})
	}
	for _, p := range x.pre.Landscape.Canaries {
		all = append(all, CanaryID{p.DataCenter, record.Sidecar})
	}
	failed, err := x.Canaries.Start(ctx, x.run, x.Settings, x.owner, all)
	if err != nil {
		return err
	}
	var why []string
	for _, id := range all {
		if err := failed[id]; err != nil {
			why = append(why, fmt.Sprintf("%s: %v", id, err))
			continue
		}
		x.watched = append(x.watched, id)
		x.run.Canaries = append(x.run.Canaries, id.String())
	}
	if len(why) == 0 {
		return nil
	}
	if x.run.NoSidecars != "" { // elsewhere
		why = append(why, x.run.NoSidecars)
	}
	x.run.NoSidecars = strings.Join(why, "; ")
	x.note("canaries without a sidecar only: %s", x.run.NoSidecars)
	if x.Settings.Sidecars == SidecarsRequired {
		return errors.New(x.run.NoSidecars)
	}
	return nil
}

// freezeCanaries takes canaries that do not work out of the faults, and names the pods of the others.
func (x *Runner) freezeCanaries() {
	uids := x.Canaries.UIDs()
	frozen := func(pods []Pod) (out []Pod) {
		for _, p := range pods {
			if p.Component == ComponentCanary && !slices.Contains(x.watched, CanaryID{p.DataCenter, record.Sidecar}) {
				continue
			}
			if p.Component == ComponentCanary {
				p.UID = uids[p.Name]
			}
			out = append(out, p)
		}
		return out
	}
	t := &x.pre.Target
	t.Pods, t.Faults = frozen(t.Pods), slices.Clone(t.Faults)
	for i := range t.Faults {
		f := &t.Faults[i]
		f.Victims, f.Targets = frozen(f.Victims), frozen(f.Targets)
	}
	x.run.Pods = nil
	for _, pod := range t.Pods {
		x.run.Pods = append(x.run.Pods, pod.String())
	}
}

// stopped reports whether the faults stop a canary itself, with its zone. That is observed; it is no error of the
// store.
func (x *Runner) stopped(id CanaryID) bool {
	return id.Through == record.Sidecar && slices.ContainsFunc(x.pre.Landscape.Canaries, func(p Pod) bool {
		return p.DataCenter == id.DataCenter && x.pre.Target.stops(p)
	})
}

// fetch reads what canaries saw. One that does not answer is asked again the next time.
func (x *Runner) fetch(ctx context.Context) {
	type answer struct {
		report  canary.Report
		arrived time.Time
		err     error
	}
	answers := make([]answer, len(x.watched))
	var asked sync.WaitGroup
	for i, id := range x.watched { // at once: one that is stopped must not delay the others
		from := x.positions[id]
		asked.Go(func() {
			r, err := x.Canaries.Report(ctx, id, from)
			answers[i] = answer{r, now(), err}
		})
	}
	asked.Wait()
	for i, id := range x.watched {
		a := &answers[i]
		if a.err == nil {
			a.err = x.judge.add(id, a.report, a.arrived)
		}
		switch {
		case a.err == nil:
			if before := x.positions[id].Incarnation; before != "" && before != a.report.Next.Incarnation {
				x.note("the canary of %s has started again", id)
			}
			x.positions[id] = a.report.Next
		case x.stopped(id):
			x.noteOnce("the canary of %s does not answer: it stops with its zone", id)
		default:
			x.noteOnce("the canary of %s does not report: %v", id, a.err)
		}
	}
}

// errorsOfCanaries are the kinds of errors that clients got.
func (x *Runner) errorsOfCanaries() (notes []string) {
	for _, id := range x.judge.canaries() {
		var kinds []string
		for kind, n := range x.judge.seen[id].Errors {
			kinds = append(kinds, fmt.Sprintf("%s %d", kind, n))
		}
		if slices.Sort(kinds); len(kinds) > 0 {
			notes = append(notes, fmt.Sprintf("errors in %s: %s", id, strings.Join(kinds, ", ")))
		}
	}
	return notes
}

// readFinally reads every key in every data center until all agree and nothing is lost, or the time is up, and checks
// everything. It returns why final reads were not made, or "". A canary with a sidecar that does not answer is left
// out: the front of its data center is read.
func (x *Runner) readFinally(ctx context.Context) (check history.Report, unread []string, why string) {
	if len(x.judge.history) == 0 {
		return x.judge.check(), nil, "no canary has reported an operation"
	}
	deadline := now().Add(x.Settings.FinalTimeout)
	silent := map[CanaryID]bool{}
	for round := 1; ; round++ {
		var final history.History
		why = ""
		for _, id := range x.watched {
			if silent[id] {
				continue
			}
			ops, err := x.Canaries.ReadFinally(ctx, id, round)
			if err != nil && id.Through == record.Sidecar {
				silent[id] = true
				unread = append(unread, id.String())
				x.noteOnce("nothing was read at the end through the canary of %s: %v", id, err)
				continue
			}
			if err != nil {
				why = fmt.Sprintf("not every data center could be read at the end: %v", err)
				break
			}
			final = append(final, ops...)
		}
		if why == "" {
			if check = x.judge.checkFinally(final); check.OK() {
				return check, unread, ""
			}
		}
		if !now().Before(deadline) || !sleep(ctx, min(x.Settings.Poll, time.Second)) {
			break
		}
	}
	if why != "" {
		check = x.judge.checkFinally(nil)
	}
	return check, unread, why
}

// deleteKeys deletes the keys of the run through the first data center that does it.
func (x *Runner) deleteKeys(ctx context.Context) {
	var errs []error
	for _, id := range x.watched {
		err := x.Canaries.DeleteKeys(ctx, id)
		if err == nil {
			return
		}
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		x.run.Notes = append(x.run.Notes,
			fmt.Sprintf("the keys of the canaries could not be deleted, and expire by themselves: %v",
				errors.Join(errs...)))
	}
}
