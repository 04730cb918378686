package trust

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/e2e/apiserver"
)

func TestMain(m *testing.M) { apiserver.Main(m) }

// TestWithoutCertManagerTheProblemSaysWhatToDo is in this package because its API server has no CRDs.
func TestWithoutCertManagerTheProblemSaysWhatToDo(t *testing.T) {
	c, err := client.New(apiserver.ForTest(t), client.Options{Scheme: clientscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "operator"}}); err != nil {
		t.Fatal(err)
	}
	k := &Keeper{Client: c, Uncached: c, Namespace: "operator", Name: "authority", Region: "eu", Now: time.Now,
		Requests: &Requests{Client: c, Uncached: c, Namespace: "operator", Name: "authority",
			Issuer: Issuer{"region-ca", IssuerGroup}}}
	check := func(want string) {
		t.Helper()
		s, err := k.Refresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(s.Problem, want) || s.Issuing != nil {
			t.Errorf("want %q, got %q", want, s.Problem)
		}
		if _, _, err := s.Of("eu"); err == nil || err.Error() != s.Problem {
			t.Errorf("the own region: %v", err)
		}
	}
	check("the leader of the operator has not asked the issuer")
	k.Lead()
	check(
		"cert-manager is not installed (kind CertificateRequest of cert-manager.io/v1 is unknown); install it, or " +
			"unset trust.issuer.name of the chart")
}
