package trust

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// loadAuthority reads the authority, and makes it if there is none and has never been.
func (k *Keeper) loadAuthority(ctx context.Context, own *corev1.ConfigMap) (*State, error) {
	s := &State{Region: k.Region}
	if own != nil {
		s.TrustDomain, s.Bundle = own.Data[FieldTrustDomain], own.Data[FieldBundle]
	}
	secret, all, err := k.readSecret(ctx, own, s)
	if err != nil || s.Problem != "" {
		s.signer = noSigner{s.Problem}
		return s, err
	}
	if secret == nil {
		if all, err = k.create(ctx); IsPending(err) {
			s.Problem = err.Error()
			s.signer = noSigner{s.Problem}
			return s, nil
		}
		if err != nil {
			return nil, err
		}
	}
	k.forgetReports()
	waiting, err := k.waitingFor(ctx, own, all.Next)
	if err != nil {
		return nil, err
	}
	var problem string
	if secret != nil {
		if all, problem, err = k.advance(ctx, secret, own, all, len(waiting) == 0); err != nil {
			return nil, err
		}
		if waiting, err = k.waitingFor(ctx, own, all.Next); err != nil {
			return nil, err
		}
	}
	s.TrustDomain, s.Bundle, s.Problem, s.Waiting = all.TrustDomain, all.Bundle(), problem, waiting
	s.Issuing, s.IssuingSince, s.Next, s.Retired = all.Issuing, all.IssuingSince, all.Next, all.Retired
	s.signer = k.signerOf(all)
	return s, k.publish(ctx, own, all, waiting, k.refusalsOf(own, all.Issuing))
}

// signerOf returns who issues certificates now. An authority of the operator's own goes on until that of the issuer
// takes over.
func (k *Keeper) signerOf(all Authorities) signer {
	switch {
	case all.Issuing.own != nil:
		return ownSigner{all.Issuing.own}
	case k.Requests == nil:
		return noSigner{"no issuer is given any more, and the new authority of the operator does not issue yet"}
	}
	return &issuerSigner{k.Requests, all.Issuing}
}

// readSecret reads the Secret with the authorities, or returns nil if they have to be made. If they cannot be used, it
// sets the problem of the state.
func (k *Keeper) readSecret(ctx context.Context, own *corev1.ConfigMap, s *State) (secret *corev1.Secret,
	all Authorities, err error) {
	secret = &corev1.Secret{}
	err = k.Uncached.Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: k.Name}, secret)
	switch {
	case apierrors.IsNotFound(err) && own != nil:
		s.Problem = fmt.Sprintf(
			"Secret %s of namespace %s, with the key of the region's authority, is gone; restore it from a backup, "+
				"or, to make a new authority that other regions must trust again, delete ConfigMap %s",
			k.Name, k.Namespace, k.Name)
		return nil, all, nil
	case apierrors.IsNotFound(err):
		return nil, all, nil
	case err != nil:
		return nil, all, fmt.Errorf("read Secret %s of namespace %s: %w", k.Name, k.Namespace, err)
	case secret.Labels[plan.LabelManagedBy] != plan.ManagedBy:
		s.Problem = fmt.Sprintf(
			"Secret %s of namespace %s exists and was not made by an operator (label %s=%s); delete it, or name "+
				"another one in --authority-secret",
			k.Name, k.Namespace, plan.LabelManagedBy, plan.ManagedBy)
		return nil, all, nil
	}
	if all, err = Read(secret.Data); err != nil {
		s.Problem = fmt.Sprintf(
			"Secret %s of namespace %s, with the region's authority, is damaged: %v; restore it from a backup", k.Name,
			k.Namespace, err)
		return nil, all, nil
	}
	if k.TrustDomain != "" && k.TrustDomain != all.TrustDomain {
		s.Problem = fmt.Sprintf(
			"the region's authority in Secret %s of namespace %s is of trust domain %s, and --trust-domain is %s; "+
				"a trust domain cannot be renamed: set it back",
			k.Name, k.Namespace, all.TrustDomain, k.TrustDomain)
	}
	return secret, all, nil
}

// create makes the authority of this region, or takes that of the issuer. If another replica is faster, the next
// attempt reads what that one has made.
func (k *Keeper) create(ctx context.Context) (Authorities, error) {
	domain := k.TrustDomain
	if domain == "" {
		system := &metav1.PartialObjectMetadata{}
		system.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		if err := k.Uncached.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
			return Authorities{}, fmt.Errorf("read namespace %s, whose UID is part of the trust domain: %w",
				metav1.NamespaceSystem, err)
		}
		domain = k.Region + "." + string(system.UID)
	}
	var all Authorities
	var err error
	if k.Requests == nil {
		all, err = Create(domain, k.Now())
	} else {
		all, err = k.adopt(ctx, domain)
	}
	if err != nil {
		return all, err
	}
	files, err := all.Files()
	if err != nil {
		return all, err
	}
	secret := &corev1.Secret{ObjectMeta: k.metadata(k.Name), Type: corev1.SecretTypeOpaque, Data: files}
	if err := k.Client.Create(ctx, secret); err != nil {
		return all, fmt.Errorf("create Secret %s of namespace %s: %w", k.Name, k.Namespace, err)
	}
	log.FromContext(ctx).Info("created the authority of this region", "trustDomain", domain, "fingerprint",
		Fingerprint(all.Issuing.Certificate()))
	return all, nil
}

// adopt takes the authority of the issuer as the first one of this region.
func (k *Keeper) adopt(ctx context.Context, trustDomain string) (Authorities, error) {
	if !k.leads {
		return Authorities{}, &PendingError{"the leader of the operator has not asked the issuer for a certificate yet"}
	}
	root, err := k.Requests.probe(ctx, k.Region, trustDomain, k.Now())
	if err != nil {
		return Authorities{}, &PendingError{fmt.Sprintf("the region has no authority yet: %v", err)}
	}
	return Authorities{TrustDomain: trustDomain, Sequence: k.Now().Unix(), Issuing: root}, nil
}

// advance carries out the step of a rotation that was asked for or is due, and drops what has retired. A problem is
// what keeps the issuer from being used.
func (k *Keeper) advance(ctx context.Context, secret *corev1.Secret, own *corev1.ConfigMap, all Authorities,
	accepted bool) (next Authorities, problem string, err error) {
	request := ""
	if own != nil {
		request = own.Annotations[AnnotationRotate]
	}
	if k.Requests != nil && strings.HasPrefix(request, RotateBegin) {
		request = "" // the issuer has the authority
	}
	all, restored := all.Restore(publishedSequence(own), k.Now())
	next, changed, err := all.Advance(request, accepted, k.Now())
	if err != nil {
		return all, "", err
	}
	changed = changed || restored
	var follows bool
	if k.Requests == nil {
		next, follows, err = next.Return(k.Now())
	} else if k.leads {
		next, follows, problem, err = k.follow(ctx, next)
	}
	if err != nil || !changed && !follows {
		return all, problem, err
	}
	before := secret.DeepCopy()
	if secret.Data, err = next.Files(); err != nil {
		return all, "", err
	}
	if err := k.Client.Patch(ctx, secret, client.MergeFromWithOptions(before,
		client.MergeFromWithOptimisticLock{})); err != nil {
		return all, "", fmt.Errorf("write Secret %s of namespace %s: %w", k.Name, k.Namespace, err)
	}
	what := "rotated the authority of this region"
	if restored {
		what = "an older Secret of the authority was restored: its bundle gets a new sequence, and authorities that " +
			"are not in it are not trusted any more"
	}
	log.FromContext(ctx).Info(what, "request", request, "sequence", next.Sequence,
		"issuing", Fingerprint(next.Issuing.Certificate()), "next", next.Next != nil, "retired", len(next.Retired))
	return next, problem, nil
}

// publishedSequence is that of the bundle that was published last; 0 if there is none.
func publishedSequence(own *corev1.ConfigMap) int64 {
	if own == nil {
		return 0
	}
	e, err := ReadEntry(own)
	if err != nil {
		return 0 // it is written again
	}
	return e.Sequence
}

// follow makes the authority that the issuer uses now the next one. That the issuer does not answer is a problem only
// while nothing else issues.
func (k *Keeper) follow(ctx context.Context, all Authorities) (next Authorities, changed bool, problem string,
	err error) {
	root, err := k.Requests.probe(ctx, k.Region, all.TrustDomain, k.Now())
	switch {
	case IsPending(err):
		return all, false, "", nil
	case err != nil:
		return all, false, err.Error(), nil
	}
	next, changed, err = all.Propose(root, k.Now())
	if err != nil {
		return all, false, err.Error(), nil
	}
	return next, changed, "", nil
}

// waitingFor returns what keeps the next authority from issuing. Only the leader knows; the others leave it as it was
// published.
func (k *Keeper) waitingFor(ctx context.Context, own *corev1.ConfigMap, next *Root) ([]string, error) {
	switch {
	case next == nil:
		return nil, nil
	case k.leads:
		return k.waiting(ctx, next)
	case own == nil || own.Data[FieldWaiting] == "":
		return []string{"the leader of the operator has not asked the parts yet"}, nil
	}
	return strings.Split(own.Data[FieldWaiting], "\n"), nil
}

// refusalsOf returns who does not accept the authority that issues. Only the leader knows; the others leave it as it
// was published.
func (k *Keeper) refusalsOf(own *corev1.ConfigMap, issuing *Root) []string {
	switch {
	case k.leads:
		return k.refusals(issuing)
	case own == nil || own.Data[FieldRefusedBy] == "":
		return nil
	}
	return strings.Split(own.Data[FieldRefusedBy], "\n")
}
