package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/drill/record"
	"github.com/causalstore/causalstore/controllers/eventnote"
)

// A lock is renewed every lockRenewal, and expires lockLease after the last time: by then the command that held it has
// died. Whoever looks at it does so by the clock of another machine, so the lease is long.
const (
	lockLease   = 2 * time.Minute
	lockRenewal = 20 * time.Second
)

func expiry() string { return now().Add(lockLease).UTC().Format(time.RFC3339) }

// lock makes sure that one drill of a store runs at a time. The lock of a run that has died expires.
func (x *Runner) lock(ctx context.Context) error {
	r := x.run
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: record.LockName(r.Store), Namespace: r.Namespace,
		Labels:      record.Labels(r.Store, r.Drill, r.ID),
		Annotations: map[string]string{record.AnnotationExpires: expiry()}}}
	err := x.Client.Create(ctx, m)
	if !apierrors.IsAlreadyExists(err) {
		x.ownBy(m)
		return wrap("create the lock of the store", err)
	}
	held := &corev1.ConfigMap{}
	if err := x.Client.Get(ctx, client.ObjectKeyFromObject(m), held); err != nil {
		return wrap("read the lock of the store", err)
	}
	if !record.Expired(held, now()) {
		return errors.New(underWay(held, r.Store))
	}
	// Of two that find an expired lock, one gets it: the update names the version that was read.
	m.ResourceVersion = held.ResourceVersion
	err = x.Client.Update(ctx, m)
	x.ownBy(m)
	return wrap("take over an expired lock", err)
}

// ownBy makes a lock the owner of what the run creates besides experiments, so that it goes with the lock.
func (x *Runner) ownBy(lock *corev1.ConfigMap) {
	x.owner = &metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: lock.Name, UID: lock.UID}
}

// underWay says that a run holds the lock.
func underWay(lock *corev1.ConfigMap, store string) string {
	return fmt.Sprintf(
		"run %s is under way; kubectl causal drill abort --store %s ends it. If its command was killed, the next run "+
			"can begin after %s", lock.Labels[record.LabelRun],
		store, lock.Annotations[record.AnnotationExpires])
}

// renewLock renews the lock, again and again until ctx ends. If another run has it, this one is aborted.
func (x *Runner) renewLock(ctx context.Context, every time.Duration) {
	for sleep(ctx, every) {
		held := &corev1.ConfigMap{}
		if err := x.Client.Get(ctx, client.ObjectKey{Namespace: x.run.Namespace, Name: record.LockName(x.run.Store)},
			held); err != nil {
			continue // the lease is longer than several renewals
		}
		if run := held.Labels[record.LabelRun]; run != x.run.ID {
			x.lockedBy.Store(&run)
			return
		}
		held.Annotations[record.AnnotationExpires] = expiry()
		_ = x.Client.Update(ctx, held) // if that fails, the next one may not
	}
}

// underAnother aborts if another run has the lock.
func (x *Runner) underAnother() error {
	if run := x.lockedBy.Load(); run != nil {
		return errAborted{"run " + *run + " has the lock of the store"}
	}
	return nil
}

func (x *Runner) unlock(ctx context.Context) {
	held := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: x.run.Namespace, Name: record.LockName(x.run.Store)}
	if err := x.Client.Get(ctx, key, held); err != nil || held.Labels[record.LabelRun] != x.run.ID {
		return // it expires
	}
	_ = x.Client.Delete(ctx, held, client.Preconditions{ResourceVersion: &held.ResourceVersion}) // it expires
}

// save writes the run. It leaves annotations alone, by which users ask to abort.
func (x *Runner) save(ctx context.Context) error {
	m, err := x.run.ConfigMap()
	if err != nil {
		return err
	}
	if !x.saved {
		if err := x.Client.Create(ctx, m); err != nil {
			return wrap("keep the run", err)
		}
		x.saved = true
		return nil
	}
	return patchRecord(ctx, x.Client, m)
}

// patchRecord replaces the data of a run that is kept, and leaves its annotations alone.
func patchRecord(ctx context.Context, c client.Client, m *corev1.ConfigMap) error {
	body, err := json.Marshal(map[string]any{"data": m.Data})
	if err != nil {
		return err
	}
	return wrap("keep the run", c.Patch(ctx, m, client.RawPatch(types.MergePatchType, body)))
}

// reporter is who events are from.
const reporter = "causalstore.io/drill"

// Kinds of events that only drills have: a run has started. How it ended has the reasons of the condition.
const reasonDrillStarted = "DrillStarted"

// announce creates an event of the store. Events are for people who wonder why pods stop: that one is missing is no
// reason to end a run.
func (x *Runner) announce(ctx context.Context, kind, reason, text string) {
	s := x.pre.Landscape.Store
	e := &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace,
		Name: strings.ToLower(fmt.Sprintf("%s-drill-%s.%s", s.Name, x.run.ID, reason))},
		EventTime: metav1.NowMicro(), ReportingController: reporter, ReportingInstance: x.run.ID, Action: "Drill",
		Type: kind, Reason: reason,
		Note: eventnote.Cut(text),
		Regarding: corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "CausalStore",
			Namespace: s.Namespace, Name: s.Name, UID: s.UID,
			ResourceVersion: s.ResourceVersion}}
	if err := x.Client.Create(ctx, e); err != nil {
		x.noteOnce("no events tell of this run: %v; you need the right to create events.events.k8s.io", err)
	}
}

// publish sets the condition of the store, and creates an event. Others write its status as well, so that the patch
// names the version that was read, and is repeated.
func (x *Runner) publish(ctx context.Context) {
	condition := metav1.Condition{Type: v1alpha1.ConditionDrillPassed, Status: metav1.ConditionUnknown,
		Reason:  v1alpha1.ReasonDrillAborted,
		Message: fmt.Sprintf("drill %s, run %s: %s", x.run.Drill, x.run.ID, x.run.Reason)}
	switch x.run.Outcome {
	case record.Passed:
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonPromisesHeld
	case record.Failed:
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonPromiseBroken
	}
	condition.Message = eventnote.Cut(condition.Message)
	kind := corev1.EventTypeNormal
	if condition.Status == metav1.ConditionFalse {
		kind = corev1.EventTypeWarning
	}
	x.announce(ctx, kind, condition.Reason, condition.Message)
	key := client.ObjectKeyFromObject(x.pre.Landscape.Store)
	set := func() (already bool, err error) {
		s := &v1alpha1.CausalStore{}
		if err := x.Client.Get(ctx, key, s); err != nil {
			return false, err
		}
		before := s.DeepCopy()
		condition.ObservedGeneration = s.Generation
		if !meta.SetStatusCondition(&s.Status.Conditions, condition) {
			return true, nil
		}
		return false, x.Client.Status().Patch(ctx, s,
			client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	}
	// An operator that is just writing the conditions which it has read before drops this one, so it is looked at
	// again.
	var err error
	const attempts = 5
	for range attempts {
		var already bool
		already, err = set()
		if already || err != nil && !apierrors.IsConflict(err) || !sleep(ctx, x.Settings.Poll) {
			break
		}
	}
	if err != nil {
		x.note("the condition %s of the store is not set: %v; you need the right to patch causalstores/status",
			v1alpha1.ConditionDrillPassed, err)
	}
}

// askedToAbort aborts if somebody has asked for it.
func (x *Runner) askedToAbort(ctx context.Context) error {
	m := &corev1.ConfigMap{}
	err := x.Client.Get(ctx, client.ObjectKey{Namespace: x.run.Namespace, Name: record.Name(x.run.Store, x.run.ID)}, m)
	switch {
	case apierrors.IsNotFound(err):
		return errAborted{"the ConfigMap of the run was deleted"}
	case err != nil:
		x.noteOnce("the run cannot be read: %v", err)
	case m.Annotations[record.AnnotationAbort] != "":
		return errAborted{"asked for: " + m.Annotations[record.AnnotationAbort]}
	}
	return nil
}

// prune removes the oldest runs of the store.
func (x *Runner) prune(ctx context.Context) error {
	var maps corev1.ConfigMapList
	if err := x.Client.List(ctx, &maps, record.OfStore(x.run.Namespace, x.run.Store)...); err != nil {
		return wrap("list earlier runs", err)
	}
	var errs []error
	for i, r := range record.All(maps.Items) {
		if i >= record.MostRuns {
			m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace,
				Name: record.Name(r.Store, r.ID)}}
			errs = append(errs, wrap("remove run "+r.ID, client.IgnoreNotFound(x.Client.Delete(ctx, m))))
		}
	}
	return errors.Join(errs...)
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
