package inject

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// Rotator creates and renews the webhook's CA and certificate. It stores them in a Secret that all replicas of the
// operator share, passes the certificate to the server, and publishes the CA in the webhook's configuration. Every
// replica runs one, leader or not.
type Rotator struct {
	*ServingCertificate
	Client client.Client
	// Uncached reads the Secret.
	Uncached client.Reader
	// Namespace and Secret locate the certificate. Host is the name that the API server calls. Configuration is the
	// name of the MutatingWebhookConfiguration.
	Namespace, Secret, Host, Configuration string
	Now                                    func() time.Time
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (k *Rotator) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable: it rotates until the context ends.
func (k *Rotator) Start(ctx context.Context) error { return runPeriodically(ctx, k.Rotate) }

// Rotate checks the certificate once, and renews what is due.
func (k *Rotator) Rotate(ctx context.Context) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: k.Secret,
		Labels: map[string]string{plan.LabelManagedBy: plan.ManagedBy}}, Type: corev1.SecretTypeOpaque}
	err := k.Uncached.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	missing := apierrors.IsNotFound(err)
	switch {
	case err != nil && !missing:
		return fmt.Errorf("read Secret %s: %w", k.Secret, err)
	case !missing && secret.Labels[plan.LabelManagedBy] != plan.ManagedBy:
		return fmt.Errorf(
			"write Secret %s of namespace %s: it exists and was not made by an operator (label %s=%s); delete it, or "+
				"name another one in --webhook-secret",
			k.Secret, k.Namespace, plan.LabelManagedBy, plan.ManagedBy)
	}
	files, changed, err := renew(secret.Data, k.Host, k.Now())
	if err != nil {
		return err
	}
	if changed {
		// Another replica may do the same concurrently: the first one wins, and the next check reads what it has
		// written.
		before := secret.DeepCopy()
		secret.Data = files
		if missing {
			err = k.Client.Create(ctx, secret)
		} else {
			err = k.Client.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		}
		if err != nil {
			return fmt.Errorf("write Secret %s: %w", k.Secret, err)
		}
	}
	pair, err := tls.X509KeyPair(files[fileCert], files[fileKey])
	if err != nil {
		return err
	}
	k.certificate.Store(&pair)
	return k.publishCA(ctx, files[fileCA])
}

// publishCA writes the trusted CAs into the webhook's configuration.
func (k *Rotator) publishCA(ctx context.Context, authorities []byte) error {
	c := &admissionv1.MutatingWebhookConfiguration{}
	if err := k.Uncached.Get(ctx, client.ObjectKey{Name: k.Configuration}, c); err != nil {
		k.trusted.Store(false)
		return fmt.Errorf("read webhook configuration %s: %w", k.Configuration, err)
	}
	for i := range c.Webhooks {
		if to := c.Webhooks[i].ClientConfig.Service; to != nil && to.Name+"."+to.Namespace+".svc" != k.Host {
			k.trusted.Store(false)
			return fmt.Errorf(
				"webhook configuration %s calls Service %s of namespace %s, which is not this operator's (%s); give "+
					"each operator a configuration of its own in --webhook-configuration",
				k.Configuration, to.Name, to.Namespace, k.Host)
		}
	}
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	var patch []operation
	for i := range c.Webhooks {
		if !bytes.Equal(c.Webhooks[i].ClientConfig.CABundle, authorities) {
			patch = append(patch, operation{"test", fmt.Sprintf("/webhooks/%d/name", i), c.Webhooks[i].Name},
				operation{"add", fmt.Sprintf("/webhooks/%d/clientConfig/caBundle", i), authorities})
		}
	}
	if len(patch) > 0 {
		body, err := json.Marshal(patch)
		if err != nil {
			return err
		}
		if err := k.Client.Patch(ctx, c, client.RawPatch(types.JSONPatchType, body)); err != nil {
			return fmt.Errorf("write webhook configuration %s: %w", k.Configuration, err)
		}
	}
	k.trusted.Store(true)
	return nil
}
