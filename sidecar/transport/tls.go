package transport

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/connlimit"
	"github.com/causalstore/causalstore/sidecar/identity"
)

// keySet is what was read from the files of contract.LinkTLS: a certificate with its key, and whom to trust. It does
// not change.
type keySet struct {
	cert        *tls.Certificate
	ends        time.Time // when the certificate expires
	trustDomain string    // of the certificate
	trust       *identity.Trust
}

// keyring holds the key set in use. The files are read again for every new connection and every few seconds, so
// rotating them needs no restart. While certificate and key do not match each other, or the trust file does not cover
// them, as in the middle of a rotation, the last certificate that did stays in use.
type keyring struct {
	files contract.LinkTLS
	// check returns why this process must not use a certificate of an identity.
	check func(contract.Identity) error
	log   *slog.Logger

	mu     sync.Mutex
	digest [sha256.Size]byte // of the files that were last read, valid or not
	err    error             // why they are not in use
	set    *keySet
}

func newKeyring(files contract.LinkTLS, check func(contract.Identity) error, log *slog.Logger) (*keyring, error) {
	k := &keyring{files: files, check: check, log: log}
	if k.err = k.reload(); k.err != nil { // at the start all must be well
		return nil, k.err
	}
	return k, nil
}

// reload reads the files if they have changed. What is wrong with the certificate does not keep a new trust file from
// being used, and the other way round: to distrust somebody must not wait.
func (k *keyring) reload() error {
	var content [3][]byte
	sum := sha256.New()
	for i, name := range []string{k.files.Cert, k.files.Key, k.files.Trust} {
		var err error
		if content[i], err = os.ReadFile(name); err != nil {
			k.digest = [sha256.Size]byte{}
			return fmt.Errorf("read TLS files: %w", err)
		}
		fmt.Fprintf(sum, "%d ", len(content[i]))
		sum.Write(content[i])
	}
	digest := [sha256.Size]byte(sum.Sum(nil))
	if digest == k.digest {
		return k.err
	}
	k.digest = digest
	next := keySet{}
	if k.set != nil {
		next = *k.set
	}
	trust, errTrust := identity.ParseTrust(content[2])
	if errTrust != nil {
		errTrust = fmt.Errorf("trust file %s: %w", k.files.Trust, errTrust)
	} else {
		next.trust = trust
	}
	errCert := k.useCertificate(&next, content[0], content[1])
	if next.cert != nil && next.trust != nil {
		k.set = &next
	}
	return errors.Join(errTrust, errCert)
}

// useCertificate puts a certificate and its key into a set.
func (k *keyring) useCertificate(set *keySet, certPEM, keyPEM []byte) error {
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return fmt.Errorf("TLS certificate %s with key %s: %w", k.files.Cert, k.files.Key, err)
	}
	if set.trust == nil {
		return nil // the error about the trust file says it all
	}
	own, err := k.verifyOwn(&cert, set.trust)
	if err != nil {
		return fmt.Errorf("TLS certificate %s: %w", k.files.Cert, err)
	}
	if set.cert == nil || !cert.Leaf.Equal(set.cert.Leaf) { // a new one makes dialers renew their links
		set.cert = &cert
	}
	set.ends, set.trustDomain = cert.Leaf.NotAfter, own.TrustDomain
	return nil
}

// verifyOwn returns who a certificate belongs to, or why it is not one for this process. It must chain to the trust
// file, since peers have the same one; whether it has expired is for the peers to judge.
func (k *keyring) verifyOwn(cert *tls.Certificate, trust *identity.Trust) (own identity.Peer, err error) {
	chain := make([]*x509.Certificate, len(cert.Certificate))
	for i, der := range cert.Certificate {
		if chain[i], err = x509.ParseCertificate(der); err != nil {
			return own, err
		}
	}
	at := time.Now()
	if at.Before(cert.Leaf.NotBefore) || at.After(cert.Leaf.NotAfter) {
		at = cert.Leaf.NotBefore
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		if own, err = trust.Verify(chain, at, usage); err != nil {
			return own, err
		}
	}
	return own, k.check(own.Identity)
}

// load returns the set to use now.
func (k *keyring) load() *keySet {
	k.mu.Lock()
	defer k.mu.Unlock()
	before, was := k.set, k.err
	k.err = k.reload()
	switch {
	case k.err != nil && (was == nil || was.Error() != k.err.Error()):
		k.log.Warn("cannot load the TLS files, keeping the previous ones", "error", k.err)
	case k.set != before:
		k.log.Info("loaded new TLS files", "certificate", k.files.Cert, "expires", k.set.ends)
	}
	return k.set
}

// serverCredentials returns credentials that load the keys at every handshake.
func (g *GRPC) serverCredentials() credentials.TransportCredentials {
	return gatheringCredentials{credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			set := g.keys.load()
			return &tls.Config{
				MinVersion:   tls.VersionTLS13,
				NextProtos:   []string{"h2"},
				Certificates: []tls.Certificate{*set.cert},
				ClientAuth:   tls.RequireAnyClientCert, // VerifyConnection verifies it
				VerifyConnection: func(s tls.ConnectionState) error {
					_, err := set.trust.Verify(s.PeerCertificates, time.Now(), x509.ExtKeyUsageClientAuth)
					if err != nil {
						g.failed.Add(1)
						g.violations.note(ViolationCertificate, hello.Conn.RemoteAddr().String(), err, g.config.Log)
					}
					return err
				},
				// A resumed session would not check against the rotated files.
				SessionTicketsDisabled: true,
			}, nil
		},
	})}
}

// clientCredentials returns credentials for one connection to an address, with the current keys. The peer is known by
// its identity, not by a host name: accept gets who it is. The host of the address is only the server name, by which
// edges route.
func (g *GRPC) clientCredentials(addr string, accept func(*peerIdentity) error) credentials.TransportCredentials {
	set := g.keys.load()
	host, _, _ := net.SplitHostPort(addr) // dialing returns the error
	return connlimit.DialingCredentials{TransportCredentials: gatheringCredentials{credentials.NewTLS(&tls.Config{
		MinVersion:         tls.VersionTLS13,
		ServerName:         host,
		Certificates:       []tls.Certificate{*set.cert},
		InsecureSkipVerify: true, // VerifyConnection verifies the chain, and that it is the wanted node
		VerifyConnection: func(s tls.ConnectionState) error {
			p, err := newPeerIdentity(s, set, x509.ExtKeyUsageServerAuth)
			if err != nil {
				g.violations.note(ViolationCertificate, addr, err, g.config.Log)
				return fmt.Errorf("%w: %w", errNotTrusted, err)
			}
			return accept(p)
		},
	})}}
}

// peerIdentity is who is at the other end of a link, with what proves it.
type peerIdentity struct {
	identity.Peer
	chain []*x509.Certificate
	usage x509.ExtKeyUsage
	own   *tls.Certificate // of this process
	ends  time.Time        // when the certificate of the peer or of this process expires
	trust *identity.Trust  // that has verified it last
	// distrustedAt is when it was found not to be trusted any more; zero: it is trusted.
	distrustedAt time.Time
}

func newPeerIdentity(s tls.ConnectionState, set *keySet, usage x509.ExtKeyUsage) (*peerIdentity, error) {
	p, err := set.trust.Verify(s.PeerCertificates, time.Now(), usage)
	if err != nil {
		return nil, err
	}
	id := &peerIdentity{Peer: p, chain: s.PeerCertificates, usage: usage, own: set.cert, ends: p.NotAfter,
		trust: set.trust}
	if set.ends.Before(id.ends) {
		id.ends = set.ends
	}
	return id, nil
}
