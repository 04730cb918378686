package drill

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/drill/record"
	"github.com/causalstore/causalstore/lab/canary"
	"github.com/causalstore/causalstore/lab/history"
)

// now is the clock of runs. It is that of the machine: the times of pods are compared with it.
func now() time.Time { return time.Now() }

// Canaries are the sessions that watch a run, one set in each data center.
type Canaries interface {
	// Start starts them, and returns when they write and read, or with an error for the data centers where they do not.
	Start(ctx context.Context, r *record.Run, s Settings, dataCenters []string) error
	// Report returns what the canary of a data center has seen since a position.
	Report(ctx context.Context, dc string, from canary.Position) (canary.Report, error)
	Stop(ctx context.Context, dc string) error
	// ReadFinally reads every key in a data center, after all have stopped.
	ReadFinally(ctx context.Context, dc string, round int) (history.History, error)
	// DeleteKeys deletes the keys of the run through one data center.
	DeleteKeys(ctx context.Context, dc string) error
	// Remove removes the canaries.
	Remove(ctx context.Context) error
}

// Runner runs one drill.
type Runner struct {
	Client   client.Client
	Canaries Canaries
	Settings Settings
	// Out shows the progress.
	Out io.Writer
	// Version is that of the program.
	Version string

	pre         *Preflight
	run         *record.Run
	judge       *judge
	positions   map[string]canary.Position
	experiments []*unstructured.Unstructured
	// saved says that the ConfigMap of the run exists; healed that everything has healed.
	saved, healed bool
	faultsEnded   time.Time
}

// errAborted ends a run early; its text is the reason.
type errAborted struct{ reason string }

func (e errAborted) Error() string { return e.reason }

// NewID returns the id of a new run: the time, so that they sort, and something random.
func NewID(at time.Time) string {
	return at.UTC().Format("20060102-150405") + "-" + strings.ToLower(rand.Text()[:4])
}

// Run runs a drill that preflight has allowed. It returns the run even if that has failed or was aborted; the error says that it could
// not be carried out, or not be kept.
func (x *Runner) Run(ctx context.Context, p *Preflight) (*record.Run, error) {
	if err := errors.Join(p.OK(x.Settings.Force), x.Settings.Check()); err != nil {
		return nil, err
	}
	store := p.Landscape.Store
	x.pre, x.judge, x.positions = p, newJudge(), map[string]canary.Position{}
	x.run = &record.Run{Format: record.FormatVersion, ID: NewID(now()), Drill: p.Drill.Name, Title: p.Drill.Title, Paper: p.Drill.Paper, Store: store.Name,
		Namespace: store.Namespace, Generation: store.Generation, Hit: p.Target.Text, HitDataCenters: p.Target.HitDataCenters, Started: now(), Outcome: record.Running,
		Version: x.Version}
	for _, pod := range p.Target.Pods {
		x.run.Pods = append(x.run.Pods, pod.String())
	}
	if err := x.lock(ctx); err != nil {
		return nil, err
	}
	// What was begun is ended whatever happens, also if the user interrupts: each step has a bound of its own.
	whatever := context.WithoutCancel(ctx)
	defer x.unlock(whatever)
	if err := x.save(ctx); err != nil {
		return nil, err
	}
	x.announce(ctx, corev1.EventTypeNormal, reasonDrillStarted, fmt.Sprintf("drill %s, run %s: it %s, for %s; hits %s", p.Drill.Name, x.run.ID, p.Drill.Does, x.Settings.Injection, p.Target.Text))
	aborted := x.inject(ctx)
	x.heal(whatever)
	if aborted == nil && x.Settings.After > 0 {
		aborted = x.phase(ctx, record.After, x.Settings.After, x.abortRules())
	}
	x.conclude(whatever, aborted)
	x.publish(whatever)
	return x.run, errors.Join(x.save(whatever), x.prune(whatever))
}

// inject watches a baseline, creates the experiments, and watches them. It returns why the run ended early.
func (x *Runner) inject(ctx context.Context) error {
	x.note("starting canaries in %s", orNone(x.pre.Watched))
	if err := x.Canaries.Start(ctx, x.run, x.Settings, x.pre.Watched); err != nil {
		return errAborted{"the canaries did not start: " + err.Error()}
	}
	if err := x.watchBaseline(ctx); err != nil {
		return err
	}
	x.begin(record.Injection)
	defer func() { x.end(); x.faultsEnded = now() }()
	for i, f := range x.pre.Target.Faults {
		o := f.Object(x.run, i, x.Settings.experimentDuration())
		if err := x.Client.Create(ctx, o); err != nil {
			return errAborted{fmt.Sprintf("create %s %s: %v", o.GetKind(), o.GetName(), err)}
		}
		x.experiments = append(x.experiments, o)
		x.run.Experiments = append(x.run.Experiments, o.GetKind()+"/"+o.GetName())
		x.note("created %s %s", o.GetKind(), o.GetName())
	}
	if err := x.save(ctx); err != nil {
		return errAborted{err.Error()}
	}
	missing := ""
	injected := func(ctx context.Context) bool { missing = x.notInjected(ctx); return missing == "" }
	if err := x.watch(ctx, x.Settings.InjectTimeout, x.abortRules(), injected); err != nil {
		return err
	}
	if missing != "" {
		return errAborted{fmt.Sprintf("not everything is injected after %s: %s", x.Settings.InjectTimeout, missing)}
	}
	x.note("everything is injected")
	return x.watch(ctx, x.Settings.Injection, x.abortRules(), nil)
}

// watchBaseline watches the store before the faults: longer than the baseline if it cannot be judged by then.
func (x *Runner) watchBaseline(ctx context.Context) error {
	x.begin(record.Baseline)
	defer x.end()
	if err := x.watch(ctx, x.Settings.Baseline, nil, nil); err != nil {
		return err
	}
	why := ""
	if !x.until(ctx, x.Settings.HealTimeout, func(context.Context) bool { why = x.unhealthyBaseline(); return why == "" }) && !x.Settings.Force {
		return errAborted{why}
	}
	return nil
}

// unhealthyBaseline returns why the store cannot be judged, or "".
func (x *Runner) unhealthyBaseline() string {
	operations, failed := x.judge.outcomes(x.run.Started, nil)
	switch {
	case operations == 0:
		return "no canary made an operation before the faults"
	case percent(failed, operations) > 100*fewFail:
		return fmt.Sprintf("%d of %d operations failed before the faults; --force runs the drill all the same", failed, operations)
	}
	for _, dc := range x.pre.Watched {
		if _, ok := x.judge.completeAfter(x.run.Started, dc); !ok {
			return fmt.Sprintf("no write of %s was in every ring before the faults; --force runs the drill all the same", dc)
		}
	}
	return ""
}

// phase watches for a time.
func (x *Runner) phase(ctx context.Context, name string, length time.Duration, rules func(context.Context) error) error {
	x.begin(name)
	defer x.end()
	return x.watch(ctx, length, rules, nil)
}

func (x *Runner) begin(name string) {
	x.run.Phases = append(x.run.Phases, record.Phase{Name: name, From: now()})
	x.note("%s", name)
}

func (x *Runner) end() { x.run.Phases[len(x.run.Phases)-1].To = now() }

// watch fetches what canaries saw, and applies rules, until a time has passed or done returns true.
func (x *Runner) watch(ctx context.Context, length time.Duration, rules func(context.Context) error, done func(context.Context) bool) error {
	deadline := now().Add(length)
	for {
		x.fetch(ctx)
		if rules != nil {
			if err := rules(ctx); err != nil {
				return err
			}
		}
		if done != nil && done(ctx) || !now().Before(deadline) {
			return nil
		}
		if !sleep(ctx, min(x.Settings.Poll, time.Until(deadline)+time.Millisecond)) {
			return errAborted{"interrupted"}
		}
	}
}

// fetch reads what canaries saw. One that does not answer is asked again the next time.
func (x *Runner) fetch(ctx context.Context) {
	for _, dc := range x.pre.Watched {
		r, err := x.Canaries.Report(ctx, dc, x.positions[dc])
		if err == nil {
			err = x.judge.add(r, now())
		}
		if err != nil {
			x.noteOnce("the canary of %s does not report: %v", dc, err)
			continue
		}
		x.positions[dc] = r.Next
	}
}

// abortRules returns the rules that end a run early: a broken rule, the error budget, a lost group, a request.
func (x *Runner) abortRules() func(context.Context) error {
	checked := 0
	return func(ctx context.Context) error {
		if n := len(x.judge.history); n > checked {
			checked = n
			if v, broken := x.judge.brokenSoFar(); broken {
				return errAborted{"a causal rule is broken: " + v.String()}
			}
		}
		operations, failed := x.judge.outcomes(now().Add(-x.Settings.BudgetWindow), x.run.HitDataCenters)
		const fewest = 20
		if x.pre.Expect.Elsewhere < 1 && operations >= fewest && float64(failed) > x.Settings.ErrorBudget*float64(operations) {
			return errAborted{fmt.Sprintf("error budget: %d of %d operations in data centers that are not hit failed in the last %s", failed, operations, x.Settings.BudgetWindow)}
		}
		return errors.Join(x.groupLost(ctx), x.askedToAbort(ctx))
	}
}

// groupLost aborts if a group has no member left, or cannot change any more. A store that cannot be read is no reason.
func (x *Runner) groupLost(ctx context.Context) error {
	s := &v1alpha1.CausalStore{}
	if err := x.Client.Get(ctx, client.ObjectKeyFromObject(x.pre.Landscape.Store), s); err != nil {
		x.noteOnce("the store cannot be read: %v", err)
		return nil
	}
	c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionUnderReplicated)
	if c != nil && c.Status == "True" && slices.Contains([]string{v1alpha1.ReasonGroupLost, v1alpha1.ReasonGroupFrozen}, c.Reason) {
		return errAborted{"under-replication: " + c.Message}
	}
	return nil
}

// notInjected returns what is not injected yet, or "": experiments that Chaos Mesh does not call injected, and pods that it is said to have stopped and
// that are ready still, because they end slowly.
func (x *Runner) notInjected(ctx context.Context) string {
	var all []string
	for _, o := range x.experiments {
		live := o.DeepCopy()
		if err := x.Client.Get(ctx, client.ObjectKeyFromObject(o), live); err != nil {
			all = append(all, err.Error())
			continue
		}
		if !chaosCondition(live, "AllInjected") {
			all = append(all, fmt.Sprintf("%s %s: %s", o.GetKind(), o.GetName(), lastMessage(live)))
		}
	}
	if len(all) > 0 {
		return strings.Join(all, "; ")
	}
	for _, f := range x.pre.Target.Faults {
		if f.Kind != KindPod {
			continue
		}
		for _, v := range f.Victims {
			p := &corev1.Pod{}
			err := x.Client.Get(ctx, client.ObjectKey{Namespace: v.Namespace, Name: v.Name}, p)
			if err == nil && string(p.UID) == v.UID && plan.Ready(p) { // pods that are gone are stopped; of others that cannot be read nothing is known
				all = append(all, "pod "+v.String()+" is still ready")
			}
		}
	}
	return strings.Join(all, "; ")
}

// lastMessage is the newest message in the records of an experiment.
func lastMessage(o *unstructured.Unstructured) string {
	message := "Chaos Mesh says nothing; is its controller running?"
	records, _, _ := unstructured.NestedSlice(o.Object, "status", "experiment", "containerRecords")
	for _, r := range records {
		fields, _ := r.(map[string]any)
		events, _, _ := unstructured.NestedSlice(fields, "events")
		for _, e := range events {
			if e, ok := e.(map[string]any); ok && e["message"] != nil {
				message = fmt.Sprint(e["message"])
			}
		}
	}
	return message
}

// conclude stops the canaries, reads finally, and decides the promises.
func (x *Runner) conclude(ctx context.Context, aborted error) {
	for _, dc := range x.pre.Watched {
		if err := x.Canaries.Stop(ctx, dc); err != nil {
			x.noteOnce("the canary of %s does not stop: %v", dc, err)
		}
	}
	x.fetch(ctx)
	check, finalWhy := x.readFinally(ctx)
	e := &evidence{run: x.run, expect: x.pre.Expect, check: check, final: finalWhy == "", finalWhy: finalWhy, forged: x.judge.forged(), healed: x.healed,
		complete: map[string]time.Duration{}, watched: x.judge.dataCenters()}
	for _, dc := range e.watched {
		if took, ok := x.judge.completeAfter(x.faultsEnded, dc); ok && !x.faultsEnded.IsZero() {
			e.complete[dc] = took
		}
		if x.judge.seen[dc].Full {
			x.run.Notes = append(x.run.Notes, "the canary of "+dc+" stopped early: it had seen more than it keeps")
		}
	}
	x.run.Ended = now()
	x.run.Measures = x.judge.measures(x.run.Phases, x.run.HitDataCenters)
	x.run.Series = x.judge.series(x.run.Started, x.run.Ended, x.run.HitDataCenters)
	x.run.Checked, _, _ = strings.Cut(check.String(), "\n")
	x.run.Violations = append(describeViolations(check), x.judge.forged()...)
	x.run.Notes = append(x.run.Notes, x.errorsOfCanaries()...)
	reason := ""
	if aborted != nil {
		reason = aborted.Error()
	}
	if len(x.run.Experiments) > 0 || len(x.run.Violations) > 0 { // otherwise nothing was tested
		x.run.Promises = e.promises()
	}
	conclude(x.run, reason)
	x.deleteKeys(ctx)
	if err := x.Canaries.Remove(ctx); err != nil {
		x.note("the canaries could not be removed, and end by themselves: %v", err)
	}
	x.note("%s: %s", x.run.Outcome, x.run.Reason)
}

// errorsOfCanaries are the kinds of errors that clients got.
func (x *Runner) errorsOfCanaries() (notes []string) {
	for _, dc := range x.judge.dataCenters() {
		var kinds []string
		for kind, n := range x.judge.seen[dc].Errors {
			kinds = append(kinds, fmt.Sprintf("%s %d", kind, n))
		}
		if slices.Sort(kinds); len(kinds) > 0 {
			notes = append(notes, fmt.Sprintf("errors in %s: %s", dc, strings.Join(kinds, ", ")))
		}
	}
	return notes
}

// readFinally reads every key in every data center until all agree and nothing is lost, or the time is up, and checks everything. It returns
// why final reads were not made, or "".
func (x *Runner) readFinally(ctx context.Context) (check history.Report, why string) {
	if len(x.judge.history) == 0 {
		return x.judge.check(), "no canary has reported an operation"
	}
	deadline := now().Add(x.Settings.FinalTimeout)
	for round := 1; ; round++ {
		var final history.History
		why = ""
		for _, dc := range x.pre.Watched {
			ops, err := x.Canaries.ReadFinally(ctx, dc, round)
			if err != nil {
				why = fmt.Sprintf("not every data center could be read at the end: %v", err)
				break
			}
			final = append(final, ops...)
		}
		if why == "" {
			if check = x.judge.checkFinally(final); check.OK() {
				return check, ""
			}
		}
		if !now().Before(deadline) || !sleep(ctx, min(x.Settings.Poll, time.Second)) {
			break
		}
	}
	if why != "" {
		check = x.judge.check()
	}
	return check, why
}

// deleteKeys deletes the keys of the run through the first data center that does it.
func (x *Runner) deleteKeys(ctx context.Context) {
	var errs []error
	for _, dc := range x.pre.Watched {
		err := x.Canaries.DeleteKeys(ctx, dc)
		if err == nil {
			return
		}
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		x.run.Notes = append(x.run.Notes, fmt.Sprintf("the keys of the canaries could not be deleted, and expire by themselves: %v", errors.Join(errs...)))
	}
}

func (x *Runner) note(format string, args ...any) {
	e := record.Event{At: now(), Text: fmt.Sprintf(format, args...)}
	x.run.Events = append(x.run.Events, e)
	fmt.Fprintf(x.Out, "%6.1fs  %s\n", e.At.Sub(x.run.Started).Seconds(), e.Text)
}

// noteOnce notes what may repeat at every poll.
func (x *Runner) noteOnce(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.ContainsFunc(x.run.Events, func(e record.Event) bool { return e.Text == text }) {
		x.note("%s", text)
	}
}

// sleep waits, and reports false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
