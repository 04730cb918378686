package drill

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Capabilities are the kinds of Chaos Mesh that were tried on a canary, with what was wrong, or "".
type Capabilities map[string]string

// Find returns what is wrong with a kind, and whether it was tried.
func (c Capabilities) Find(kind string) (wrong string, known bool) {
	wrong, known = c[kind]
	return wrong, known
}

// CapabilitiesName is the name of the ConfigMap that keeps what was tried.
func CapabilitiesName(store string) string { return store + "-drill.capabilities" }

// ReadCapabilities returns what was tried; nothing if nothing was.
func ReadCapabilities(ctx context.Context, c client.Reader, namespace, store string) (Capabilities, error) {
	m := &corev1.ConfigMap{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: CapabilitiesName(store)}, m); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return m.Data, nil
}

// write keeps what was tried.
func (c Capabilities) write(ctx context.Context, k client.Client, namespace, store string) error {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: CapabilitiesName(store)}, Data: c}
	err := k.Create(ctx, m)
	if client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("keep what was tried: %w", err)
	}
	if err != nil {
		if err := k.Update(ctx, m); err != nil {
			return fmt.Errorf("keep what was tried: %w", err)
		}
	}
	return nil
}
