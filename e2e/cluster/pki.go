//go:build linux

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// authority signs the certificates of a cluster.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

const validity = 365 * 24 * time.Hour

// makeCertificates writes all keys, certificates and kubeconfigs unless they exist. The API server has the given port
// on the host.
func (b *bed) makeCertificates(port int) error {
	if _, err := os.Stat(b.kubeconfig()); err == nil {
		return nil
	}
	if err := os.MkdirAll(b.file("pki"), 0o700); err != nil {
		return err
	}
	ca, err := b.newAuthority()
	if err != nil {
		return err
	}
	if err := b.newServiceAccountKey(); err != nil {
		return err
	}
	server := &x509.Certificate{Subject: pkix.Name{CommonName: "kube-apiserver"},
		DNSNames: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc.cluster.local"},
		IPAddresses: []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP(b.Network.controlPlane()),
			net.ParseIP(b.Network.api())}}
	if _, _, err := b.issue(ca, "apiserver", server); err != nil {
		return err
	}
	inside, outside := "https://"+b.Network.controlPlane()+":6443", fmt.Sprintf("https://127.0.0.1:%d", port)
	users := []struct{ file, server, name, group string }{
		{b.pki("controller-manager.kubeconfig"), inside, "system:kube-controller-manager", ""},
		{b.pki("scheduler.kubeconfig"), inside, "system:kube-scheduler", ""},
		{b.pki("proxy.kubeconfig"), inside, "system:kube-proxy", ""},
		{b.pki("admin.kubeconfig"), inside, "admin", "system:masters"},
	}
	for _, n := range b.Nodes {
		users = append(users, struct{ file, server, name, group string }{b.pki(n.Name + ".kubeconfig"), inside,
			"system:node:" + n.Name, "system:nodes"})
	}
	// Written last: its presence marks a complete set.
	users = append(users, struct{ file, server, name, group string }{b.kubeconfig(), outside, "admin",
		"system:masters"})
	for _, u := range users {
		if err := b.writeKubeconfig(ca, u.file, u.server, u.name, u.group); err != nil {
			return err
		}
	}
	return nil
}

// writeKubeconfig writes a kubeconfig with a certificate of a user.
func (b *bed) writeKubeconfig(ca *authority, file, server, name, group string) error {
	subject := pkix.Name{CommonName: name}
	if group != "" {
		subject.Organization = []string{group}
	}
	cert, key, err := b.issue(ca, name, &x509.Certificate{Subject: subject})
	if err != nil {
		return err
	}
	c := api.NewConfig()
	c.Clusters["causalstore"] = &api.Cluster{Server: server, CertificateAuthorityData: ca.pem}
	c.AuthInfos[name] = &api.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	c.Contexts["causalstore"] = &api.Context{Cluster: "causalstore", AuthInfo: name}
	c.CurrentContext = "causalstore"
	return clientcmd.WriteToFile(*c, file)
}

func (b *bed) newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test-bed"}, IsCA: true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Minute),
		NotAfter: time.Now().Add(validity)}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, err
	}
	if t, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	ca := &authority{t, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
	_, _, err = b.write("ca", der, key)
	return ca, err
}

// issue signs a certificate for servers and clients and writes it with its key.
func (b *bed) issue(ca *authority, name string, t *x509.Certificate) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if t.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		return nil, nil, err
	}
	t.NotBefore, t.NotAfter = time.Now().Add(-time.Minute), time.Now().Add(validity)
	t.KeyUsage, t.ExtKeyUsage = x509.KeyUsageDigitalSignature,
		[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, t, ca.cert, private.Public(), ca.key)
	if err != nil {
		return nil, nil, err
	}
	return b.write(name, der, private)
}

func (b *bed) write(name string, der []byte, private *ecdsa.PrivateKey) (cert, key []byte, err error) {
	cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	text, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	key = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: text})
	if err := os.WriteFile(b.pki(name+".crt"), cert, 0o644); err != nil {
		return nil, nil, err
	}
	return cert, key, os.WriteFile(b.pki(name+".key"), key, 0o600)
}

// newServiceAccountKey writes the key with which the API server signs tokens.
func (b *bed) newServiceAccountKey() error {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	text, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return err
	}
	return os.WriteFile(b.pki("service-accounts.key"),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: text}), 0o600)
}
