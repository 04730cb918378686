package verify

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxResponse bounds a response, in bytes.
const maxResponse = 1 << 20

// checkWebhook calls the webhook as the API server does: at the name and with the CAs of its configuration. The review
// is a dry run, so no pod is created.
func (i *Installation) checkWebhook(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	c := &registrationv1.MutatingWebhookConfiguration{}
	if err := i.Client.Get(ctx, client.ObjectKey{Name: i.Webhook}, c); err != nil {
		return "", fmt.Errorf("read MutatingWebhookConfiguration %s: %w", i.Webhook, err)
	}
	if len(c.Webhooks) == 0 || c.Webhooks[0].ClientConfig.Service == nil {
		return "", fmt.Errorf("MutatingWebhookConfiguration %s calls no Service; reinstall the chart", i.Webhook)
	}
	to := c.Webhooks[0].ClientConfig
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(to.CABundle) {
		return "",
			fmt.Errorf(
				"MutatingWebhookConfiguration %s has no caBundle yet; the operator writes it, or cert-manager's "+
					"cainjector: see their logs",
				i.Webhook)
	}
	path, port := "/", int32(443)
	if to.Service.Path != nil {
		path = *to.Service.Path
	}
	if to.Service.Port != nil {
		port = *to.Service.Port
	}
	url := fmt.Sprintf("https://%s.%s.svc:%d%s", to.Service.Name, to.Service.Namespace, port, path)
	if err := i.callWebhook(ctx, url, roots); err != nil {
		return "", fmt.Errorf("call %s: %w", url, err)
	}
	return url + " answers, and its certificate is trusted", nil
}

// callWebhook sends a review to the webhook and checks the response.
func (i *Installation) callWebhook(ctx context.Context, url string, roots *x509.CertPool) error {
	review, err := i.newReview()
	if err != nil {
		return err
	}
	body, err := json.Marshal(review)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	transport := &http.Transport{DialContext: i.Dial,
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	a, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = a.Body.Close() }()
	response := &admissionv1.AdmissionReview{}
	if err := json.NewDecoder(io.LimitReader(a.Body, maxResponse)).Decode(response); err != nil ||
		a.StatusCode != http.StatusOK {
		return errors.Join(fmt.Errorf("the webhook responds %s", a.Status), err)
	}
	switch {
	case response.Response == nil || response.Response.UID != review.Request.UID:
		return errors.New("the response does not match the request")
	case !response.Response.Allowed:
		return fmt.Errorf("the webhook fails: %s", response.Response.Result.Message)
	case len(response.Response.Warnings) > 0: // it could not read what it needs
		return fmt.Errorf("the webhook fails: %s", response.Response.Warnings[0])
	}
	return nil
}

// newReview returns the dry run of creating a pod.
func (i *Installation) newReview() (*admissionv1.AdmissionReview, error) {
	pod, err := json.Marshal(&corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "verify", Namespace: i.Namespace}})
	if err != nil {
		return nil, err
	}
	dry := true
	return &admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(),
		Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{UID: uuid.NewUUID(),
			Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
			Resource: metav1.GroupVersionResource{Version: "v1",
				Resource: "pods"}, Namespace: i.Namespace, Operation: admissionv1.Create,
			Object: runtime.RawExtension{Raw: pod}, DryRun: &dry}}, nil
}
