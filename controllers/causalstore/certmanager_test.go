package causalstore_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/authority"
	"github.com/causalstore/causalstore/controllers/trust"
	"github.com/causalstore/causalstore/e2e/apiserver"
	"github.com/causalstore/causalstore/lab/ports"
)

// startCertManager starts the controller of cert-manager for the namespace of a test: what signs with the key in a
// Secret, and what approves.
func (k *cluster) startCertManager(program string) {
	k.t.Helper()
	metrics := ports.ForTest(k.t)
	name := filepath.Join(k.t.TempDir(), "cert-manager.log")
	log, err := os.Create(name)
	if err != nil {
		k.t.Fatal(err)
	}
	cmd := exec.Command(program, "--kubeconfig="+apiserver.Kubeconfig(k.t), "--namespace="+k.namespace,
		"--leader-elect=false", "--metrics-listen-address="+metrics,
		"--controllers=issuers,certificaterequests-approver,certificaterequests-issuer-ca")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended already
		_ = cmd.Wait()         // it says that it was killed
		_ = log.Close()
		if b, err := os.ReadFile(name); k.t.Failed() && err == nil {
			k.t.Logf("end of the log of cert-manager:\n%s", b[max(0, len(b)-5000):])
		}
	})
}

// setCA writes the CA of the issuer.
func (k *cluster) setCA(ca *authority.Authority) {
	k.t.Helper()
	key, err := ca.KeyPEM()
	if err != nil {
		k.t.Fatal(err)
	}
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: "region-ca"},
		Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: ca.CertificatePEM(), corev1.TLSPrivateKeyKey: key}}
	if k.exists(s.Name, &corev1.Secret{}) {
		err = k.client.Update(k.t.Context(), s)
	} else {
		err = k.client.Create(k.t.Context(), s)
	}
	if err != nil {
		k.t.Fatal(err)
	}
}

// TestCertManagerIssuesTheCertificatesOfParts runs the controller of cert-manager, with a CA Issuer.
func TestCertManagerIssuesTheCertificatesOfParts(t *testing.T) {
	program := apiserver.CertManager(t)
	k := newIssuerCluster(t)
	k.prober = k.parts
	k.startCertManager(program)
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.await("the missing issuer to be named", func() (bool, string) {
		is := k.awaitCondition("try", v1alpha1.ConditionCertificatesCurrent, no,
			v1alpha1.ReasonCertificatesNotRenewed).Message
		return strings.Contains(is, "is pending: ") && strings.Contains(is, `"region-ca" not found`), is
	})
	first := k.newAuthority()
	k.setCA(first)
	issuer := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "cert-manager.io/v1", "kind": "Issuer",
		"metadata": map[string]any{"namespace": k.namespace, "name": "region-ca"},
		"spec":     map[string]any{"ca": map[string]any{"secretName": "region-ca"}}}}
	k.create(issuer)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.awaitCondition("try", v1alpha1.ConditionCertificatesCurrent, yes, v1alpha1.ReasonCertificatesRenewed)
	known := k.trustOf("try-here")
	for secret, name := range map[string]string{"try-here-coordinator-tls": "0", "try-here-cache-tls": "0",
		"try-here-middleman-tls": "1", "try-here-sidecar-tls": "tls"} {
		if err := k.certificate(secret, name, known).CheckSignatureFrom(first.Certificate()); err != nil {
			t.Errorf("%s: %v", secret, err)
		}
	}
	k.awaitNoRequests()

	// The CA is replaced in cert-manager.
	r := &rotation{cluster: k, name: "authority-local"}
	before, second := trust.Fingerprint(first.Certificate()), k.newAuthority()
	after := trust.Fingerprint(second.Certificate())
	k.parts.accept(before, "here")
	k.setCA(second)
	k.clock.ahead.Store(int64(2 * time.Hour)) // the issuer is asked every hour
	r.await(trust.FieldNext, after)
	r.await(trust.FieldWaiting, "does not accept it yet")
	k.await("both CAs in the trust file", func() (bool, string) {
		n := strings.Count(k.trustOf("try-here").Bundles[issuerDomain], "BEGIN")
		return n == 2, fmt.Sprint(n)
	})
	if err := k.certificate("try-here-coordinator-tls", "0",
		k.trustOf("try-here")).CheckSignatureFrom(first.Certificate()); err != nil {
		t.Errorf("the certificate of the new CA is used before it is accepted: %v", err)
	}
	k.parts.forget()
	k.parts.accept(before+" "+after, "here")
	r.await(trust.FieldIssuing, after)
	k.await("certificates of the new CA", func() (bool, string) {
		return k.certificate("try-here-coordinator-tls", "0",
			k.trustOf("try-here")).CheckSignatureFrom(second.Certificate()) == nil, "it is of the old one"
	})
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.awaitNoRequests()
}
