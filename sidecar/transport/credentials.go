package transport

import (
	"crypto/tls"

	"github.com/causalstore/causalstore/sidecar/identity"
)

// Credentials returns the certificate of this process and whom it trusts, as they were in the TLS files a few seconds
// ago at most. It requires Config.TLS.
func (g *GRPC) Credentials() (*tls.Certificate, *identity.Trust) {
	set := g.keys.current()
	return set.cert, set.trust
}

// current returns the set in use without reading the files; watchKeys reads them.
func (k *keyring) current() *keySet {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.set
}
