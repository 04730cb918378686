package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/drill/record"
)

// Remainder is an object that a run has left behind, because the command that ran it died, or because Chaos Mesh keeps
// it.
type Remainder struct {
	Object client.Object
	// Kind and Run are what and whose it is.
	Kind, Run string
	// Rules is how many rules of experiments that are gone Object has been freed of. If it is not 0 the object is
	// updated, and otherwise it is deleted.
	Rules int
}

func (r Remainder) String() string {
	what := fmt.Sprintf("%s %s/%s", r.Kind, r.Object.GetNamespace(), r.Object.GetName())
	switch {
	case r.Rules > 0:
		return fmt.Sprintf("%s: %d rules of experiments that are gone", what, r.Rules)
	case r.Run == "":
		return what + ", which does nothing"
	}
	return what + " of run " + r.Run
}

// FindRemainders finds canaries and experiments of runs of a store that are not under way, and their lock. It returns
// the lock of the run that is under way, if there is one: whether its command still runs is not known before the lock
// expires.
func FindRemainders(ctx context.Context, c client.Reader, namespace, store string) (all []Remainder,
	held *corev1.ConfigMap, err error) {
	lock := &corev1.ConfigMap{}
	err = c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: record.LockName(store)}, lock)
	if client.IgnoreNotFound(err) != nil {
		return nil, nil, fmt.Errorf("read the lock of the store: %w", err)
	}
	underWay := ""
	if err == nil && !record.Expired(lock, now()) {
		held, underWay = lock, lock.Labels[record.LabelRun]
	} else if err == nil {
		all = append(all, Remainder{Object: lock, Kind: "ConfigMap", Run: lock.Labels[record.LabelRun]})
	}
	add := func(kind string, o client.Object) {
		// A probe has no lock, and takes a minute or two: its canary ends by itself.
		if run := o.GetLabels()[record.LabelRun]; run != underWay && o.GetLabels()[record.LabelDrill] != drillProbe &&
			o.GetDeletionTimestamp().IsZero() {
			all = append(all, Remainder{Object: o, Kind: kind, Run: run})
		}
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{record.LabelStore: store},
		client.HasLabels{LabelCanary}); err != nil {
		return nil, nil, fmt.Errorf("list the canaries of %s: %w", store, err)
	}
	for i := range pods.Items {
		add("Pod", &pods.Items[i])
	}
	live := map[string]bool{} // experiments, as rules name them
	for _, kind := range []string{KindPod, KindNetwork, KindTime, KindIO} {
		items, err := listChaos(ctx, c, kind, client.InNamespace(namespace),
			client.MatchingLabels{record.LabelStore: store})
		if err != nil {
			return nil, nil, err
		}
		for i := range items {
			live[items[i].GetNamespace()+"/"+items[i].GetName()] = true
			add(kind, &items[i])
		}
	}
	rules, err := findRules(ctx, c, namespace, store, live)
	return append(all, rules...), held, err
}

// listChaos lists the objects of a kind of Chaos Mesh. There are none if the cluster does not have the kind.
func listChaos(ctx context.Context, c client.Reader, kind string,
	options ...client.ListOption) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(chaosAPI.WithKind(kind + "List"))
	err := c.List(ctx, list, options...)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", kind, err)
	}
	return list.Items, nil
}

// findRules finds what Chaos Mesh keeps for each pod of a store that an experiment has hit: the rules of experiments
// that are not live, and objects without any rule, which it does not delete.
func findRules(ctx context.Context, c client.Reader, namespace, store string, live map[string]bool) (all []Remainder,
	err error) {
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels(plan.Labels(store))); err != nil {
		return nil, fmt.Errorf("list the pods of %s: %w", store, err)
	}
	ours := map[string]bool{}
	for i := range pods.Items {
		ours[pods.Items[i].Name] = true
	}
	for _, kind := range []string{KindPodNetwork, KindPodIO} {
		items, err := listChaos(ctx, c, kind, client.InNamespace(namespace))
		if err != nil {
			return nil, err
		}
		for i := range items {
			o := &items[i]
			removed, kept := removeRules(o, func(source string) bool {
				return strings.HasPrefix(source, namespace+"/"+experimentPrefix(store)) && !live[source]
			})
			if removed > 0 || kept == 0 && ours[o.GetName()] {
				all = append(all, Remainder{Object: o, Kind: kind, Rules: removed})
			}
		}
	}
	return all, nil
}

// removeRules removes the rules of the experiments for which gone holds from an object that has what Chaos Mesh does to
// a pod. It returns how many it has removed, and how many are left.
func removeRules(o *unstructured.Unstructured, gone func(source string) bool) (removed, kept int) {
	for _, field := range remainFields[o.GetKind()] {
		entries, found, _ := unstructured.NestedSlice(o.Object, "spec", field)
		if !found {
			continue
		}
		left := slices.DeleteFunc(entries, func(e any) bool {
			fields, _ := e.(map[string]any)
			is := gone(fmt.Sprint(fields["source"]))
			if is {
				removed++
			}
			return is
		})
		kept += len(left)
		_ = unstructured.SetNestedSlice(o.Object, left, "spec", field) // it came from there
	}
	return removed, kept
}

// RemoveRemainders removes what was found.
func RemoveRemainders(ctx context.Context, c client.Client, all []Remainder) error {
	var errs []error
	for _, r := range all {
		if r.Rules > 0 {
			errs = append(errs, wrap("update "+r.String(), client.IgnoreNotFound(c.Update(ctx, r.Object))))
			continue
		}
		uid, version := r.Object.GetUID(), r.Object.GetResourceVersion()
		only := client.Preconditions{UID: &uid}
		if r.Kind == "ConfigMap" || r.Run == "" {
			only.ResourceVersion = &version // another run may have taken the lock over, or an experiment may have begun
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
