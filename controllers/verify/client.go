package verify

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// access is how a client of a store's fronts connects.
type access struct {
	port           int32
	user, password string
	tls            *tls.Config
}

// unchecked returns why a store cannot be written to from here, or "".
func unchecked(c *v1alpha1.Clients) string {
	switch {
	case !c.Front.IsEnabled():
		return "its front is off (spec.clients.front.enabled), so only pods with a sidecar can connect; not written to"
	case c.Front.TLS != nil && c.Front.TLS.ClientCASecretName != "" && !c.Front.ServesPlaintext():
		return "its fronts ask clients for certificates (spec.clients.front.tls.clientCASecretName), of which this " +
			"check has none; not written to"
	}
	return ""
}

// access returns how to connect to the fronts, as the first user if there are any.
func (i *Installation) access(ctx context.Context, s *v1alpha1.CausalStore) (*access, error) {
	c := &s.Spec.Clients
	a := &access{port: plan.PortRedis}
	if c.UsersSecret != "" {
		secret, err := i.secret(ctx, c.UsersSecret)
		if err != nil {
			return nil, err
		}
		if a.user, a.password, err = contract.FirstUser(secret.Data); err != nil {
			return nil, fmt.Errorf("Secret %s: %w", c.UsersSecret, err)
		}
	}
	if t := c.Front.TLS; t != nil && t.ClientCASecretName == "" {
		secret, err := i.secret(ctx, t.SecretName)
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
		if err != nil {
			return nil, fmt.Errorf("Secret %s: %w", t.SecretName, err)
		}
		a.port, a.tls = plan.PortRedisTLS, contract.PinFront(pair.Certificate[0])
	}
	return a, nil
}

// dialer returns a dialer that uses TLS if fronts do. go-redis leaves TLS to a dialer that it is given.
func (a *access) dialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(context.Context,
	string, string) (net.Conn, error) {
	if dial == nil {
		dial = (&net.Dialer{Timeout: requestTimeout}).DialContext
	}
	if a.tls == nil {
		return dial
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return tls.Client(c, a.tls), nil
	}
}

func (i *Installation) secret(ctx context.Context, name string) (*corev1.Secret, error) {
	s := &corev1.Secret{}
	if err := i.Client.Get(ctx, client.ObjectKey{Namespace: i.Store.Namespace, Name: name}, s); err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", name, err)
	}
	return s, nil
}
