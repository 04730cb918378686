//go:build linux

package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func certificate(t *testing.T, text []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatalf("no PEM: %s", text)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTheAPIServerAndItsUsersTrustEachOther(t *testing.T) {
	b := newTestBed(t)
	if err := b.makeCertificates(portAPI); err != nil {
		t.Fatal(err)
	}
	authority := x509.NewCertPool()
	authority.AddCert(certificate(t, read(t, b.pki("ca.crt"))))
	server := certificate(t, read(t, b.pki("apiserver.crt")))
	for _, name := range []string{"127.0.0.1", b.Network.controlPlane(), b.Network.api(), "kubernetes.default.svc"} {
		if _, err := server.Verify(x509.VerifyOptions{Roots: authority, DNSName: name}); err != nil {
			t.Errorf("the API server as %s: %v", name, err)
		}
	}
	for file, want := range map[string]string{b.kubeconfig(): "admin", b.pki("node-6.kubeconfig"): "system:node:node-6",
		b.pki("scheduler.kubeconfig"): "system:kube-scheduler"} {
		c, err := clientcmd.BuildConfigFromFlags("", file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tls.X509KeyPair(c.CertData, c.KeyData); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		user := certificate(t, c.CertData)
		if user.Subject.CommonName != want {
			t.Errorf("%s belongs to %s, want %s", file, user.Subject.CommonName, want)
		}
		if _, err := user.Verify(x509.VerifyOptions{Roots: authority,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestCertificatesSurviveARestart(t *testing.T) {
	b := newTestBed(t)
	if err := b.makeCertificates(portAPI); err != nil {
		t.Fatal(err)
	}
	before := read(t, b.pki("ca.crt"))
	if err := b.makeCertificates(portAPI); err != nil {
		t.Fatal(err)
	}
	if string(before) != string(read(t, b.pki("ca.crt"))) {
		t.Error("a restarted cluster has a new certificate authority")
	}
}
