package register

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/authority"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/e2e/etcdserver"
	"github.com/causalstore/causalstore/sidecar/identity"
)

const store = "7d1e"

// region issues certificates.
type region struct {
	t  *testing.T
	ca *authority.Authority
}

func newRegion(t *testing.T) *region {
	t.Helper()
	ca, err := authority.NewAuthority("eu.example", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return &region{t, ca}
}

// files are the names of the files of an identity and of the authority.
type files struct{ cert, key, ca string }

func (r *region) issue(id contract.Identity) files {
	r.t.Helper()
	id.TrustDomain = r.ca.TrustDomain()
	cert, key, err := r.ca.Issue(id, time.Now().Add(-authority.Backdate), time.Hour)
	if err != nil {
		r.t.Fatal(err)
	}
	dir := r.t.TempDir()
	f := files{filepath.Join(dir, "crt"), filepath.Join(dir, "key"), filepath.Join(dir, "ca")}
	for name, content := range map[string][]byte{f.cert: cert, f.key: key, f.ca: r.ca.CertificatePEM()} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
	return f
}

func etcdIdentity() contract.Identity {
	return contract.Identity{StoreID: store, DataCenter: "eu", Role: contract.RoleEtcd, Member: "0"}
}

func coordinatorIdentity() contract.Identity {
	return contract.Identity{StoreID: store, DataCenter: "eu", Role: contract.RoleCoordinator, Member: "0"}
}

// startSecured starts an etcd with the certificate of an identity, which wants certificates of the region.
func (r *region) startSecured(id contract.Identity) *etcdserver.Server {
	f := r.issue(id)
	return etcdserver.Start(r.t, "--cert-file", f.cert, "--key-file", f.key, "--trusted-ca-file", f.ca,
		"--client-cert-auth")
}

// credentials are those of a part that trusts the authorities of all the regions.
func (r *region) credentials(id contract.Identity, trusted ...*region) func() (*tls.Certificate, *identity.Trust) {
	r.t.Helper()
	f := r.issue(id)
	cert, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		r.t.Fatal(err)
	}
	domain, bundle := r.ca.TrustDomain(), ""
	for _, other := range append(trusted, r) {
		bundle += string(other.ca.CertificatePEM())
	}
	b, err := yaml.Marshal(contract.Trust{StoreID: store, DataCenters: map[string]string{"eu": domain, "us": domain},
		Bundles: map[string]string{domain: bundle}})
	if err != nil {
		r.t.Fatal(err)
	}
	trust, err := identity.ParseTrust(b)
	if err != nil {
		r.t.Fatal(err)
	}
	return func() (*tls.Certificate, *identity.Trust) { return &cert, trust }
}

func TestThePartsOfAStoreUseItsEtcdWithTheirCertificates(t *testing.T) {
	r := newRegion(t)
	s := r.startSecured(etcdIdentity())
	u := open(t, Options{DataCenter: "eu", Etcd: endpoints(s.Endpoint),
		Credentials: r.credentials(coordinatorIdentity())})
	u.mustSwap(config(1, 7))
	u.mustHold(config(1, 7))

	t.Run("nobody without a certificate", func(t *testing.T) {
		f := r.issue(etcdIdentity())
		c := endpoints(s.Endpoint)
		c.TLS = &contract.TLS{CA: f.ca}
		open(t, Options{DataCenter: "eu", Etcd: c}).mustBeRefused("certificate")
	})
	t.Run("nobody of another authority", func(t *testing.T) {
		other := newRegion(t)
		open(t, Options{DataCenter: "eu", Etcd: endpoints(s.Endpoint),
			Credentials: other.credentials(coordinatorIdentity(), r)}).mustBeRefused("remote error: tls")
	})
	t.Run("nobody without TLS", func(t *testing.T) { connect(t, s).mustBeRefused("no connection") })
}

func TestAServerThatIsNoEtcdOfTheDataCenterIsRefused(t *testing.T) {
	r := newRegion(t)
	for what, c := range map[string]struct {
		change func(*contract.Identity)
		reason string
	}{
		"a part": {func(id *contract.Identity) {
			id.Role = contract.RoleMiddleman
		}, "is not an etcd of data center eu"},
		"another data center": {func(id *contract.Identity) {
			id.DataCenter = "us"
		}, "is not an etcd of data center eu"},
		"another store": {func(id *contract.Identity) { id.StoreID = "other" }, "is of another store"},
	} {
		t.Run(what, func(t *testing.T) {
			id := etcdIdentity()
			c.change(&id)
			r := &region{t, r.ca}
			s := r.startSecured(id)
			open(t, Options{DataCenter: "eu", Etcd: endpoints(s.Endpoint),
				Credentials: r.credentials(coordinatorIdentity())}).mustBeRefused(c.reason)
		})
	}
	t.Run("another authority", func(t *testing.T) {
		s := newRegion(t).startSecured(etcdIdentity())
		open(t, Options{DataCenter: "eu", Etcd: endpoints(s.Endpoint),
			Credentials: r.credentials(coordinatorIdentity())}).mustBeRefused("not trusted")
	})
}

// TestAnEtcdWithOtherCertificatesIsKnownByItsName uses certificates with host names, which no part of a store has.
func TestAnEtcdWithOtherCertificatesIsKnownByItsName(t *testing.T) {
	server, client, ca := namedCertificates(t, "etcd.example")
	s := etcdserver.Start(t, "--cert-file", server.cert, "--key-file", server.key, "--trusted-ca-file", ca,
		"--client-cert-auth")
	c := endpoints(s.Endpoint)
	c.TLS = &contract.TLS{CA: ca, Cert: client.cert, Key: client.key, ServerName: "etcd.example"}
	u := open(t, Options{DataCenter: "eu", Etcd: c})
	u.mustSwap(config(1, 7))

	c.TLS = &contract.TLS{CA: ca, Cert: client.cert, Key: client.key, ServerName: "other.example"}
	open(t, Options{DataCenter: "eu", Etcd: c}).mustBeRefused("not other.example")
}
