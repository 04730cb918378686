package causalstore

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/causalstore/status"
)

// readClients reads the Secrets that spec.clients names. The operator may not watch Secrets, so it reads them in every
// reconciliation: a change is noticed within idleInterval.
func (r *Reconciler) readClients(ctx context.Context, in *status.Observed) error {
	spec := &in.Store.Spec.Clients
	var errs []error
	if spec.UsersSecret != "" {
		errs = append(errs, r.readUsers(ctx, in, spec.UsersSecret))
	}
	if t := spec.Front.TLS; t != nil && spec.Front.IsEnabled() {
		errs = append(errs, r.checkSecret(ctx, in, t.SecretName,
			fmt.Sprintf("kubectl -n %s create secret tls %s --cert=FILE --key=FILE", in.Store.Namespace, t.SecretName),
			func(s *corev1.Secret) error { return plan.CheckCertificate(s.Data, r.Now()) }))
		if ca := t.ClientCASecretName; ca != "" {
			errs = append(errs, r.checkSecret(ctx, in, ca,
				fmt.Sprintf("kubectl -n %s create secret generic %s --from-file=ca.crt=FILE", in.Store.Namespace, ca),
				func(s *corev1.Secret) error { return plan.CheckAuthorities(s.Data) }))
		}
	}
	return errors.Join(errs...)
}

// readUsers reads the users. If they cannot be used, those of before stay.
func (r *Reconciler) readUsers(ctx context.Context, in *status.Observed, name string) error {
	good := false
	err := r.checkSecret(ctx, in, name,
		fmt.Sprintf("kubectl -n %s create secret generic %s --from-literal=USER=PASSWORD", in.Store.Namespace, name),
		func(s *corev1.Secret) error {
			users, err := plan.UsersOf(s.Data)
			if err == nil {
				in.Clients.Users, in.Clients.UsersVersion, good = contract.FormatUsers(users), s.ResourceVersion, true
			}
			return err
		})
	if err != nil || good {
		return err
	}
	before := &corev1.Secret{}
	if err := r.Uncached.Get(ctx, client.ObjectKey{Namespace: in.Store.Namespace, Name: plan.UsersName(in.Store.Name)},
		before); err != nil {
		return wrapUnlessGone("read the users of before", err)
	}
	if plan.IsUsersOf(in.Store, before) {
		in.Clients.Users = string(before.Data[plan.KeyUsersFile])
	}
	return nil
}

// checkSecret reads a Secret, and notes why it cannot be used.
func (r *Reconciler) checkSecret(ctx context.Context, in *status.Observed, name, create string,
	check func(*corev1.Secret) error) error {
	s := &corev1.Secret{}
	switch err := r.Uncached.Get(ctx, client.ObjectKey{Namespace: in.Store.Namespace, Name: name}, s); {
	case apierrors.IsNotFound(err):
		in.Clients.Missing = append(in.Clients.Missing,
			fmt.Sprintf("Secret %s does not exist; create it: %s", name, create))
		return nil
	case err != nil:
		return fmt.Errorf("read Secret %s: %w", name, err)
	}
	if err := check(s); err != nil {
		in.Clients.Invalid = append(in.Clients.Invalid, fmt.Sprintf("Secret %s: %v", name, err))
	}
	return nil
}

// notifyOfUsers marks pods with the version of the users, so that their kubelets bring them the users at once.
func (r *Reconciler) notifyOfUsers(ctx context.Context, seen *status.Observed, p plan.Plan) error {
	var errs []error
	body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, plan.AnnotationUsers, seen.Clients.UsersVersion)
	for _, name := range p.NotifyUsers {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: seen.Store.Namespace, Name: name}}
		if err := ignoreGone(r.Client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, body))); err != nil {
			errs = append(errs, fmt.Errorf("mark pod %s with the version of the users: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// removeUsers deletes the Secret with the users of a store that has none any more. The operator may not list Secrets,
// so prune does not find it. Pods that still have the Secret mounted keep what they have.
func (r *Reconciler) removeUsers(ctx context.Context, seen *status.Observed) error {
	if seen.Store.Spec.Clients.UsersSecret != "" {
		return nil
	}
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: seen.Store.Namespace,
		Name: plan.UsersName(seen.Store.Name)}}
	if err := r.Uncached.Get(ctx, client.ObjectKeyFromObject(s), s); err != nil || !plan.IsUsersOf(seen.Store, s) ||
		!r.hasMade(seen, s) {
		return wrapUnlessGone("read the users of before", err)
	}
	if err := ignoreGone(r.Client.Delete(ctx, s, client.Preconditions{UID: ptr(s.UID)})); err != nil {
		return fmt.Errorf("delete Secret %s: %w", s.Name, err)
	}
	return nil
}
