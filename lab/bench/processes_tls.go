package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/authority"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/topology"
)

// benchStore is the id of the store in certificates and names of parts.
const benchStore = "bench"

// regions are the authorities of data centers that are a region each. A nil one issues nothing.
type regions struct {
	trustFile   string
	authorities map[string]*authority.Authority // by data center
}

// newRegions makes an authority for each data center, and the trust file that all parts share.
func newRegions(t topology.File, trustFile string) (*regions, error) {
	r := &regions{trustFile: trustFile, authorities: map[string]*authority.Authority{}}
	trust := contract.Trust{StoreID: benchStore, DataCenters: map[string]string{}, Bundles: map[string]string{}}
	for _, dc := range t.DataCenters {
		a, err := authority.NewAuthority(dc.Name+".bench", time.Now())
		if err != nil {
			return nil, err
		}
		r.authorities[dc.Name] = a
		trust.DataCenters[dc.Name], trust.Bundles[a.TrustDomain()] = a.TrustDomain(), string(a.CertificatePEM())
	}
	text, err := yaml.Marshal(trust)
	if err == nil {
		err = os.WriteFile(trustFile, text, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("write the trust file: %w", err)
	}
	return r, nil
}

// issue makes the certificate and key of a part or edge, in PEM.
func (r *regions) issue(dc string, role contract.Role, member string) (certificate, key []byte, err error) {
	a := r.authorities[dc]
	id := contract.Identity{TrustDomain: a.TrustDomain(), StoreID: benchStore, DataCenter: dc, Role: role,
		Member: member}
	return a.Issue(id, time.Now().Add(-authority.Backdate), authority.Backdate+24*time.Hour)
}

// credentials writes the certificate of a part to its folder, and returns its TLS configuration.
func (r *regions) credentials(dir, dc, part string, index int) (*contract.LinkTLS, error) {
	if r == nil {
		return nil, nil
	}
	member := strconv.Itoa(index)
	if part == "sidecar" {
		member = "apps"
	}
	certificate, key, err := r.issue(dc, contract.Role(part), member)
	if err != nil {
		return nil, err
	}
	t := &contract.LinkTLS{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), Trust: r.trustFile}
	return t, errors.Join(os.WriteFile(t.Cert, certificate, 0o600), os.WriteFile(t.Key, key, 0o600))
}
