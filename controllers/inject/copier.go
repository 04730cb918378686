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
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/serverside"
	"github.com/causalstore/causalstore/controllers/trust"
)

// LabelCopyOf on a copied object names the store that it was copied from, in the format that ParseStoreRef reads.
const LabelCopyOf = "causalstore.io/copy-of"

// Copier copies what sidecars need into the namespaces whose pods use a store of another namespace, if that store
// admits them: the configuration of the data centers in this cluster. Beside it it writes the certificate of the
// sidecars in that namespace, one for each data center, and renews it every day. A pod can mount only objects of its
// own namespace.
//
// Copier deletes the copies once the namespace no longer asks for them, or the store no longer admits it, and no pod
// with such a sidecar is left. It finds copies by a label on the ConfigMaps; it deletes the Secrets first, because the
// operator may not list Secrets.
type Copier struct {
	Client client.Client
	// Uncached reads Secrets and the pods of apps.
	Uncached client.Reader
	Scheme   *runtime.Scheme
	// Region of the operator.
	Region string
	// Trust issues certificates, at the time of Now. Expiries has their expiry, if it is not nil.
	Trust    *trust.Keeper
	Expiries *trust.Expiries
	Now      func() time.Time
	// Namespaces are those that the operator may use; if empty, all.
	Namespaces []string
}

// podCheckInterval is how often Copier checks whether pods still need copies that their namespace no longer asks for.
const podCheckInterval = time.Minute

// renewInterval is how often Copier checks whether certificates are due. They are renewed when they are a day old.
const renewInterval = time.Hour

// pendingInterval is how often it does while an issuer has been asked for them.
const pendingInterval = 2 * time.Second

// Reconcile creates, updates and deletes the copies in one namespace.
func (c *Copier) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if !serves(c.Namespaces, request.Name) {
		return ctrl.Result{}, nil
	}
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := c.Client.Get(ctx, client.ObjectKey{Name: request.Name}, ns); err != nil || ns.DeletionTimestamp != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	use, err := c.copyAll(ctx, ns)
	pending := trust.IsPending(err)
	if err != nil && !pending {
		return ctrl.Result{}, err
	}
	again, err := c.copyUsers(ctx, ns.Name, use)
	if err != nil {
		return ctrl.Result{}, err
	}
	remaining, err := c.prune(ctx, ns.Name, use)
	switch {
	case remaining && again == 0:
		again = podCheckInterval
	case use != StoreRef{} && again == 0:
		again = renewInterval
	}
	if pending && (again == 0 || again > pendingInterval) {
		again = pendingInterval
	}
	return ctrl.Result{RequeueAfter: again}, err
}

// copyAll writes the copies that a namespace asks for and is admitted to, and returns their store, or the zero
// StoreRef. While certificates cannot be renewed, the rest is copied anyway: others may have to be trusted first.
// The error is then that of the certificates.
func (c *Copier) copyAll(ctx context.Context, ns *metav1.PartialObjectMetadata) (StoreRef, error) {
	use, ok := ParseStoreRef(ns.Name, ns.Labels)
	if !ok || use.Namespace == ns.Name || !serves(c.Namespaces, use.Namespace) {
		return StoreRef{}, nil
	}
	store := &v1alpha1.CausalStore{}
	if err := c.Client.Get(ctx, client.ObjectKey(use), store); err != nil {
		return StoreRef{}, client.IgnoreNotFound(err)
	}
	if !admits(store, ns.Labels) || store.DeletionTimestamp != nil {
		return StoreRef{}, nil
	}
	here := dataCentersOf(store, map[string]bool{c.Region: true})
	if len(here) == 0 {
		return use, nil // another operator copies what there is
	}
	var all []client.Object      // ConfigMaps come after all certificates: pods get a sidecar as soon as they exist
	files := map[string]string{} // of trust, by data center
	var notRenewed error
	for _, dc := range here {
		name := plan.DataCenterName(use.Name, dc.Name)
		config := &corev1.ConfigMap{} // a new store lacks it at first; its creation triggers another Reconcile
		if err := c.Client.Get(ctx, client.ObjectKey{Namespace: use.Namespace, Name: name}, config); err != nil {
			return use, client.IgnoreNotFound(err)
		}
		if files[dc.Name] = config.Data[plan.TrustFile]; files[dc.Name] != "" {
			missing, err := c.issue(ctx, use, ns.Name, dc.Name, files[dc.Name])
			if missing {
				return use, err
			}
			if err != nil && (notRenewed == nil || trust.IsPending(notRenewed)) {
				notRenewed = err
			}
		}
		all = append(all, &corev1.ConfigMap{ObjectMeta: copyMetadata(use, ns.Name, name), Data: config.Data})
	}
	for _, o := range all {
		if err := c.apply(ctx, use, o); err != nil {
			return use, err
		}
	}
	for dc, file := range files {
		if err := NotifyOfTrust(ctx, c.Client, c.Uncached, ns.Name,
			Sidecar{Namespace: use.Namespace, Store: use.Name, DataCenter: dc}, file); err != nil {
			return use, err
		}
	}
	return use, notRenewed
}

// issue writes the certificate of the sidecars in a namespace. If it fails, missing says that there is none from
// before.
func (c *Copier) issue(ctx context.Context, use StoreRef, namespace, dc, trustFile string) (missing bool, err error) {
	known, err := contract.ParseTrust([]byte(trustFile))
	if err != nil {
		return true, fmt.Errorf("read %s of %s: %w", plan.TrustFile, plan.DataCenterName(use.Name, dc), err)
	}
	s, err := c.Trust.Current(ctx)
	if err != nil {
		return true, err
	}
	secret := &corev1.Secret{ObjectMeta: copyMetadata(use, namespace, plan.SidecarCertificatesName(use.Name, dc)),
		Type: corev1.SecretTypeOpaque}
	live := &corev1.Secret{}
	if err := c.Uncached.Get(ctx, client.ObjectKeyFromObject(secret), live); client.IgnoreNotFound(err) != nil {
		return true, fmt.Errorf("read Secret %s in namespace %s: %w", secret.Name, namespace, err)
	}
	wanted := map[string]contract.Identity{plan.SidecarCertificate: plan.SidecarIdentity(known.DataCenters[dc],
		known.StoreID, dc, namespace)}
	owner := trust.Owner{Namespace: namespace, Secret: secret.Name, StoreNamespace: use.Namespace, Store: use.Name,
		DataCenter: dc}
	before := live.Data
	if !isCopy(live, use) {
		before = nil // apply reports it, if it is somebody else's
	}
	files, changed, failed := s.Renew(ctx, before, wanted, c.Now())
	if changed {
		secret.Data = files
		if err := c.apply(ctx, use, secret); err != nil {
			c.Expiries.Set(owner, trust.Expires(before, wanted))
			return true, err
		}
	}
	expires := trust.Expires(files, wanted)
	c.Expiries.Set(owner, expires)
	if failed != nil {
		return expires.IsZero(), fmt.Errorf("renew the certificate in Secret %s of namespace %s: %w", secret.Name,
			namespace, failed)
	}
	return false, nil
}

func copyMetadata(use StoreRef, namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: use.copyName(namespace, name),
		Labels: map[string]string{plan.LabelManagedBy: plan.ManagedBy, LabelCopyOf: use.labelValue()}}
}

// apply writes a copy. It takes no object that is not a copy of that store: by its label whoever may write such an
// object can hand it over.
func (c *Copier) apply(ctx context.Context, use StoreRef, o client.Object) error {
	u, err := plan.Manifest(o, c.Scheme)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("copy %s %s in namespace %s", u.GetKind(), o.GetName(), o.GetNamespace())
	live := o.DeepCopyObject().(client.Object)
	switch err := c.Uncached.Get(ctx, client.ObjectKeyFromObject(o), live); {
	case apierrors.IsNotFound(err):
		live = nil
	case err != nil:
		return fmt.Errorf("read %s: %w", what, err)
	case !isCopy(live, use):
		return fmt.Errorf(
			"write %s: an object of that name exists and is no copy of store %s (label %s); delete or rename it", what,
			use, LabelCopyOf)
	}
	if live != nil {
		u.SetResourceVersion(live.GetResourceVersion()) // the label may be removed at this moment
	}
	if err := serverside.Write(ctx, c.Client, u, live, plan.ManagedBy); err != nil {
		return fmt.Errorf("write %s: %w", what, err)
	}
	return nil
}

// isCopy reports whether an object is a copy of one of a store.
func isCopy(o client.Object, of StoreRef) bool {
	return o.GetLabels()[plan.LabelManagedBy] == plan.ManagedBy && o.GetLabels()[LabelCopyOf] == of.labelValue()
}

// deleteCopy deletes an object if it is a copy of one of a store.
func (c *Copier) deleteCopy(ctx context.Context, o client.Object, of StoreRef) error {
	if err := c.Uncached.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil || !isCopy(o, of) {
		return client.IgnoreNotFound(err)
	}
	uid, version := o.GetUID(), o.GetResourceVersion()
	return client.IgnoreNotFound(c.Client.Delete(ctx, o, client.Preconditions{UID: &uid, ResourceVersion: &version}))
}

// prune deletes the copies in a namespace that are of another store than use, and reports whether some remain because
// pods need them.
func (c *Copier) prune(ctx context.Context, namespace string, use StoreRef) (remaining bool, err error) {
	var copies corev1.ConfigMapList
	if err := c.Client.List(ctx, &copies, client.InNamespace(namespace), client.HasLabels{LabelCopyOf}); err != nil {
		return false, fmt.Errorf("list the copies in namespace %s: %w", namespace, err)
	}
	var errs []error
	for i := range copies.Items {
		m := &copies.Items[i]
		of, ok := ParseStoreRef(namespace, map[string]string{LabelInject: m.Labels[LabelCopyOf]})
		if !ok || of == use {
			continue
		}
		needed, err := c.isNeeded(ctx, namespace, of)
		if err != nil || needed {
			remaining, errs = remaining || needed, append(errs, err)
			continue
		}
		users := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: of.usersSecret(namespace)}}
		certificates := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
			Name: of.certificatesOf(m.Name)}}
		c.Expiries.ForgetSecret(namespace, certificates.Name)
		for _, o := range []client.Object{users, certificates, m} {
			if err := c.deleteCopy(ctx, o, of); err != nil {
				errs = append(errs, fmt.Errorf("delete copy %s in namespace %s: %w", o.GetName(), namespace, err))
				break
			}
		}
	}
	return remaining, errors.Join(errs...)
}

// isNeeded reports whether a pod of a namespace has a sidecar of a store.
func (c *Copier) isNeeded(ctx context.Context, namespace string, of StoreRef) (bool, error) {
	var pods corev1.PodList
	if err := c.Uncached.List(ctx, &pods, client.InNamespace(namespace),
		client.MatchingLabels{LabelStore: of.Name}); err != nil {
		return false, fmt.Errorf("list the pods of namespace %s: %w", namespace, err)
	}
	for i := range pods.Items {
		if s, ok := SidecarOf(&pods.Items[i]); ok && s.Namespace == of.Namespace {
			return true, nil
		}
	}
	return false, nil
}
