package causalstore

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/causalstore/status"
)

// apply makes the objects of a plan so, by server-side apply: what others have set beside our fields stays. The record goes
// first, and without it nothing else: an epoch that a part has seen must not be forgotten.
func (r *Reconciler) apply(ctx context.Context, seen *status.Observed, p plan.Plan) error {
	recreated := map[string]bool{}
	for _, name := range p.Recreate {
		recreated[name] = true // once it has gone
	}
	var errs []error
	for i, o := range p.Apply {
		if _, ok := o.(*appsv1.StatefulSet); ok && recreated[o.GetName()] {
			continue
		}
		err := r.applyOne(ctx, seen, o)
		if err != nil && i == 0 {
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (r *Reconciler) applyOne(ctx context.Context, seen *status.Observed, o client.Object) error {
	u, err := plan.Manifest(o, r.Scheme)
	if err != nil {
		return err
	}
	live, err := r.live(ctx, o)
	if err != nil {
		return err
	}
	if live != nil {
		if other := metav1.GetControllerOf(live); other != nil && other.UID != seen.Store.UID {
			return fmt.Errorf("apply %s %s: it belongs to %s %s; rename one of them", u.GetKind(), o.GetName(), other.Kind,
				other.Name)
		}
		if r.applied.same(seen.Store, u, live.GetResourceVersion()) {
			return nil
		}
		if err := r.makeWay(ctx, live, o); err != nil {
			return fmt.Errorf("apply %s %s: %w", u.GetKind(), o.GetName(), err)
		}
	}
	key := u.DeepCopy()
	if err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(plan.ManagedBy),
		client.ForceOwnership); err != nil {
		return fmt.Errorf("apply %s %s: %w", key.GetKind(), o.GetName(), err)
	}
	r.applied.note(seen.Store, key, u.GetResourceVersion())
	return nil
}

// makeWay takes away what keeps the planned ports out of a Service. A port is told from others by its number: one whose number
// somebody has changed is another one, which has the name of the planned one, and no two may have the same.
func (r *Reconciler) makeWay(ctx context.Context, live, planned client.Object) error {
	is, ok := live.(*corev1.Service)
	if !ok {
		return nil
	}
	ports := slices.Clone(planned.(*corev1.Service).Spec.Ports)
	inTheWay := false
	for _, p := range is.Spec.Ports {
		same := func(q corev1.ServicePort) bool { return q.Port == p.Port && q.Protocol == p.Protocol }
		named := func(q corev1.ServicePort) bool { return q.Name == p.Name }
		switch {
		case slices.ContainsFunc(ports, same):
		case slices.ContainsFunc(ports, named):
			inTheWay = true
		default:
			ports = append(ports, p)
		}
	}
	if !inTheWay {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": is.ResourceVersion}, "spec": map[string]any{"ports": ports}})
	if err != nil {
		return err
	}
	return r.Client.Patch(ctx, is.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
}

// live returns the object as it is now, or nil. Secrets are not watched.
func (r *Reconciler) live(ctx context.Context, o client.Object) (client.Object, error) {
	reader := client.Reader(r.Client)
	if _, ok := o.(*corev1.Secret); ok {
		reader = r.Uncached
	}
	live := o.DeepCopyObject().(client.Object)
	if err := reader.Get(ctx, client.ObjectKeyFromObject(o), live); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return live, nil
}

// prune deletes what belongs to the store and is not in the plan any more. Claims and their data are never among it.
func (r *Reconciler) prune(ctx context.Context, seen *status.Observed, p plan.Plan) error {
	wanted := map[string]bool{}
	for _, o := range p.Apply {
		wanted[fmt.Sprintf("%T %s", o, o.GetName())] = true
	}
	var errs []error
	for _, l := range owned() {
		if err := r.Client.List(ctx, l, ofStore(seen.Store)...); err != nil {
			errs = append(errs, fmt.Errorf("list %T: %w", l, err))
			continue
		}
		for _, o := range items(l) {
			if wanted[fmt.Sprintf("%T %s", o, o.GetName())] || !metav1.IsControlledBy(o,
				seen.Store) || o.GetDeletionTimestamp() != nil {
				continue
			}
			if err := gone(r.Client.Delete(ctx, o, client.Preconditions{UID: ptr(o.GetUID())})); err != nil {
				errs = append(errs, fmt.Errorf("prune %T %s: %w", o, o.GetName(), err))
			}
		}
	}
	return errors.Join(errs...)
}

// owned are lists of every kind that a plan has and that is pruned.
func owned() []client.ObjectList {
	return []client.ObjectList{&appsv1.StatefulSetList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{},
		&corev1.ServiceAccountList{},
		&networkingv1.NetworkPolicyList{}, &policyv1.PodDisruptionBudgetList{}}
}

func items(l client.ObjectList) []client.Object {
	var all []client.Object
	switch l := l.(type) {
	case *appsv1.StatefulSetList:
		all = pointers[appsv1.StatefulSet](l.Items)
	case *corev1.ServiceList:
		all = pointers[corev1.Service](l.Items)
	case *corev1.ConfigMapList:
		all = pointers[corev1.ConfigMap](l.Items)
	case *corev1.ServiceAccountList:
		all = pointers[corev1.ServiceAccount](l.Items)
	case *networkingv1.NetworkPolicyList:
		all = pointers[networkingv1.NetworkPolicy](l.Items)
	case *policyv1.PodDisruptionBudgetList:
		all = pointers[policyv1.PodDisruptionBudget](l.Items)
	}
	return all
}

func pointers[T any, P interface {
	*T
	client.Object
}](values []T) []client.Object {
	var all []client.Object
	for i := range values {
		all = append(all, P(&values[i]))
	}
	return all
}

func ptr[T any](v T) *T { return &v }

// applied remembers what was applied, and to which version of the object that led: the same again would change nothing, and
// need not be sent. A change by anybody else makes another version.
type applied struct {
	mu     sync.Mutex
	stores map[types.NamespacedName]map[string]sent
}

type sent struct {
	digest  [sha256.Size]byte
	version string
}

func (a *applied) same(store client.Object, u *unstructured.Unstructured, version string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	was, ok := a.stores[client.ObjectKeyFromObject(store)][u.GetKind()+" "+u.GetName()]
	return ok && was.version == version && was.digest == digest(u)
}

func (a *applied) note(store client.Object, u *unstructured.Unstructured, version string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stores == nil {
		a.stores = map[types.NamespacedName]map[string]sent{}
	}
	key := client.ObjectKeyFromObject(store)
	if a.stores[key] == nil {
		a.stores[key] = map[string]sent{}
	}
	a.stores[key][u.GetKind()+" "+u.GetName()] = sent{digest(u), version}
}

func (a *applied) forget(store types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.stores, store)
}

func digest(u *unstructured.Unstructured) [sha256.Size]byte {
	b, err := json.Marshal(u.Object)
	if err != nil {
		panic(err) // it was made from JSON values
	}
	return sha256.Sum256(b)
}
