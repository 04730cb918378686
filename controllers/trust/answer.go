package trust

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/causalstore/causalstore/authority"
	"github.com/causalstore/causalstore/contract"
)

// minLeafLife is the shortest validity of a certificate: with less, it would be late as soon as it is renewed.
const minLeafLife = LateAfter + renewAge

// maxAnswerBytes bounds what an issuer returns.
const maxAnswerBytes = 64 << 10

// readAnswer returns what the issuer has answered to a request, or a PendingError.
func (r *Requests) readAnswer(q *certificateRequest, live *unstructured.Unstructured,
	now time.Time) (*issuedCertificate, error) {
	what := fmt.Sprintf("CertificateRequest %s of namespace %s", live.GetName(), live.GetNamespace())
	ready, denied, invalid := conditionOf(live, "Ready"), conditionOf(live, "Denied"),
		conditionOf(live, "InvalidRequest")
	switch {
	case denied.status == "True":
		return nil, fmt.Errorf("%s was denied: %s", what, denied.text())
	case invalid.status == "True":
		return nil, fmt.Errorf("%s is invalid: %s", what, invalid.text())
	case ready.reason == "Failed" || ready.reason == "Denied":
		return nil, fmt.Errorf("%s has failed: %s", what, ready.text())
	case ready.status != "True":
		if ready.text() == "" && conditionOf(live, "Approved").status != "True" {
			return nil,
				&PendingError{
					fmt.Sprintf("%s has not been approved yet; see that an approver runs which may approve for %s",
						what, r.Issuer),
				}
		}
		return nil, &PendingError{fmt.Sprintf("%s is pending: %s", what, ready.text())}
	}
	chain, err := decodePEM(live, "certificate")
	if err != nil {
		return nil, fmt.Errorf("%s: status.certificate: %w", what, err)
	}
	ca, err := decodePEM(live, "ca")
	if err != nil {
		return nil, fmt.Errorf("%s: status.ca: %w", what, err)
	}
	answer, err := q.verify(chain, ca, now)
	if err != nil {
		return nil, fmt.Errorf("%s: the certificate of %s is not used: %w", what, r.Issuer, err)
	}
	return answer, nil
}

// condition is a condition of a request.
type condition struct{ status, reason, message string }

func (c condition) text() string {
	if c.message == "" {
		return c.reason
	}
	return c.message[:min(len(c.message), contract.MaxPeerText)]
}

func conditionOf(u *unstructured.Unstructured, kind string) (c condition) {
	all, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions") // malformed is as good as missing
	for _, one := range all {
		if m, ok := one.(map[string]any); ok && m["type"] == kind {
			c.status, _ = m["status"].(string)
			c.reason, _ = m["reason"].(string)
			c.message, _ = m["message"].(string)
		}
	}
	return c
}

// decodePEM returns the certificates in a field of the status.
func decodePEM(u *unstructured.Unstructured, field string) (all []*x509.Certificate, err error) {
	text, _, err := unstructured.NestedString(u.Object, "status", field)
	if err != nil {
		return nil, err
	}
	if len(text) > maxAnswerBytes {
		return nil, fmt.Errorf("it has more than %d bytes", maxAnswerBytes)
	}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// verify returns the certificate that a request is answered with, if it is exactly what was asked for.
func (q *certificateRequest) verify(chain, ca []*x509.Certificate, now time.Time) (*issuedCertificate, error) {
	if len(chain) == 0 {
		return nil, errors.New("there is none")
	}
	leaf := chain[0]
	if err := q.checkLeaf(leaf, now); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(append(slices.Clone(ca), chain[1:]...), func(c *x509.Certificate) bool {
		return leaf.CheckSignatureFrom(c) == nil
	})
	if i < 0 {
		return nil,
			errors.New(
				"neither status.ca nor the rest of status.certificate has the CA that has signed it; parts need one " +
					"that signs directly, without intermediates")
	}
	root := append(slices.Clone(ca), chain[1:]...)[i]
	if _, err := ParseBundle(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Raw})),
		q.id.TrustDomain); err != nil {
		return nil,
			fmt.Errorf(
				"its CA cannot be that of a region, which signs itself, may not make further CAs (path length 0), "+
					"and has one critical name constraint, for URIs: permitted %s: %w",
				q.id.TrustDomain, err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(root)
	for _, usage := range leafUsages {
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now,
			KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
			return nil, err
		}
	}
	key, err := authority.EncodeKey(q.key)
	if err != nil {
		return nil, err
	}
	return &issuedCertificate{leaf: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Raw}), key: key,
		notBefore: leaf.NotBefore, root: &Root{cert: root}}, nil
}

var leafUsages = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}

// checkLeaf returns what a certificate has that was not asked for.
func (q *certificateRequest) checkLeaf(leaf *x509.Certificate, now time.Time) error {
	key, isECDSA := leaf.PublicKey.(*ecdsa.PublicKey)
	usages := slices.Sorted(slices.Values(leaf.ExtKeyUsage))
	wanted := slices.Sorted(slices.Values(leafUsages))
	switch {
	case !isECDSA || !key.Equal(q.key.Public()):
		return errors.New("it is for another key")
	case len(leaf.URIs) != 1 || leaf.URIs[0].String() != q.id.String() ||
		len(leaf.DNSNames)+len(leaf.IPAddresses)+len(leaf.EmailAddresses) > 0:
		return fmt.Errorf(
			"its names are %v %v %v %v, and the only one that was asked for is %s; the issuer must allow URI SANs",
			leaf.URIs, leaf.DNSNames, leaf.IPAddresses, leaf.EmailAddresses, q.id)
	case leaf.IsCA:
		return errors.New("it is that of a CA")
	case leaf.KeyUsage&x509.KeyUsageDigitalSignature == 0 || !slices.Equal(usages, wanted) ||
		len(leaf.UnknownExtKeyUsage) > 0:
		return errors.New("its usages are not those that were asked for: digital signature, client auth, server auth")
	case now.Before(leaf.NotBefore) || !now.Before(leaf.NotAfter):
		return fmt.Errorf("it is valid from %s to %s", formatTime(leaf.NotBefore), formatTime(leaf.NotAfter))
	case leaf.NotAfter.Sub(now) > LeafLife+2*authority.Backdate:
		return fmt.Errorf(
			"it is valid until %s, longer than the %s that were asked for: an authority is withdrawn when its "+
				"certificates have expired", formatTime(leaf.NotAfter), LeafLife)
	case leaf.NotAfter.Sub(leaf.NotBefore) < minLeafLife:
		return fmt.Errorf(
			"it is valid for %s, and parts need %s or more; let the issuer grant the %s that were asked for",
			leaf.NotAfter.Sub(leaf.NotBefore), minLeafLife, LeafLife)
	}
	return nil
}
