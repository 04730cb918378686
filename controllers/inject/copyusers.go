package inject

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// usersInterval is how often Copier looks for a change of users: the operator may not watch Secrets.
const usersInterval = 15 * time.Second

// copyUsers copies the users of a store into a namespace that uses it, if sidecars ask for passwords. It copies
// digests: the passwords stay in the namespace of the store. A copy that exists is kept up to date, also if new
// sidecars do not ask for passwords any more, because others still run. It returns when to look again.
func (c *Copier) copyUsers(ctx context.Context, namespace string, use StoreRef) (again time.Duration, err error) {
	if use == (StoreRef{}) {
		return 0, nil
	}
	store := &v1alpha1.CausalStore{}
	if err := c.Client.Get(ctx, client.ObjectKey(use), store); err != nil || store.Spec.Clients.UsersSecret == "" {
		return 0, client.IgnoreNotFound(err)
	}
	if !store.Spec.Clients.SidecarPasswords {
		exists := &corev1.Secret{}
		if err := c.Uncached.Get(ctx, client.ObjectKey{Namespace: namespace, Name: use.usersSecret(namespace)},
			exists); err != nil || !isCopy(exists, use) {
			return 0, client.IgnoreNotFound(err)
		}
	}
	users := &corev1.Secret{}
	err = c.Uncached.Get(ctx, client.ObjectKey{Namespace: use.Namespace, Name: plan.UsersName(use.Name)}, users)
	if err != nil || !plan.IsUsersOf(store, users) {
		return usersInterval, client.IgnoreNotFound(err)
	}
	return usersInterval,
		c.apply(ctx, use, &corev1.Secret{ObjectMeta: copyMetadata(use, namespace, plan.UsersName(use.Name)),
			Type: corev1.SecretTypeOpaque,
			Data: map[string][]byte{plan.KeyUsersFile: users.Data[plan.KeyUsersFile]}})
}
