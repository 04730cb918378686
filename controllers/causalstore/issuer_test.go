package causalstore_test

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/authority"
	"github.com/causalstore/causalstore/controllers/trust"
	"github.com/causalstore/causalstore/e2e/apiserver"
)

const issuerDomain = "local.example.com"

// newIssuerCluster is a cluster whose operators have the issuer "region-ca", with the rights that the chart gives them
// for it.
func newIssuerCluster(t *testing.T) *cluster {
	k := newCluster(t)
	apiserver.InstallCertManagerCRDs(t, filepath.Join("testdata", "certmanager"))
	k.issuer, k.trustDomain = "region-ca", issuerDomain
	k.create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: "issuer"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"cert-manager.io"}, Resources: []string{"certificaterequests"},
			Verbs: []string{"get", "list", "create", "delete"}}}})
	k.create(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: "issuer"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "issuer"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: operatorUser}}})
	return k
}

func (k *cluster) requests() []unstructured.Unstructured {
	k.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("cert-manager.io/v1")
	list.SetKind("CertificateRequestList")
	if err := k.client.List(k.t.Context(), list, client.InNamespace(k.namespace)); err != nil &&
		k.t.Context().Err() == nil {
		k.t.Error(err)
	}
	return list.Items
}

func (k *cluster) awaitNoRequests() {
	k.t.Helper()
	k.await("requests to be deleted", func() (bool, string) {
		n := len(k.requests())
		return n == 0, fmt.Sprint(n)
	})
}

// answer is what a fake issuer makes of a request.
type answer struct {
	leaf x509.Certificate
	key  crypto.PublicKey
	by   *authority.Authority
	// condition and reason are those of the request; an empty condition is Ready.
	condition, reason, message string
}

// fakeIssuer answers the requests of a cluster as a test wants.
type fakeIssuer struct {
	*cluster
	mu     sync.Mutex
	change func(*answer)
	by     *authority.Authority
}

func (k *cluster) newAuthority() *authority.Authority {
	k.t.Helper()
	a, err := authority.NewAuthority(issuerDomain, time.Now())
	if err != nil {
		k.t.Fatal(err)
	}
	return a
}

// startIssuer starts a fake issuer, which is honest.
func (k *cluster) startIssuer() *fakeIssuer {
	f := &fakeIssuer{cluster: k, by: k.newAuthority(), change: func(*answer) {}}
	request := &unstructured.Unstructured{}
	request.SetAPIVersion("cert-manager.io/v1")
	request.SetKind("CertificateRequest")
	_, changed := k.watch(request)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			case <-k.t.Context().Done():
				return
			case <-changed:
			}
			for _, u := range k.requests() {
				if _, found, _ := unstructured.NestedSlice(u.Object, "status", "conditions"); !found {
					f.answer(&u)
				}
			}
		}
	}()
	k.t.Cleanup(func() { close(stop); <-ended })
	return f
}

// behave changes what the issuer does, and makes it answer all requests again.
func (f *fakeIssuer) behave(change func(*answer)) {
	f.mu.Lock()
	f.change = change
	f.mu.Unlock()
	for _, u := range f.requests() {
		if err := client.IgnoreNotFound(f.client.Delete(f.t.Context(), &u)); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *fakeIssuer) answer(u *unstructured.Unstructured) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, _, _ := unstructured.NestedString(u.Object, "spec", "request")
	der, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		f.t.Error(err)
		return
	}
	block, _ := pem.Decode(der)
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || csr.CheckSignature() != nil {
		f.t.Errorf("a malformed request: %v", err)
		return
	}
	now := f.clock.now()
	a := &answer{key: csr.PublicKey, by: f.by, condition: "Ready",
		leaf: x509.Certificate{URIs: csr.URIs, NotBefore: now.Add(-time.Second), NotAfter: now.Add(trust.LeafLife),
			KeyUsage:    x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}}
	f.change(a)
	status := map[string]any{}
	is := "True"
	if a.reason != "" {
		if a.condition == "Ready" {
			is = "False"
		}
	} else {
		a.reason = "Issued"
		key, err := a.by.KeyPEM()
		if err != nil {
			f.t.Error(err)
			return
		}
		pair, err := tls.X509KeyPair(a.by.CertificatePEM(), key)
		if err != nil {
			f.t.Error(err)
			return
		}
		leaf, err := x509.CreateCertificate(rand.Reader, &a.leaf, a.by.Certificate(), a.key, pair.PrivateKey)
		if err != nil {
			f.t.Error(err)
			return
		}
		status["certificate"] = base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
			Bytes: leaf}))
		status["ca"] = base64.StdEncoding.EncodeToString(f.by.CertificatePEM())
	}
	status["conditions"] = []any{map[string]any{"type": a.condition, "status": is, "reason": a.reason,
		"message": a.message}}
	u.Object["status"] = status
	if err := f.client.Status().Update(f.t.Context(), u); client.IgnoreNotFound(err) != nil &&
		!apierrors.IsConflict(err) && f.t.Context().Err() == nil {
		f.t.Error(err)
	}
}

func TestAnIssuerSignsTheCertificatesOfParts(t *testing.T) {
	k := newIssuerCluster(t)
	k.prober = k.parts
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	c := k.awaitCondition("try", v1alpha1.ConditionCertificatesCurrent, no, v1alpha1.ReasonCertificatesNotRenewed)
	if !strings.Contains(c.Message, "the region has no authority yet: CertificateRequest authority-local-") ||
		!strings.Contains(c.Message, "has not been approved yet") && !strings.Contains(c.Message, "waits for") {
		t.Error(c.Message)
	}
	f := k.startIssuer()
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.awaitCondition("try", v1alpha1.ConditionCertificatesCurrent, yes, v1alpha1.ReasonCertificatesRenewed)
	known := k.trustOf("try-here")
	if known.Bundles[issuerDomain] != string(f.by.CertificatePEM()) {
		t.Error("parts trust something else than the CA of the issuer")
	}
	was := k.certificate("try-here-coordinator-tls", "0", known)
	k.certificate("try-here-middleman-tls", "1", known)
	k.awaitNoRequests()
	k.clock.ahead.Store(int64(25 * time.Hour))
	k.touch("try")
	k.await("a request that is held back until every clock accepts its certificate", func() (bool, string) {
		message := k.awaitCondition("try", v1alpha1.ConditionCertificatesCurrent, yes,
			v1alpha1.ReasonCertificatesRenewed).Message
		return strings.Contains(message, "when it is valid by every clock"), message
	})
	if !k.certificate("try-here-coordinator-tls", "0", known).Equal(was) {
		t.Error("a certificate is used that a machine whose clock is late refuses")
	}
	k.clock.ahead.Store(int64(25*time.Hour + 11*time.Minute))
	k.await("renewal", func() (bool, string) {
		return !k.certificate("try-here-coordinator-tls", "0", known).Equal(was), "it is the old one"
	})
	k.awaitNoRequests()

	// The CA of the issuer is replaced: it is published, and used when it is accepted.
	r := &rotation{cluster: k, name: "authority-local"}
	first := r.field(trust.FieldIssuing)
	k.parts.accept(first, "here")
	f.mu.Lock()
	f.by = k.newAuthority()
	next := trust.Fingerprint(f.by.Certificate())
	f.mu.Unlock()
	k.clock.ahead.Store(int64(27 * time.Hour)) // it is asked every hour
	r.await(trust.FieldNext, next)
	r.await(trust.FieldWaiting, "does not accept it yet")
	was = k.certificate("try-here-coordinator-tls", "0", k.trustOf("try-here"))
	k.clock.ahead.Store(int64(60 * time.Hour))
	k.touch("try")
	k.await("renewed certificates to wait", func() (bool, string) {
		waits := k.awaitCondition("try", v1alpha1.ConditionCertificatesCurrent, yes, v1alpha1.ReasonAuthorityRotating)
		return len(k.requests()) >= 5, fmt.Sprint(len(k.requests()), " ", waits.Message)
	})
	if !k.certificate("try-here-coordinator-tls", "0", k.trustOf("try-here")).Equal(was) {
		t.Error("a certificate of a CA is used that is not accepted yet")
	}
	k.clock.ahead.Store(int64(60*time.Hour + 11*time.Minute))
	k.parts.forget()
	k.parts.accept(first+" "+next, "here")
	r.await(trust.FieldIssuing, next)
	k.await("certificates of the new CA", func() (bool, string) {
		return k.certificate("try-here-coordinator-tls", "0",
			k.trustOf("try-here")).CheckSignatureFrom(f.by.Certificate()) == nil, "it is of the old one"
	})
	k.awaitInTime("requests to be deleted", func() (bool, string) {
		n := len(k.requests())
		return n == 0, fmt.Sprint(n)
	})
}

// awaitInTime waits for something that happens when some of the operators' time has passed.
func (k *cluster) awaitInTime(what string, done func() (bool, string)) {
	k.t.Helper()
	passed := time.Now()
	k.await(what, func() (bool, string) {
		if time.Since(passed) > 2*time.Second {
			passed = time.Now()
			k.clock.ahead.Add(int64(11 * time.Minute))
			k.touch("try")
		}
		return done()
	})
}

func TestWhatAnIssuerAnswersIsUsedOnlyIfItIsWhatWasAskedFor(t *testing.T) {
	k := newIssuerCluster(t)
	f := k.startIssuer()
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.awaitCondition("try", v1alpha1.ConditionCertificatesCurrent, yes, v1alpha1.ReasonCertificatesRenewed)
	known := k.trustOf("try-here")
	k.awaitNoRequests()
	other, err := authority.NewAuthority("other.example.com", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	otherKey, err := other.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(other.CertificatePEM(), otherKey)
	if err != nil {
		t.Fatal(err)
	}
	ahead := 25 * time.Hour
	for name, c := range map[string]struct {
		change func(*answer)
		says   string
	}{
		"another key": {func(a *answer) { a.key = pair.PrivateKey.(crypto.Signer).Public() }, "it is for another key"},
		"another name": {func(a *answer) {
			a.leaf.URIs = []*url.URL{{Scheme: "spiffe", Host: issuerDomain, Path: "/x/dc/here/cache/0"}}
		}, "must allow URI SANs"},
		"no URI": {func(a *answer) {
			a.leaf.URIs, a.leaf.DNSNames = nil,
				[]string{"shop.example.com"}
		}, "its names are [] [shop.example.com]"},
		"one more name": {func(a *answer) { a.leaf.DNSNames = []string{"shop.example.com"} }, "[shop.example.com]"},
		"expired": {func(a *answer) {
			a.leaf.NotBefore, a.leaf.NotAfter = a.leaf.NotBefore.Add(-30*24*time.Hour), a.leaf.NotBefore.Add(-time.Hour)
		}, "it is valid from"},
		"valid for too long": {func(a *answer) {
			a.leaf.NotAfter = a.leaf.NotAfter.Add(24 * time.Hour)
		}, "longer than the 168h"},
		"valid for too short": {func(a *answer) {
			a.leaf.NotAfter = a.leaf.NotBefore.Add(24 * time.Hour)
		}, "parts need 96h"},
		"for servers only": {func(a *answer) {
			a.leaf.ExtKeyUsage = a.leaf.ExtKeyUsage[:1]
		}, "its usages are not those"},
		"of another CA": {func(a *answer) { a.by = k.newAuthority() }, "parts need one that signs directly"},
		"a CA": {func(a *answer) {
			a.leaf.IsCA, a.leaf.BasicConstraintsValid = true,
				true
		}, "it is that of a CA"},
		"denied": {func(a *answer) {
			a.condition, a.reason, a.message = "Denied", "Policy",
				"not on Sundays"
		}, "was denied: not on Sundays"},
		"failed": {func(a *answer) {
			a.reason, a.message = "Failed",
				"the vault is sealed"
		}, "has failed: the vault is sealed"},
	} {
		was := k.certificate("try-here-cache-tls", "0", known)
		f.behave(c.change)
		k.clock.ahead.Store(int64(ahead))
		k.touch("try")
		k.await(name+" to be refused", func() (bool, string) {
			is := k.awaitCondition("try", v1alpha1.ConditionCertificatesCurrent, no,
				v1alpha1.ReasonCertificatesNotRenewed).Message
			return strings.Contains(is, c.says) && strings.Contains(is, "CertificateRequest authority-local-"), is
		})
		if !k.certificate("try-here-cache-tls", "0", known).Equal(was) {
			t.Errorf("%s: the certificate is used", name)
		}
		k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
		// The issuer is honest again. It is asked again after a while, and what it issues is used after another while.
		f.behave(func(*answer) {})
		k.awaitInTime("renewal after "+name, func() (bool, string) {
			return !k.certificate("try-here-cache-tls", "0", known).Equal(was), "it is the old one"
		})
		ahead = time.Duration(k.clock.ahead.Load())
		ahead += 25 * time.Hour
	}
}

// TestACAThatIsNotMadeForTheRegionIsRefused: the message says what it must have.
func TestACAThatIsNotMadeForTheRegionIsRefused(t *testing.T) {
	k := newIssuerCluster(t)
	k.trustDomain = "elsewhere.example.com"
	k.startIssuer()
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.await("the reason", func() (bool, string) {
		is := k.awaitCondition("try", v1alpha1.ConditionCertificatesCurrent, no,
			v1alpha1.ReasonCertificatesNotRenewed).Message
		return strings.Contains(is, "permitted elsewhere.example.com") &&
			strings.Contains(is, "its CA cannot be that of a region"), is
	})
}
