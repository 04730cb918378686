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

// Watcher shows a certificate that something else makes, renews and lets the API server trust, such as cert-manager: it is in files
// of a Secret's volume, and its authority in the webhook's configuration. Nothing is written.
type Watcher struct {
	*Shown
	Uncached client.Reader
	// Dir has the files, Host is the name that the API server calls, Configuration is the MutatingWebhookConfiguration.
	Dir, Host, Configuration string
	Now                      func() time.Time
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (w *Watcher) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable: it looks until the context ends.
func (w *Watcher) Start(ctx context.Context) error { return keepOn(ctx, w.Look) }

// Look reads the files once, and whether the API server trusts them.
func (w *Watcher) Look(ctx context.Context) error {
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
		if !trusted(pair, w.Host, hook.ClientConfig.CABundle, w.Now()) {
			w.trusted.Store(false)
			return fmt.Errorf("webhook configuration %s does not trust the certificate in %s for host %s; does cert-manager's cainjector run, and is the certificate for that name?",
				w.Configuration, w.Dir, w.Host)
		}
	}
	w.trusted.Store(true)
	return nil
}
