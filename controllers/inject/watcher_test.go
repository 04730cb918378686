package inject

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/e2e/apiserver"
)

// TestTheWatcherServesACertificateAndReportsItOnceItIsTrusted plays cert-manager: it writes the files, then the CA,
// then a renewal by another CA.
func TestTheWatcherServesACertificateAndReportsItOnceItIsTrusted(t *testing.T) {
	c, err := client.New(apiserver.ForTest(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	none, url := admissionv1.SideEffectClassNone, "https://localhost:1"
	configuration := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "watched"},
		Webhooks: []admissionv1.MutatingWebhook{{Name: "inject.causalstore.io", AdmissionReviewVersions: []string{"v1"},
			SideEffects:  &none,
			ClientConfig: admissionv1.WebhookClientConfig{URL: &url}}}}
	if err := c.Create(t.Context(), configuration); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	w := &Watcher{ServingCertificate: &ServingCertificate{}, Uncached: c, Dir: t.TempDir(), Host: host,
		Configuration: "watched",
		Now:           func() time.Time { return now }}
	expect := func(want string, serving bool) {
		t.Helper()
		err := w.Check(t.Context())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("Check returns %v, want %q", err, want)
		}
		if w.Serving() != serving {
			t.Errorf("Serving returns %t", w.Serving())
		}
	}
	writeFiles := func() map[string][]byte {
		t.Helper()
		files, _ := mustRenew(t, nil, now)
		for name, b := range maps.All(files) {
			if err := os.WriteFile(filepath.Join(w.Dir, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return files
	}
	expect("no such file", false)
	files := writeFiles()
	expect("does not trust", false)
	if got, err := w.Certificate(nil); err != nil || got.Leaf.VerifyHostname(host) != nil {
		t.Errorf("the served certificate: %v, %v", got, err)
	}
	configuration.Webhooks[0].ClientConfig.CABundle = files[fileCA]
	if err := c.Update(t.Context(), configuration); err != nil {
		t.Fatal(err)
	}
	expect("", true)
	before, _ := w.Certificate(nil)
	writeFiles()
	expect("does not trust", false)
	if after, _ := w.Certificate(nil); after.Leaf.Equal(before.Leaf) {
		t.Error("the renewed certificate is not served")
	}
}
