package causalstore

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/causalstore/status"
	"github.com/causalstore/causalstore/controllers/etcd"
	"github.com/causalstore/causalstore/controllers/serverside"
	"github.com/causalstore/causalstore/controllers/trust"
)

// issueEtcds makes the authorities of the etcds of a spec, replaces them when the authority of the region is replaced,
// and renews what they have signed. It notes in the input which authorities the members are to accept.
func (r *Reconciler) issueEtcds(ctx context.Context, seen *status.Observed, in *plan.Observed) error {
	var errs []error
	in.EtcdBundles = map[string]string{}
	for _, s := range plan.EtcdCertificates(*in) {
		digest, err := r.issueEtcd(ctx, seen, in, s)
		if err != nil {
			err = fmt.Errorf("certificates of the etcd of %s: %w", s.DataCenter, err)
			seen.Certificates.Add(seen.Certificates.Expire, err)
			errs = append(errs, err)
		}
		if digest != "" {
			in.EtcdBundles[s.DataCenter] = digest
		}
	}
	return errors.Join(errs...)
}

// issueEtcd returns the digest of the authorities that the members are to accept, once their Secrets have them.
func (r *Reconciler) issueEtcd(ctx context.Context, seen *status.Observed, in *plan.Observed,
	s plan.EtcdSecrets) (digest string, err error) {
	live := map[string]*corev1.Secret{}
	for _, of := range s.All() {
		is, err := r.live(ctx, of.Secret)
		if err != nil {
			return "", err
		}
		if is == nil {
			continue
		}
		if why := plan.Foreign(seen.Store, of.Secret, is, "Secret"); why != "" {
			seen.Conflicts = append(seen.Conflicts, why)
			return "", nil
		}
		live[of.Secret.Name] = is.(*corev1.Secret)
	}
	a, changed, err := r.etcdAuthority(seen, in, s, live[s.Authority.Secret.Name])
	if err != nil || a == nil {
		return "", err
	}
	if changed {
		if err := r.writeSecret(ctx, s.Authority.Secret, live[s.Authority.Secret.Name], a.Files()); err != nil {
			return "", err
		}
	}
	for _, of := range []plan.EtcdSecret{s.Members, s.Clients} {
		var data map[string][]byte
		is := live[of.Secret.Name]
		if is != nil {
			data = is.Data
		}
		files, changed, expires, err := a.Renew(data, of.Certificates, r.Now())
		if err == nil && changed {
			err = r.writeSecret(ctx, of.Secret, is, files)
		}
		if err != nil {
			return "", err
		}
		seen.Certificates.Add(expires, nil)
		r.Expiries.Set(trust.Owner{Namespace: of.Secret.Namespace, StoreNamespace: seen.Store.Namespace,
			Store:      seen.Store.Name,
			DataCenter: s.DataCenter, Secret: of.Secret.Name}, expires)
	}
	return a.Digest(), nil
}

// etcdAuthority returns the authority of an etcd, and whether it must be written. It returns none while there is none
// yet and that of the region cannot be used.
func (r *Reconciler) etcdAuthority(seen *status.Observed, in *plan.Observed, s plan.EtcdSecrets,
	live *corev1.Secret) (a *etcd.Authority, changed bool, err error) {
	name, region := s.Authority.Secret.Namespace+"/"+plan.EtcdName(seen.Store.Name, s.DataCenter), ""
	if seen.Authority != nil && seen.Authority.Issuing != nil {
		region = trust.Fingerprint(seen.Authority.Issuing.Certificate())
	}
	if live == nil {
		if region == "" {
			return nil, false, nil
		}
		a, err = etcd.NewAuthority(name, region, r.Now())
		return a, true, err
	}
	if a, err = etcd.ReadAuthority(live.Data); err != nil {
		return nil, false, fmt.Errorf("Secret %s is damaged: %w; delete it, and then all pods of this etcd",
			live.Name, err)
	}
	if region == "" {
		region = a.Region
	}
	changed, err = a.Advance(name, region, in.AcceptEtcdBundle(findSpec(in, s.DataCenter), a.Digest()), r.Now())
	return a, changed, err
}

// findSpec returns a data center that the spec has.
func findSpec(in *plan.Observed, name string) *v1alpha1.DataCenter {
	for i := range in.Store.Spec.DataCenters {
		if dc := &in.Store.Spec.DataCenters[i]; dc.Name == name {
			return dc
		}
	}
	panic("the etcd of an unknown data center " + name) // unreachable: it was planned for one of the spec
}

func (r *Reconciler) writeSecret(ctx context.Context, planned, live *corev1.Secret, files map[string][]byte) error {
	planned = planned.DeepCopy()
	planned.Data = files
	u, err := plan.Manifest(planned, r.Scheme)
	if err != nil {
		return err
	}
	var before client.Object
	if live != nil {
		before = live
	}
	if err := serverside.Write(ctx, r.Client, u, before, plan.ManagedBy); err != nil {
		return fmt.Errorf("write Secret %s: %w", planned.Name, err)
	}
	return nil
}
