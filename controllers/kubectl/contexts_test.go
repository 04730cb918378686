package kubectl

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

var partRequest = regexp.MustCompile(`/pods/(?:http:)?([a-z0-9-]+):(\d+)/proxy/(readyz|metrics)$`)

// serveRegion serves the API of a cluster whose namespace shop is another one of the test's API server, with a name of
// the same length, so that also encoded answers keep their lengths. It answers for the parts.
func (h *testCluster) serveRegion(t *testing.T, namespace string, answer func(pod, path string) (int, string)) string {
	t.Helper()
	transport, err := rest.TransportFor(h.k.config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(h.k.config.Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Accept-Encoding")
			r.Out.URL.Path = strings.Replace(r.Out.URL.Path, "/namespaces/shop", "/namespaces/"+namespace, 1)
		},
		ModifyResponse: func(r *http.Response) error {
			b, err := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(bytes.ReplaceAll(b, []byte(namespace), []byte("shop"))))
			return err
		}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m := partRequest.FindStringSubmatch(r.URL.Path); m != nil {
			code, text := answer(m[1], m[3])
			if m[3] == "readyz" {
				w.Header().Set("Content-Type", "application/json")
			}
			w.WriteHeader(code)
			_, _ = io.WriteString(w, text)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// answerAs answers for all parts; first coordinators report a data center of the other region.
func answerAs(peer, report string) func(pod, path string) (int, string) {
	return func(pod, path string) (int, string) {
		if path == "readyz" {
			return http.StatusServiceUnavailable,
				fmt.Sprintf(
					`{"ready":false,"phase":"running","part":"cc","dataCenter":"d","index":0,"topologyEpoch":1,"peers":[%s]}`, report)
		}
		if !strings.Contains(pod, "-cc-") {
			return http.StatusOK, ""
		}
		return http.StatusOK,
			fmt.Sprintf(
				"# TYPE causalstore_peer_bytes_total "+
					"counter\ncausalstore_peer_bytes_total{to_data_center=%q,direction=\"sent\"} 1500\n", peer)
	}
}

// addRegion makes the store's other region in a namespace of its own.
func (h *testCluster) addRegion(t *testing.T, namespace string) {
	t.Helper()
	eu := newFixtureOf(t, "eu")
	h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	eu.store.UID, eu.store.Namespace = "", namespace
	h.create(eu.store)
	s := eu.store.DeepCopy()
	s.Status = v1alpha1.CausalStoreStatus{ObservedGeneration: s.Generation,
		HeartbeatTime: &metav1.Time{Time: time.Now()},
		Rings:         []v1alpha1.RingStatus{{Name: "europe", Availability: v1alpha1.RingComplete}},
		DataCenters:   []v1alpha1.DataCenterStatus{{Name: "paris", Region: "eu", Here: true}},
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue,
			Reason:  "AllPartsReady",
			Message: "all parts of paris serve", LastTransitionTime: metav1.Now()}}}
	if err := h.k.Status().Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	p := eu.pod(t, "orders-paris-cc-0")
	status := p.Status
	p.Namespace, p.Spec = namespace, corev1.PodSpec{NodeName: "node-us-a",
		Containers: []corev1.Container{{Name: "part", Image: "causalstore:v1"}}}
	h.create(p)
	p.Status = status
	if err := h.k.Status().Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

func TestAClusterThatDoesNotAnswerIsGivenUp(t *testing.T) {
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-ended }))
	defer server.Close()
	defer close(ended)
	all := api.NewConfig()
	all.Clusters["slow"], all.Contexts["slow"] = &api.Cluster{Server: server.URL}, &api.Context{Cluster: "slow"}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*all, file); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := findStores(ctx, []*cluster{{kubeconfig: file, context: "slow"}, {kubeconfig: file, context: "typo"}}, "")
	if err == nil || !strings.Contains(err.Error(), "slow: no answer within 20s") ||
		!strings.Contains(err.Error(), `typo: read the kubeconfig: `) {
		t.Error(err)
	}
}

// A client that asks for the resources of a cluster waits for half a minute, whatever its context says.
func TestNoCommandAsksAClusterForItsResources(t *testing.T) {
	ended := make(chan struct{})
	var recording sync.Mutex
	var paths []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		recording.Lock()
		paths = append(paths, r.URL.Path)
		recording.Unlock()
		select {
		case <-ended:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(ended)
	all := api.NewConfig()
	all.Clusters["silent"], all.Contexts["silent"], all.CurrentContext = &api.Cluster{Server: server.URL},
		&api.Context{Cluster: "silent", Namespace: "shop"}, "silent"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*all, file); err != nil {
		t.Fatal(err)
	}
	for _, line := range [][]string{{"status"}, {"topology"}, {"top", "--once"}, {"doctor"}, {"check"},
		{"check", "--all-namespaces"}, {"explain", "key", "k"}, {"explain", "pod", "p"},
		{"pause", "orders"}, {"support-bundle"}, {"trust"}, {"rotate-ca", "us", "--yes"}} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		cmd := NewCommand()
		cmd.SetArgs(append([]string{"--kubeconfig", file}, line...))
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		if err := cmd.ExecuteContext(ctx); err == nil {
			t.Errorf("%v succeeds without a cluster", line)
		}
		cancel()
	}
	recording.Lock()
	defer recording.Unlock()
	for _, path := range paths {
		if path == "/api" || path == "/apis" || path == "/api/v1" || strings.HasPrefix(path, "/apis/") &&
			strings.Count(path, "/") == 3 {
			t.Errorf("a command has asked for %s", path)
		}
	}
	if len(paths) == 0 {
		t.Error("no command has asked anything")
	}
}

// testContexts runs commands over the clusters of two regions and one that is away.
func (h *testCluster) testContexts(t *testing.T) {
	h.addRegion(t, "sh-2")
	all := api.NewConfig()
	for name, server := range map[string]string{
		"us": h.serveRegion(t, "shop", answerAs("paris",
			`{"dataCenter":"paris","state":"connected","links":6,"linksUp":6,"roundTripMs":81.5}`)),
		"eu": h.serveRegion(t, "sh-2", answerAs("virginia",
			`{"dataCenter":"virginia","state":"notTrusted","links":4,"linksUp":0,"error":"unknown authority"}`)),
		"away":  "http://127.0.0.1:1",
		"away2": "http://127.0.0.1:2",
	} {
		all.Clusters[name], all.AuthInfos[name] = &api.Cluster{Server: server}, &api.AuthInfo{}
		all.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	}
	all.Clusters["again"] = all.Clusters["us"]
	all.Contexts["again"] = &api.Context{Cluster: "us", AuthInfo: "us"}
	before := h.kubeconfig
	defer func() { h.kubeconfig = before }()
	h.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*all, h.kubeconfig); err != nil {
		t.Fatal(err)
	}
	expect := func(line []string, want ...string) {
		t.Helper()
		out, err := h.run(line...)
		t.Logf("%v\n%s", line, out)
		flat := regexp.MustCompile(` {2,}`).ReplaceAllString(out, " | ")
		for _, w := range want {
			if err != nil || !strings.Contains(flat, w) {
				t.Errorf("%v: %v; want output with %q", line, err, w)
			}
		}
	}
	away := []string{"--context", "us", "--context", "eu", "--context", "away", "--context", "again"}
	expect(append([]string{"status", "orders"}, away...), "shop/orders: ready in 2 of 4 contexts",
		"away | - | CANNOT BE READ: ", "again | - | the same cluster as context us",
		"europe | Complete", "eu | paris | eu | 0/0")
	expect(append([]string{"status"}, away...), "shop/carts: ready in 0 of 4 contexts",
		"eu | - | namespace shop has no CausalStore carts", "shop/orders: ready in 2 of 4 contexts")
	expect(append([]string{"topology", "orders"}, away...), "paris | region eu, context eu",
		"virginia (us) | paris (eu) | connected | 6/6 | 81.5ms",
		"paris (eu) | virginia (us) | notTrusted | 0/4 | - | unknown authority")
	expect(append([]string{"top", "orders", "--once"}, away...), "2 of 4 contexts read", "eu | paris | 0",
		"virginia (us) | paris (eu) | connected | 6/6 | 81.5ms | 6kB | 0B", "away | CANNOT BE READ: ")
	expect(append([]string{"top", "orders", "--interval", "1ms"}, away...), "2 of 4 contexts read",
		"connected | 6/6 | 81.5ms | 0B | 0B")
	expect([]string{"status", "orders", "--context", "us"}, "shop/orders: ready, all parts")
	expect([]string{"status", "orders", "--context", "us", "--context", "us"}, "shop/orders: ready, all parts")
	expect([]string{"__complete", "status", "--context", "eu", ""}, "orders\n")
	h.expectError("none of the 2 contexts can be read: away: ", "status", "--context", "away", "--context", "away2")
	h.expectError("namespace shop has no CausalStore nothing in any of the 2 contexts", "status", "nothing",
		"--context", "us", "--context", "eu")
	h.expectError("name one of: carts, orders", "top", "--context", "us", "--context", "eu")
	h.expectError("--interval 0s: use a time", "top", "--interval", "0s", "--context", "us", "--context", "eu")
}
