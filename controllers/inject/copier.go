package inject

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// LabelCopyOf on what was copied into a namespace names the store that it is of, as UseOf does.
const LabelCopyOf = "causalstore.io/copy-of"

// Copier copies what sidecars need into the namespaces whose pods use a store of another namespace, if that store lets them connect:
// the configuration of the data centres here, and the key of session tokens. A pod can only use what is in its own namespace.
//
// Copies go when the namespace does not ask for them any more, or the store does not let it, and no pod with a sidecar is left that
// might need them. Copies are told by a label on ConfigMaps; the Secret, which the operator must not list, goes before them.
type Copier struct {
	Client client.Client
	// Uncached reads Secrets, and pods of apps.
	Uncached client.Reader
	Scheme   *runtime.Scheme
	// Region whose data centres are run here.
	Region string
}

// lookForPods is how often it is looked whether pods have gone that need copies which nobody asks for any more.
const lookForPods = time.Minute

// Reconcile makes the copies of one namespace what they should be.
func (c *Copier) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := c.Client.Get(ctx, client.ObjectKey{Name: request.Name}, ns); err != nil || ns.DeletionTimestamp != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	use, err := c.copyAll(ctx, ns)
	if err != nil {
		return ctrl.Result{}, err
	}
	left, err := c.prune(ctx, ns.Name, use)
	if left {
		return ctrl.Result{RequeueAfter: lookForPods}, err
	}
	return ctrl.Result{}, err
}

// copyAll makes the copies that a namespace asks for and may have, and returns what store they are of.
func (c *Copier) copyAll(ctx context.Context, ns *metav1.PartialObjectMetadata) (Use, error) {
	use, ok := UseOf(ns.Name, ns.Labels)
	if !ok || use.Namespace == ns.Name {
		return Use{}, nil
	}
	store := &v1alpha1.CausalStore{}
	if err := c.Client.Get(ctx, client.ObjectKey(use), store); err != nil {
		return Use{}, client.IgnoreNotFound(err)
	}
	if !admits(store, ns.Labels) || store.DeletionTimestamp != nil {
		return Use{}, nil
	}
	// A store that was made a moment ago has not all yet. When it has, this is called again.
	keys := &corev1.Secret{}
	if err := c.Uncached.Get(ctx, client.ObjectKey{Namespace: use.Namespace, Name: plan.KeysName(use.Name)}, keys); err != nil {
		return use, client.IgnoreNotFound(err)
	}
	// ConfigMaps come last: pods get a sidecar as soon as they are there.
	all := []client.Object{&corev1.Secret{ObjectMeta: copyMeta(use, ns.Name, plan.KeysName(use.Name)), Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{plan.KeyToken: keys.Data[plan.KeyToken]}}}
	for _, dc := range here(store, c.Region) {
		name := plan.DataCenterName(use.Name, dc.Name)
		config := &corev1.ConfigMap{}
		if err := c.Client.Get(ctx, client.ObjectKey{Namespace: use.Namespace, Name: name}, config); err != nil {
			return use, client.IgnoreNotFound(err)
		}
		all = append(all, &corev1.ConfigMap{ObjectMeta: copyMeta(use, ns.Name, name), Data: config.Data})
	}
	for _, o := range all {
		if err := c.apply(ctx, o); err != nil {
			return use, err
		}
	}
	return use, nil
}

func copyMeta(use Use, namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: use.copied(namespace, name),
		Labels: map[string]string{plan.LabelManagedBy: plan.ManagedBy, LabelCopyOf: use.label()}}
}

func (c *Copier) apply(ctx context.Context, o client.Object) error {
	u, err := plan.Manifest(o, c.Scheme)
	if err != nil {
		return err
	}
	if err := c.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(plan.ManagedBy),
		client.ForceOwnership); err != nil {
		return fmt.Errorf("copy to %s %s of namespace %s: %w", u.GetKind(), o.GetName(), o.GetNamespace(), err)
	}
	return nil
}

// prune deletes the copies in a namespace that are of another store than use, and says whether some are left because of pods.
func (c *Copier) prune(ctx context.Context, namespace string, use Use) (left bool, err error) {
	var copies corev1.ConfigMapList
	if err := c.Client.List(ctx, &copies, client.InNamespace(namespace), client.HasLabels{LabelCopyOf}); err != nil {
		return false, fmt.Errorf("list the copies in namespace %s: %w", namespace, err)
	}
	var errs []error
	for i := range copies.Items {
		m := &copies.Items[i]
		of, ok := UseOf(namespace, map[string]string{LabelInject: m.Labels[LabelCopyOf]})
		if !ok || of == use {
			continue
		}
		needed, err := c.needed(ctx, namespace, of)
		if err != nil || needed {
			left, errs = left || needed, append(errs, err)
			continue
		}
		keys := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: of.keys(namespace)}}
		for _, o := range []client.Object{keys, m} {
			if err := c.Client.Delete(ctx, o); err != nil && !apierrors.IsNotFound(err) {
				errs = append(errs, fmt.Errorf("delete copy %s of namespace %s: %w", o.GetName(), namespace, err))
				break
			}
		}
	}
	return left, errors.Join(errs...)
}

// needed says whether a pod of a namespace has a sidecar of a store.
func (c *Copier) needed(ctx context.Context, namespace string, of Use) (bool, error) {
	var pods corev1.PodList
	if err := c.Uncached.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{LabelStore: of.Name}); err != nil {
		return false, fmt.Errorf("list the pods of namespace %s: %w", namespace, err)
	}
	for i := range pods.Items {
		if s, ok := SidecarOf(&pods.Items[i]); ok && s.Namespace == of.Namespace {
			return true, nil
		}
	}
	return false, nil
}
