package causalstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/causalstore/status"
	"github.com/causalstore/causalstore/controllers/inject"
	"github.com/causalstore/causalstore/controllers/serverside"
	"github.com/causalstore/causalstore/controllers/trust"
)

// readTrust reads what is known of the authorities of the store's regions.
func (r *Reconciler) readTrust(ctx context.Context, in *status.Observed) error {
	s, err := r.Trust.Current(ctx)
	if err != nil {
		return err
	}
	in.Trust = plan.Trust{Domains: map[string]string{}, Bundles: map[string]string{}}
	in.Authority = s
	for _, dc := range in.Store.Spec.DataCenters {
		if domain, bundle, err := s.Of(dc.Region); err == nil {
			in.Trust.Domains[dc.Region], in.Trust.Bundles[domain] = domain, bundle
		}
	}
	return nil
}

// findSecrets returns the existing Secrets with certificates, nil for each that does not exist, and notes those that
// are not the store's in seen.Conflicts.
func (r *Reconciler) findSecrets(ctx context.Context, seen *status.Observed,
	all []plan.CertificateSecret) ([]*corev1.Secret, error) {
	found := make([]*corev1.Secret, len(all))
	for i, c := range all {
		live, err := r.live(ctx, c.Secret)
		if err != nil {
			return nil, err
		}
		if live == nil {
			continue
		}
		if why := plan.Foreign(seen.Store, c.Secret, live, "Secret"); why != "" {
			seen.Conflicts = append(seen.Conflicts, why)
			continue
		}
		found[i] = live.(*corev1.Secret)
	}
	return found, nil
}

// issueCertificates renews what is due. Certificates that cannot be renewed go on, and condition CertificatesCurrent
// says why.
func (r *Reconciler) issueCertificates(ctx context.Context, seen *status.Observed, all []plan.CertificateSecret,
	live []*corev1.Secret) error {
	var errs []error
	for i, c := range all {
		expires, failed, err := r.issueSecret(ctx, c, live[i])
		errs = append(errs, err)
		seen.Certificates.Add(expires, errors.Join(failed, err))
		r.Expiries.Set(trust.Owner{Namespace: c.Secret.Namespace, StoreNamespace: seen.Store.Namespace,
			Store:      seen.Store.Name,
			DataCenter: c.Secret.Labels[plan.LabelDataCenter], Secret: c.Secret.Name}, expires)
	}
	return errors.Join(errs...)
}

// issueSecret renews the certificates of one Secret. It returns when the first of them expires, and why some were not
// renewed.
func (r *Reconciler) issueSecret(ctx context.Context, c plan.CertificateSecret, live *corev1.Secret) (expires time.Time,
	failed, err error) {
	s, err := r.Trust.Current(ctx)
	if err != nil {
		return time.Time{}, nil, err
	}
	var data map[string][]byte
	if live != nil {
		data = live.Data
	}
	files, changed, failed := s.Renew(ctx, data, c.Identities, r.Now())
	if failed != nil && !trust.IsPending(failed) {
		failed = fmt.Errorf("renew the certificates in Secret %s: %w", c.Secret.Name, failed)
	}
	expires = trust.Expires(files, c.Identities)
	if !changed || live == nil && expires.IsZero() {
		// pods wait for the Secret, and would fail without their own certificate in it
		return expires, failed, nil
	}
	planned := c.Secret.DeepCopy()
	planned.Data = files
	u, err := plan.Manifest(planned, r.Scheme)
	if err != nil {
		return time.Time{}, failed, err
	}
	var before client.Object
	if live != nil {
		before = live
	}
	if err := serverside.Write(ctx, r.Client, u, before, plan.ManagedBy); err != nil {
		return trust.Expires(data, c.Identities), failed, fmt.Errorf("write Secret %s: %w", c.Secret.Name, err)
	}
	return expires, failed, nil
}

// maintainTrust renews the certificates and the trust files of a store to which the spec is not applied, because it is
// paused or refused: without them its parts would stop to talk to each other within days, and would go on to trust who
// is not trusted any more. What runs is as the last spec that was applied.
func (r *Reconciler) maintainTrust(ctx context.Context, seen *status.Observed) error {
	if seen.Record == nil {
		return nil
	}
	spec, err := seen.Record.LastSpec()
	if err != nil || spec == nil {
		return err
	}
	in := seen.Observed
	in.Store = seen.Store.DeepCopy()
	in.Store.Spec = *spec
	all, err := plan.Certificates(in, *seen.Record)
	if err != nil {
		return err
	}
	live, err := r.findSecrets(ctx, &status.Observed{Observed: in}, all)
	if err != nil {
		return err
	}
	errs := []error{r.issueCertificates(ctx, seen, all, live), r.issueEtcds(ctx, seen, &in)}
	configs, err := plan.RenewTrust(in, *seen.Record)
	errs = append(errs, err)
	for _, m := range configs {
		is, err := r.live(ctx, m)
		if err != nil || is == nil || plan.Foreign(seen.Store, m, is, "ConfigMap") != "" {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, r.applyOne(ctx, seen, m, is))
	}
	return errors.Join(append(errs, r.notifyOfTrust(ctx, seen), r.notifyEdges(ctx, seen))...)
}

// notifyOfTrust marks pods with the digest of the trust file in their ConfigMap, so that their kubelets bring it to
// them at once.
func (r *Reconciler) notifyOfTrust(ctx context.Context, seen *status.Observed) error {
	var errs []error
	for name, digest := range plan.TrustNotices(seen.Observed) {
		errs = append(errs, inject.Annotate(ctx, r.Client, seen.Store.Namespace, name, plan.AnnotationTrust, digest))
	}
	for _, m := range seen.ConfigMaps {
		text, dc := m.Data[plan.TrustFile], m.Labels[plan.LabelDataCenter]
		if text == "" || !seen.IsLocal(dc) || r.notified.contains(seen.Store, dc, text) {
			continue
		}
		of := inject.Sidecar{Namespace: seen.Store.Namespace, Store: seen.Store.Name, DataCenter: dc}
		if err := inject.NotifyOfTrust(ctx, r.Client, r.Uncached, seen.Store.Namespace, of, text); err != nil {
			errs = append(errs, err)
			continue
		}
		r.notified.add(seen.Store, dc, text)
	}
	return errors.Join(errs...)
}

// notifyEdges marks the pods of edges with the digest of their configuration, for the same reason.
func (r *Reconciler) notifyEdges(ctx context.Context, seen *status.Observed) error {
	var errs []error
	for name, digest := range plan.EdgeNotices(seen.Observed) {
		errs = append(errs, inject.Annotate(ctx, r.Client, seen.Store.Namespace, name, plan.AnnotationEdge, digest))
	}
	return errors.Join(errs...)
}

// noticeLog remembers the trust files that the pods of apps were notified of, so that these are listed for a change
// only.
type noticeLog struct {
	mu     sync.Mutex
	stores map[types.NamespacedName]map[string]string // the file, by data center
}

func (n *noticeLog) contains(store client.Object, dc, file string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stores[client.ObjectKeyFromObject(store)][dc] == file
}

func (n *noticeLog) add(store client.Object, dc, file string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stores == nil {
		n.stores = map[types.NamespacedName]map[string]string{}
	}
	key := client.ObjectKeyFromObject(store)
	if n.stores[key] == nil {
		n.stores[key] = map[string]string{}
	}
	n.stores[key][dc] = file
}

func (n *noticeLog) forget(store types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.stores, store)
}
