package inject_test

import (
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/controllers/inject"
)

func TestTheCertificateIsWrittenOnlyToWhatIsTheOperators(t *testing.T) {
	k := newCluster(t)
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "theirs"},
		Data: map[string][]byte{"a": []byte("b")}}
	none := admissionv1.SideEffectClassNone
	other := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "of-another-release"},
		Webhooks: []admissionv1.MutatingWebhook{{Name: "inject.causalstore.io", AdmissionReviewVersions: []string{"v1"},
			SideEffects: &none,
			ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "elsewhere",
				Name: "operator"}}}}}
	k.create(theirs, other)
	rotator := &inject.Rotator{ServingCertificate: &inject.ServingCertificate{}, Client: k.client, Uncached: k.client,
		Namespace: "default",
		Secret:    "theirs", Host: "operator.here.svc", Configuration: other.Name, Now: time.Now}
	if err := rotator.Rotate(t.Context()); err == nil || !strings.Contains(err.Error(), "was not made by an operator") {
		t.Errorf("a foreign Secret: %v", err)
	}
	rotator.Secret = "ours"
	if err := rotator.Rotate(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "calls Service operator of namespace elsewhere") {
		t.Errorf("the configuration of another release: %v", err)
	}
	for _, o := range []client.Object{theirs, other} {
		was := o.GetResourceVersion()
		if err := k.client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil ||
			o.GetResourceVersion() != was {
			t.Errorf("%T was changed (%v)", o, err)
		}
	}
	if err := k.client.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
}
