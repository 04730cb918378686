package contract

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// Role is what the owner of a certificate may do on links.
type Role string

// The roles. Sidecars include fronts.
const (
	RoleCoordinator Role = "coordinator"
	RoleMiddleman   Role = "middleman"
	RoleCache       Role = "cache"
	RoleSidecar     Role = "sidecar"
	RoleEdge        Role = "edge"
	RoleOperator    Role = "operator"
	// RoleEtcd is a server of an etcd that holds the register of a data center and is run by hand: those of the
	// operator have authorities of their own. It takes no part in links.
	RoleEtcd Role = "etcd"
)

var roles = []Role{RoleCoordinator, RoleMiddleman, RoleCache, RoleSidecar, RoleEdge, RoleOperator, RoleEtcd}

// Identity is who a certificate speaks for. The certificate carries it as its only URI:
//
//	spiffe://<TrustDomain>/<StoreID>/dc/<DataCenter>/<Role>/<Member>
type Identity struct {
	// TrustDomain names the authority of a region. Its bundle alone verifies the certificate.
	TrustDomain string
	// StoreID is the spec.id of the store.
	StoreID    string
	DataCenter string
	Role       Role
	// Member is the index of a coordinator, middleman, cache, edge or etcd server; the namespace of the pod with a
	// sidecar; the name of an operator.
	Member string
}

// URI returns the identity in the form of certificates.
func (id Identity) URI() *url.URL {
	return &url.URL{Scheme: "spiffe", Host: id.TrustDomain,
		Path: "/" + strings.Join([]string{id.StoreID, "dc", id.DataCenter, string(id.Role), id.Member}, "/")}
}

// String returns the URI.
func (id Identity) String() string { return id.URI().String() }

// ParseIdentity reads the URI of a certificate. It accepts exactly what URI returns.
func ParseIdentity(u *url.URL) (Identity, error) {
	segments := strings.Split(strings.TrimPrefix(u.Path, "/"), "/")
	if len(segments) != 5 {
		return Identity{}, fmt.Errorf("%q is not spiffe://<trust domain>/<store>/dc/<data center>/<role>/<member>", u)
	}
	id := Identity{TrustDomain: u.Host, StoreID: segments[0], DataCenter: segments[2], Role: Role(segments[3]),
		Member: segments[4]}
	switch {
	case id.String() != u.String() || id.TrustDomain == "" || slices.Contains(segments, ""):
		return Identity{}, fmt.Errorf("%q is not spiffe://<trust domain>/<store>/dc/<data center>/<role>/<member>", u)
	case !slices.Contains(roles, id.Role):
		return Identity{}, fmt.Errorf("%q has the role %q; the roles are %v", u, id.Role, roles)
	case id.isIndexed() && !isIndex(id.Member):
		return Identity{}, fmt.Errorf("%q: the member of a %s is its index", u, id.Role)
	}
	return id, nil
}

func (id Identity) isIndexed() bool {
	return slices.Contains([]Role{RoleCoordinator, RoleMiddleman, RoleCache, RoleEtcd}, id.Role)
}

// isIndex reports whether s is an index in its only form, without sign or leading zeros.
func isIndex(s string) bool {
	n, err := strconv.ParseUint(s, 10, 32)
	return err == nil && strconv.FormatUint(n, 10) == s
}

// RootDigest identifies an authority where people need not compare it: by the first 8 bytes of the SHA-256 of its
// certificate.
func RootDigest(c *x509.Certificate) uint64 {
	sum := sha256.Sum256(c.Raw)
	return binary.BigEndian.Uint64(sum[:])
}

// FormatRoot returns a digest as the first 16 digits of the fingerprint of the authority.
func FormatRoot(digest uint64) string { return fmt.Sprintf("%016x", digest) }

// Trust says whose certificates a part accepts. It is public, and changes while parts run.
type Trust struct {
	// StoreID must be that of every certificate.
	StoreID string `json:"storeID"`
	// DataCenters gives the trust domain of each data center: a certificate of another one does not speak for it.
	DataCenters map[string]string `json:"dataCenters"`
	// Bundles are the authorities of each trust domain, as certificates in PEM.
	Bundles map[string]string `json:"bundles"`
}

// ParseTrust reads a trust file in YAML or JSON. It refuses unknown fields, which are most likely misspelled.
func ParseTrust(b []byte) (*Trust, error) {
	var t Trust
	if err := yaml.UnmarshalStrict(b, &t); err != nil {
		return nil, err
	}
	if t.StoreID == "" || len(t.DataCenters) == 0 {
		return nil, errors.New("storeID and dataCenters are required")
	}
	return &t, nil
}
