package plan

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
)

// ClientSecrets are what the Secrets hold that spec.clients names.
type ClientSecrets struct {
	// Users is the file of users for fronts and sidecars. If the Secret is missing or cannot be used, it is the last
	// one that could; without one nobody can connect.
	Users string
	// UsersVersion tells versions of the Secret apart.
	UsersVersion string
	// Missing and Invalid say which Secrets do not exist or cannot be used, and what to do.
	Missing, Invalid []string
}

// KeyUsersFile is the file of users in the Secret that UsersName names.
const KeyUsersFile = "users.acl"

// UsersName is the name of the Secret with the digests of the passwords of clients. The passwords themselves stay in
// the Secret that spec.clients.usersSecret names.
func UsersName(store string) string { return store + "-acl" }

// AnnotationUsers on a pod is the last version of the users that it was notified of, as AnnotationEpoch is for the
// topology.
const AnnotationUsers = "causalstore.io/users"

// UsersOf reads a Secret with users: a key for each, with a password on each line. Errors name the user, and nothing of
// the value.
func UsersOf(data map[string][]byte) ([]contract.User, error) {
	var users []contract.User
	for _, name := range slices.Sorted(maps.Keys(data)) {
		u := contract.User{Name: name}
		for line := range bytes.Lines(data[name]) {
			line = bytes.TrimRight(line, "\r\n")
			if len(line) == 0 {
				continue
			}
			hash, ok := contract.ParsePasswordHash(string(line))
			if !ok {
				hash = contract.HashPassword(line)
			}
			u.Passwords = append(u.Passwords, hash)
		}
		switch {
		case !contract.ValidUserName(name):
			return nil, fmt.Errorf("key %q is not the name of a user", name)
		case len(u.Passwords) == 0:
			return nil, fmt.Errorf("user %s has no password; write one as the value of the key, or remove the key",
				name)
		case len(u.Passwords) > contract.MaxPasswords:
			return nil, fmt.Errorf("user %s has %d passwords (lines); give at most %d, the new one and the old one",
				name, len(u.Passwords), contract.MaxPasswords)
		}
		users = append(users, u)
	}
	if len(users) == 0 {
		return nil, errors.New("it has no user; add a key with the name of a user, whose value is the password")
	}
	if len(users) > contract.MaxUsers {
		return nil, fmt.Errorf("it has %d users; the limit is %d", len(users), contract.MaxUsers)
	}
	return users, nil
}

// CheckCertificate returns why fronts cannot serve clients with the certificate in a Secret.
func CheckCertificate(data map[string][]byte, now time.Time) error {
	for _, key := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		if len(data[key]) == 0 {
			return fmt.Errorf("it has no key %s; make it with: kubectl create secret tls", key)
		}
	}
	pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return fmt.Errorf("%s and %s cannot be used: %w", corev1.TLSCertKey, corev1.TLSPrivateKeyKey, err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return fmt.Errorf("%s cannot be used: %w", corev1.TLSCertKey, err)
	}
	if now.After(leaf.NotAfter) {
		return fmt.Errorf("the certificate has expired at %s; renew it", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// CheckAuthorities returns why clients cannot be verified with the authorities in a Secret.
func CheckAuthorities(data map[string][]byte) error {
	if !x509.NewCertPool().AppendCertsFromPEM(data[corev1.ServiceAccountRootCAKey]) {
		return fmt.Errorf("its key %s has no certificate in PEM", corev1.ServiceAccountRootCAKey)
	}
	return nil
}

// users holds the users for fronts and sidecars, without passwords.
func (b *builder) users() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: b.meta(UsersName(b.store.Name), b.labels()), Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{KeyUsersFile: []byte(b.in.Clients.Users)}}
}

// clientObjects returns what clients need that a store has only once.
func (b *builder) clientObjects() []client.Object {
	var all []client.Object
	if b.spec.Clients.UsersSecret != "" {
		all = append(all, b.users())
	}
	if b.spec.Clients.Front.IsEnabled() {
		all = append(all, b.storeService())
	}
	return all
}

// podsToNotifyOfUsers returns the pods with fronts whose kubelets do not know of the newest users. Kubelets update the
// files of a Secret when anything of the pod changes, and otherwise only every minute or two.
func (b *builder) podsToNotifyOfUsers() (names []string) {
	if b.spec.Clients.UsersSecret == "" || !b.spec.Clients.Front.IsEnabled() || b.in.Clients.UsersVersion == "" {
		return nil
	}
	for i := range b.in.Pods {
		p := &b.in.Pods[i]
		if isCoordinator(p) && p.DeletionTimestamp == nil &&
			p.Annotations[AnnotationUsers] != b.in.Clients.UsersVersion {
			names = append(names, p.Name)
		}
	}
	return names
}

// IsUsersOf reports whether a Secret is the one that users has made for a store.
func IsUsersOf(store *v1alpha1.CausalStore, s *corev1.Secret) bool {
	return metav1.IsControlledBy(s, store) && HasLabels(store, s)
}
