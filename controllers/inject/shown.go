package inject

import (
	"context"
	"crypto/tls"
	"errors"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Shown is the certificate that the webhook's server shows. Who keeps it is a Keeper, or something outside, watched by a Watcher.
type Shown struct {
	certificate atomic.Pointer[tls.Certificate]
	trusted     atomic.Bool // by the API server
}

// Certificate is what the server shows.
func (s *Shown) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := s.certificate.Load(); c != nil {
		return c, nil
	}
	return nil, errors.New("there is no certificate yet")
}

// Serving says whether the API server can call the webhook.
func (s *Shown) Serving() bool { return s.certificate.Load() != nil && s.trusted.Load() }

// keepEvery is how often the certificate is looked at.
const keepEvery = time.Minute

// keepOn looks again and again until the context ends. What fails is tried again soon.
func keepOn(ctx context.Context, look func(context.Context) error) error {
	for {
		wait := keepEvery
		if err := look(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "keep the webhook's certificate")
			wait = time.Second
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}
