package contract_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/lab/credentials"
)

func rsaKey(t *testing.T, bits int) crypto.Signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func curveKey(t *testing.T, c elliptic.Curve) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(c, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func authorityWith(t *testing.T, name string, key crypto.Signer, by *tls.Certificate) *tls.Certificate {
	t.Helper()
	return credentials.Sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, key, by)
}

func leafOf(t *testing.T, key crypto.Signer, by *tls.Certificate) *tls.Certificate {
	t.Helper()
	return credentials.Sign(t, &x509.Certificate{DNSNames: []string{"leaf"}}, key, by)
}

// verify verifies a chain up to a root.
func verify(root *tls.Certificate, chain ...*tls.Certificate) error {
	o := x509.VerifyOptions{Roots: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	o.Roots.AddCert(root.Leaf)
	var sent []*x509.Certificate
	for _, c := range chain {
		sent = append(sent, c.Leaf)
	}
	_, err := contract.VerifyChain(sent, o)
	return err
}

func TestWeakKeysAreRefusedAndWhy(t *testing.T) {
	p256 := elliptic.P256()
	root := authorityWith(t, "root", curveKey(t, p256), nil)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsa1024, p224 := rsaKey(t, 1024), curveKey(t, elliptic.P224())
	rsaRoot := authorityWith(t, "RSA", rsaKey(t, 2048), nil)
	weakRoot, weakBetween := authorityWith(t, "weak root", rsa1024, nil), authorityWith(t, "weak between", p224, root)
	for name, c := range map[string]struct {
		root  *tls.Certificate
		chain []*tls.Certificate
		want  string
	}{
		"ECDSA P-256":        {root, []*tls.Certificate{leafOf(t, curveKey(t, p256), root)}, ""},
		"ECDSA P-384":        {root, []*tls.Certificate{leafOf(t, curveKey(t, elliptic.P384()), root)}, ""},
		"Ed25519":            {root, []*tls.Certificate{leafOf(t, ed, root)}, ""},
		"RSA with 2048 bits": {root, []*tls.Certificate{leafOf(t, rsaKey(t, 2048), root)}, ""},
		"RSA with 1024 bits": {root, []*tls.Certificate{leafOf(t, rsa1024, root)},
			"its RSA key has 1024 bits, and 2048 are the least"},
		"ECDSA P-224": {root, []*tls.Certificate{leafOf(t, p224, root)},
			"on the curve P-224, which is too weak"},
		"below a weak authority": {weakRoot, []*tls.Certificate{leafOf(t, curveKey(t, p256), weakRoot)},
			`signed by an authority that is too weak, "CN=weak root": its RSA key has 1024 bits`},
		"below a weak one in between": {root, []*tls.Certificate{leafOf(t, curveKey(t, p256), weakBetween),
			weakBetween}, `signed by an authority that is too weak, "CN=weak between"`},
		"a signature with SHA-1": {rsaRoot,
			[]*tls.Certificate{credentials.Sign(t,
				&x509.Certificate{DNSNames: []string{"leaf"}, SignatureAlgorithm: x509.SHA1WithRSA},
				curveKey(t, p256), rsaRoot)}, "insecure algorithm SHA1-RSA"},
	} {
		switch err := verify(c.root, c.chain...); {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

func TestAChainIsShortAndAllOfItIsOfUse(t *testing.T) {
	key := func() crypto.Signer { return curveKey(t, elliptic.P256()) }
	root := authorityWith(t, "root", key(), nil)
	first := authorityWith(t, "first", key(), root)
	second := authorityWith(t, "second", key(), first)
	direct, below := leafOf(t, key(), root), leafOf(t, key(), second)
	junk := credentials.Named(t, 10)
	namesake := authorityWith(t, "root", key(), nil)
	for name, c := range map[string]struct {
		chain []*tls.Certificate
		want  string
	}{
		"signed by the root":         {[]*tls.Certificate{direct}, ""},
		"with the root":              {[]*tls.Certificate{direct, root}, ""},
		"with two intermediate ones": {[]*tls.Certificate{below, second, first}, ""},
		"in another order":           {[]*tls.Certificate{below, first, root, second}, ""},
		"nothing":                    {nil, "has sent no certificate"},
		"without one in between":     {[]*tls.Certificate{below, second}, "unknown authority"},
		"five": {[]*tls.Certificate{below, second, first, root, root},
			"has sent 5 certificates, and a chain may have 4"},
		"with one that is of no use": {[]*tls.Certificate{direct, junk},
			`has sent the certificate of "CN=nobody", which does not lead to an authority`},
		"with an authority of no use": {[]*tls.Certificate{direct, first},
			`has sent the certificate of "CN=first"`},
		"with a namesake of the root": {[]*tls.Certificate{direct, namesake},
			`has sent the certificate of "CN=root"`},
		"with a leaf of the same root": {[]*tls.Certificate{direct, leafOf(t, key(), root)},
			`has sent the certificate of ""`},
		"of another root, with this root": {[]*tls.Certificate{leafOf(t, key(), namesake), root}, "unknown authority"},
	} {
		switch err := verify(root, c.chain...); {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}
