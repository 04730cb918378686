package drill

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/controllers/drill/record"
)

// Remainder is an object that a run has left behind, because the command that ran it died.
type Remainder struct {
	Object client.Object
	// Kind and Run are what and whose it is.
	Kind, Run string
}

func (r Remainder) String() string {
	return fmt.Sprintf("%s %s/%s of run %s", r.Kind, r.Object.GetNamespace(), r.Object.GetName(), r.Run)
}

// FindRemainders finds canaries and experiments of runs of a store that are not under way, and their lock. It returns the lock of the run that is under way, if
// there is one: whether its command still runs is not known before the lock expires.
func FindRemainders(ctx context.Context, c client.Reader, namespace, store string) (all []Remainder, held *corev1.ConfigMap, err error) {
	lock := &corev1.ConfigMap{}
	err = c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: record.LockName(store)}, lock)
	if client.IgnoreNotFound(err) != nil {
		return nil, nil, fmt.Errorf("read the lock of the store: %w", err)
	}
	underWay := ""
	if err == nil && !record.Expired(lock, now()) {
		held, underWay = lock, lock.Labels[record.LabelRun]
	} else if err == nil {
		all = append(all, Remainder{lock, "ConfigMap", lock.Labels[record.LabelRun]})
	}
	add := func(kind string, o client.Object) {
		// A probe has no lock, and takes a minute or two: its canary ends by itself.
		if run := o.GetLabels()[record.LabelRun]; run != underWay && o.GetLabels()[record.LabelDrill] != drillProbe && o.GetDeletionTimestamp().IsZero() {
			all = append(all, Remainder{o, kind, run})
		}
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{record.LabelStore: store}, client.HasLabels{LabelCanary}); err != nil {
		return nil, nil, fmt.Errorf("list the canaries of %s: %w", store, err)
	}
	for i := range pods.Items {
		add("Pod", &pods.Items[i])
	}
	for _, kind := range []string{KindPod, KindNetwork, KindTime, KindIO} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(chaosAPI.WithKind(kind + "List"))
		err := c.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{record.LabelStore: store})
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("list %s of %s: %w", kind, store, err)
		}
		for i := range list.Items {
			add(kind, &list.Items[i])
		}
	}
	return all, held, nil
}

// RemoveRemainders deletes what was found.
func RemoveRemainders(ctx context.Context, c client.Client, all []Remainder) error {
	var errs []error
	for _, r := range all {
		uid, version := r.Object.GetUID(), r.Object.GetResourceVersion()
		only := client.Preconditions{UID: &uid}
		if r.Kind == "ConfigMap" {
			only.ResourceVersion = &version // another run may have taken the lock over
		}
		errs = append(errs, wrap("delete "+r.String(), client.IgnoreNotFound(c.Delete(ctx, r.Object, only))))
	}
	return errors.Join(errs...)
}

// removeEarlierCanaries removes those of runs whose command died. The lock is ours, so no other run is under way.
func (x *Runner) removeEarlierCanaries(ctx context.Context) {
	all, _, err := FindRemainders(ctx, x.Client, x.run.Namespace, x.run.Store)
	if err != nil {
		x.note("canaries of earlier runs cannot be looked for: %v", err)
		return
	}
	for _, r := range all {
		if r.Kind != "Pod" {
			continue
		}
		x.note("removing %s, which has ended", r)
		if err := RemoveRemainders(ctx, x.Client, []Remainder{r}); err != nil {
			x.note("%v", err)
		}
	}
}
