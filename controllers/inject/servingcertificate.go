package inject

import (
	"context"
	"crypto/tls"
	"errors"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// ServingCertificate is the certificate that the webhook's server presents. A Rotator or a Watcher sets it.
type ServingCertificate struct {
	certificate atomic.Pointer[tls.Certificate]
	trusted     atomic.Bool // by the API server, as the webhook's configuration has the CA
}

// Certificate returns the certificate, for tls.Config.GetCertificate.
func (s *ServingCertificate) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := s.certificate.Load(); c != nil {
		return c, nil
	}
	return nil, errors.New("the webhook has no certificate yet")
}

// Serving reports whether the API server can call the webhook.
func (s *ServingCertificate) Serving() bool { return s.certificate.Load() != nil && s.trusted.Load() }

// checkInterval is how often the certificate is checked.
const checkInterval = time.Minute

// runPeriodically calls check until the context ends. It retries a failure after a second.
func runPeriodically(ctx context.Context, check func(context.Context) error) error {
	for {
		wait := checkInterval
		if err := check(ctx); err != nil && ctx.Err() == nil {
			wait = time.Second
			if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
				log.FromContext(ctx).Info("another replica writes the webhook's certificate too, look again",
					"err", err.Error())
			} else {
				log.FromContext(ctx).Error(err, "check the webhook's certificate")
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}
