package drill

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/drill/record"
	"github.com/causalstore/causalstore/e2e/apiserver"
	"github.com/causalstore/causalstore/lab/canary"
)

func TestCanariesAreAskedThroughTheAPIServerAndErrorsHideTheToken(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.String())
		if strings.Contains(r.URL.Path, "/report") {
			_, _ = w.Write([]byte(`{"dataCenter":"paris","next":{"bytes":9}}`))
			return
		}
		http.Error(w, "no such pod", http.StatusNotFound)
	}))
	defer server.Close()
	core, err := typedv1.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	c := &Pods{REST: core.RESTClient(), Store: fixtureStore(t), run: &record.Run{ID: "20260102-030405-abcd"}, token: "hush"}
	r, err := c.Report(t.Context(), "paris", canary.Position{Bytes: 5, Samples: 1})
	if err != nil || r.Next.Bytes != 9 {
		t.Errorf("%+v, %v", r, err)
	}
	if err := c.Stop(t.Context(), "paris"); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("an error of the canary: %v", err)
	}
	want := "GET /api/v1/namespaces/shop/pods/orders-drill-paris-abcd:7480/proxy/hush/report?bytes=5&samples=1\nPOST /api/v1/namespaces/shop/pods/orders-drill-paris-abcd:7480/proxy/hush/stop"
	if got := strings.Join(asked, "\n"); got != want {
		t.Errorf("asked\n%s\nwant\n%s", got, want)
	}
}

func TestThePodOfACanaryMeetsTheLevelRestricted(t *testing.T) {
	c, err := client.New(apiserver.ForTest(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := fixtureStore(t)
	s.Namespace = "restricted-canaries"
	s.Spec.Clients.UsersSecret = "users"
	s.Spec.Clients.Front.TLS = &v1alpha1.FrontTLS{SecretName: "front"}
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}); err != nil {
		t.Fatal(err)
	}
	r := &record.Run{ID: "20260102-030405-abcd", Drill: "az-b", Store: s.Name}
	p := CanaryPod(s, r, "causalstore:v1", "paris", "canary", "secretsecret", "token", 10*time.Minute)
	if err := c.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	args := strings.Join(p.Spec.Containers[0].Args, " ")
	for _, want := range []string{"--address=orders-paris.restricted-canaries.svc:6380", "--users-dir=/etc/causalstore/users", "--front-certificate-dir=/etc/causalstore/front", "--duration=10m0s", "--ttl=20m0s"} {
		if !strings.Contains(args, want) {
			t.Errorf("no %s in: %s", want, args)
		}
	}
}
