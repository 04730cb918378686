package command

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/causalstore/causalstore/e2e/apiserver"
)

func TestMetricsAreServedByTLSToThoseWhomRBACAllowsToGetThem(t *testing.T) {
	config := apiserver.ForTest(t)
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reads-metrics"},
		Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: role.ObjectMeta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "reader"}}}
	if _, err := api.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := api.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	url := serveMetrics(t, config)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	get := func(authorization string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", authorization)
		reply, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer reply.Body.Close()
		body, err := io.ReadAll(reply.Body)
		if err != nil {
			t.Fatal(err)
		}
		return reply.StatusCode, string(body)
	}
	for authorization, want := range map[string]int{
		"": http.StatusUnauthorized, "Bearer ": http.StatusUnauthorized, "Bearer forged": http.StatusUnauthorized,
		"Basic cmVhZGVyOnJlYWRlcg==":           http.StatusUnauthorized,
		"Bearer " + newToken(t, api, "nobody"): http.StatusForbidden,
		"Bearer " + newToken(t, api, "reader"): http.StatusOK,
	} {
		status, body := get(authorization)
		if status != want || strings.Contains(body, "# TYPE") != (want == http.StatusOK) {
			t.Errorf("%.20q: %d, want %d, and %.60q", authorization, status, want, body)
		}
	}
}

// serveMetrics serves metrics as the operator does with --metrics-authentication, and returns their URL.
func serveMetrics(t *testing.T, config *rest.Config) string {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	o := (&operatorFlags{metrics: "127.0.0.1:0", metricsAuth: true}).metricsOptions()
	o.CertDir = t.TempDir() // it has no certificate, as that of the operator
	s, err := server.NewServer(o, config, client)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	bound := s.(interface{ GetBindAddr() string })
	for deadline := time.Now().Add(time.Minute); bound.GetBindAddr() == ""; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the server does not listen")
		}
	}
	return "https://" + bound.GetBindAddr() + "/metrics"
}

// newToken makes a ServiceAccount and returns a token of it.
func newToken(t *testing.T, api kubernetes.Interface, name string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	accounts := api.CoreV1().ServiceAccounts("default")
	if _, err := accounts.Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Status.Token
}
