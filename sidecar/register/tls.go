package register

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"github.com/causalstore/causalstore/contract"
)

// tlsConfig returns the TLS configuration of a session, with the present files; nil: there is no TLS.
func (e *etcd) tlsConfig(s *session) (*tls.Config, error) {
	switch {
	case e.o.Etcd.TLS != nil:
		return filesConfig(e.o.Etcd.TLS)
	case e.o.Credentials != nil:
		return e.identityConfig(s), nil
	}
	return nil, nil
}

// filesConfig is for an etcd with certificates of its own: it is known by its host name.
func filesConfig(files *contract.TLS) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: files.ServerName, RootCAs: x509.NewCertPool()}
	ca, err := os.ReadFile(files.CA)
	if err != nil {
		return nil, fmt.Errorf("read the authorities of etcd: %w", err)
	}
	if !config.RootCAs.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("read the authorities of etcd: %s contains no certificate in PEM", files.CA)
	}
	if files.Cert != "" {
		cert, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		if err != nil {
			return nil, fmt.Errorf("read the certificate for etcd %s: %w", files.Cert, err)
		}
		config.Certificates = []tls.Certificate{cert}
	}
	return config, nil
}

// identityConfig is for the etcd of a data center: its servers have certificates of the store, and are known by their
// role.
func (e *etcd) identityConfig(s *session) *tls.Config {
	cert, _ := e.o.Credentials()
	var chain []*x509.Certificate // of the server, from the only handshake on
	s.verify = func() error { return e.verifyServer(chain) }
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		Certificates:       []tls.Certificate{*cert},
		InsecureSkipVerify: true, // VerifyConnection verifies the chain, and who it belongs to
		VerifyConnection: func(state tls.ConnectionState) error {
			chain = state.PeerCertificates
			return e.verifyServer(chain)
		},
	}
}

// verifyServer returns why a certificate is not that of a server of this data center's etcd.
func (e *etcd) verifyServer(chain []*x509.Certificate) error {
	_, trust := e.o.Credentials()
	peer, err := trust.Verify(chain, time.Now(), x509.ExtKeyUsageServerAuth)
	if err != nil {
		return fmt.Errorf("the server is not trusted: %w", err)
	}
	if peer.Role != contract.RoleEtcd || peer.DataCenter != e.o.DataCenter {
		return fmt.Errorf("the server is not trusted: %s is not an etcd of data center %s", peer.Identity,
			e.o.DataCenter)
	}
	return nil
}
