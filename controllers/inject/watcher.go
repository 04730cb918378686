package inject

import (
	"context"
	"crypto/tls"
	"fmt"
	"path/filepath"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Watcher serves a certificate that something else, such as cert-manager, creates, renews and publishes: the files are
// in a mounted Secret, and the CA is in the webhook's configuration. Watcher writes nothing.
type Watcher struct {
	*ServingCertificate
	Uncached client.Reader
	// Dir has the files. Host is the name that the API server calls. Configuration is the name of the
	// MutatingWebhookConfiguration.
	Dir, Host, Configuration string
	Now                      func() time.Time
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (w *Watcher) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable: it checks until the context ends.
func (w *Watcher) Start(ctx context.Context) error { return runPeriodically(ctx, w.Check) }

// Check reads the files once, and checks that the API server trusts the certificate.
func (w *Watcher) Check(ctx context.Context) error {
	pair, err := tls.LoadX509KeyPair(filepath.Join(w.Dir, fileCert), filepath.Join(w.Dir, fileKey))
	if err != nil {
		return fmt.Errorf("read the webhook's certificate: %w", err)
	}
	w.certificate.Store(&pair)
	c := &admissionv1.MutatingWebhookConfiguration{}
	if err := w.Uncached.Get(ctx, client.ObjectKey{Name: w.Configuration}, c); err != nil {
		w.trusted.Store(false)
		return fmt.Errorf("read webhook configuration %s: %w", w.Configuration, err)
	}
	for _, hook := range c.Webhooks {
		if !isTrusted(pair, w.Host, hook.ClientConfig.CABundle, w.Now()) {
			w.trusted.Store(false)
			return fmt.Errorf(
				"webhook configuration %s does not trust the certificate in %s for host %s; check that "+
					"cert-manager's cainjector runs and that the certificate has that name",
				w.Configuration, w.Dir, w.Host)
		}
	}
	w.trusted.Store(true)
	return nil
}
