package drill

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/drill/record"
	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/lab/canary"
)

// now is the clock of runs. It is that of the machine: the times of pods are compared with it.
func now() time.Time { return time.Now() }

// CanaryID is a canary of a run: a few sessions in one data center, which connect in one way.
type CanaryID struct {
	DataCenter string
	Through    record.Through
}

func (id CanaryID) String() string {
	if id.Through == record.Sidecar {
		return id.DataCenter + " (sidecar)"
	}
	return id.DataCenter
}

// Canaries are the sessions that watch a run.
type Canaries interface {
	// Start starts them, and returns when they write and read, or with an error if one that connects to a front does
	// not. Of those with a sidecar that do not, it returns why, and removes them. The owner, if it is not nil, takes
	// them with it when it is deleted.
	Start(ctx context.Context, r *record.Run, s Settings, owner *metav1.OwnerReference,
		all []CanaryID) (failed map[CanaryID]error, err error)
	// UIDs returns those of the pods with a sidecar, by name.
	UIDs() map[string]string
	// Report returns what a canary has seen since a position. Several may be asked at once.
	Report(ctx context.Context, id CanaryID, from canary.Position) (canary.Report, error)
	Stop(ctx context.Context, id CanaryID) error
	// ReadFinally reads every key through a canary, after all have stopped.
	ReadFinally(ctx context.Context, id CanaryID, round int) (history.History, error)
	// DeleteKeys deletes the keys of the run through one canary.
	DeleteKeys(ctx context.Context, id CanaryID) error
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
	// Version is that of the program. User is who runs it, and Cluster the address of the API server, as far as that is
	// known.
	Version, User, Cluster string

	pre         *Preflight
	run         *record.Run
	judge       *judge
	positions   map[CanaryID]canary.Position
	experiments []*unstructured.Unstructured
	// watched are the canaries that work, those of fronts first. owner is the lock, which takes them with it.
	watched []CanaryID
	owner   *metav1.OwnerReference
	// lockedBy is another run that has the lock; nil: this one has it.
	lockedBy atomic.Pointer[string]
	// saved says that the ConfigMap of the run exists; healed that everything has healed.
	saved, healed bool
	// injected is when all faults were in effect; zero: they never were.
	injected, faultsEnded time.Time
}

// errAborted ends a run early; its text is the reason.
type errAborted struct{ reason string }

func (e errAborted) Error() string { return e.reason }

// NewID returns the id of a new run: the time, so that they sort, and something random.
func NewID(at time.Time) string {
	return at.UTC().Format("20060102-150405") + "-" + strings.ToLower(rand.Text()[:4])
}

// Run runs a drill that preflight has allowed. It returns the run even if that has failed or was aborted; the error
// says that it could not be carried out, or not be kept.
func (x *Runner) Run(ctx context.Context, p *Preflight) (*record.Run, error) {
	if err := errors.Join(p.OK(x.Settings.Force), x.Settings.Check()); err != nil {
		return nil, err
	}
	store := p.Landscape.Store
	x.pre, x.judge, x.positions = p, newJudge(), map[CanaryID]canary.Position{}
	x.run = &record.Run{Format: record.FormatVersion, ID: cmp.Or(p.Landscape.RunID, NewID(now())),
		NoSidecars: p.Landscape.NoSidecars, Drill: p.Drill.Name, Title: p.Drill.Title, Paper: p.Drill.Paper,
		Store:     store.Name,
		Namespace: store.Namespace, Generation: store.Generation, Hit: p.Target.Text,
		HitDataCenters: p.Target.HitDataCenters, Started: now(), Outcome: record.Running,
		Reason:  "under way, unless its command was killed",
		Version: x.Version, User: x.User, Cluster: x.Cluster, Settings: x.Settings.String()}
	var zones []string
	for _, pod := range p.Target.Pods {
		x.run.Pods = append(x.run.Pods, pod.String())
		if pod.Zone != "" && !slices.Contains(zones, pod.Zone) {
			zones = append(zones, pod.Zone)
		}
	}
	if slices.Sort(zones); len(zones) > 0 {
		x.run.Hit += ", in " + strings.Join(zones, ", ")
	}
	x.run.Notes = append(x.run.Notes,
		"the faults hit the pods of the store that are listed, and nothing else in their zones: not the operator, "+
			"nor DNS, nor nodes")
	if p.Expect.Why != "" {
		x.run.Notes = append(x.run.Notes, p.Expect.Why)
	}
	if x.Settings.Force && len(p.Doubts) > 0 {
		x.run.Notes = append(x.run.Notes, "it was run with --force, although: "+strings.Join(p.Doubts, "; "))
	}
	if err := x.lock(ctx); err != nil {
		return nil, err
	}
	// What was begun is ended whatever happens, also if the user interrupts: each step has a bound of its own.
	whatever := context.WithoutCancel(ctx)
	defer x.unlock(whatever)
	renewing, stopRenewing := context.WithCancel(whatever)
	renewed := make(chan struct{})
	go func() { defer close(renewed); x.renewLock(renewing, lockRenewal) }()
	defer func() { stopRenewing(); <-renewed }() // before it is given back
	if err := x.save(ctx); err != nil {
		return nil, err
	}
	x.removeEarlierCanaries(ctx)
	x.announce(ctx, corev1.EventTypeNormal, reasonDrillStarted,
		fmt.Sprintf("drill %s, run %s: it %s, for %s; hits %s", p.Drill.Name, x.run.ID, p.Drill.Does,
			x.Settings.Injection, p.Target.Text))
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
	if err := x.startCanaries(ctx); err != nil {
		return errAborted{"the canaries did not start: " + err.Error()}
	}
	if err := x.watchBaseline(ctx); err != nil {
		return err
	}
	x.begin(record.Injection)
	defer func() { x.end(); x.faultsEnded = now() }()
	x.freezeCanaries()
	for i, f := range x.pre.Target.Faults {
		if len(f.Victims) == 0 {
			return errAborted{"nothing is left to hit: " + f.What}
		}
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
	x.injected = now()
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
	if !x.until(ctx, x.Settings.HealTimeout, func(context.Context) bool {
		why = x.unhealthyBaseline()
		return why == ""
	}) && !x.Settings.Force {
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
		return fmt.Sprintf("%d of %d operations failed before the faults; --force runs the drill anyway", failed,
			operations)
	}
	for _, id := range x.watched {
		if _, ok := x.judge.completeAfter(x.run.Started, id); !ok {
			return fmt.Sprintf(
				"no write of %s was in every ring before the faults; --force runs the drill anyway", id)
		}
	}
	return ""
}

// phase watches for a time.
func (x *Runner) phase(ctx context.Context, name string, length time.Duration,
	rules func(context.Context) error) error {
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
func (x *Runner) watch(ctx context.Context, length time.Duration, rules func(context.Context) error,
	done func(context.Context) bool) error {
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
		if x.pre.Expect.Elsewhere < 1 && operations >= fewest &&
			float64(failed) > x.Settings.ErrorBudget*float64(operations) {
			return errAborted{
				fmt.Sprintf("error budget: %d of %d operations in data centers that are not hit failed in the last %s",
					failed, operations, x.Settings.BudgetWindow),
			}
		}
		return errors.Join(x.underAnother(), x.groupLost(ctx), x.askedToAbort(ctx))
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
	if c != nil && c.Status == "True" && slices.Contains([]string{v1alpha1.ReasonGroupLost, v1alpha1.ReasonGroupFrozen},
		c.Reason) {
		return errAborted{"under-replication: " + c.Message}
	}
	return nil
}

// notInjected returns what is not injected yet, or "": experiments that Chaos Mesh does not call injected, and pods
// that it is said to have stopped and that are ready still, because they end slowly.
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
			if err == nil && string(p.UID) == v.UID && plan.Ready(p) {
				// pods that are gone are stopped; of others that cannot be read nothing is known
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
	for _, id := range x.watched {
		if err := x.Canaries.Stop(ctx, id); err != nil {
			x.noteOnce("the canary of %s does not stop: %v", id, err)
		}
	}
	x.fetch(ctx)
	check, silent, finalWhy := x.readFinally(ctx)
	lasted, short := x.faultsLasted()
	x.run.Notes = append([]string{lasted}, x.run.Notes...)
	ended := ""
	if aborted != nil {
		ended = cmp.Or(short, "the run was aborted")
	}
	e := &evidence{aborted: ended, run: x.run, expect: x.pre.Expect, check: check, final: finalWhy == "",
		finalWhy: finalWhy, silent: silent, forged: x.judge.forged(), healed: x.healed,
		complete: map[CanaryID]time.Duration{}}
	for _, id := range x.judge.canaries() {
		took, ok := x.judge.completeAfter(x.faultsEnded, id)
		if ok = ok && !x.faultsEnded.IsZero(); ok {
			e.complete[id] = took
		}
		switch {
		case !x.stopped(id):
			e.watched = append(e.watched, id)
		case ok:
			x.run.Notes = append(x.run.Notes,
				fmt.Sprintf(
					"the canary of %s, which stopped with its zone, had a write in every ring %s after the end of "+
						"the faults", id, took.Round(100*time.Millisecond)))
		default:
			x.run.Notes = append(x.run.Notes,
				fmt.Sprintf(
					"the canary of %s, which stopped with its zone, had no write in every ring until the run ended",
					id))
		}
		if x.judge.seen[id].Full {
			x.run.Notes = append(x.run.Notes, "the canary of "+id.String()+
				" stopped early: it had seen more than it keeps")
		}
	}
	if n := len(x.judge.unreported(x.judge.history)); n > 0 {
		x.run.Notes = append(x.run.Notes,
			fmt.Sprintf(
				"%d writes are known from reads of others only: the canaries that made them were stopped before they "+
					"reported them", n))
	}
	x.run.Ended = now()
	x.run.Measures = x.judge.measures(x.run.Phases, x.run.HitDataCenters, x.stopped)
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

// faultsLasted says how long all faults were in effect, and, if that is less than planned, why less can be concluded
// from it.
func (x *Runner) faultsLasted() (text, short string) {
	if x.injected.IsZero() {
		text = "the faults were never all in effect"
		return text, text
	}
	lasted := x.faultsEnded.Sub(x.injected).Round(100 * time.Millisecond)
	if lasted >= x.Settings.Injection {
		return fmt.Sprintf("the faults were in effect for %s", lasted), ""
	}
	short = fmt.Sprintf("the faults were in effect for %s of the %s that were planned", lasted, x.Settings.Injection)
	return short, short
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
