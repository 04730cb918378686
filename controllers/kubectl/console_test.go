package kubectl

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/console"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/storepage"
)

// addOperatorPod makes a pod of an operator, ready or not.
func (h *testCluster) addOperatorPod(name string, ready corev1.ConditionStatus, args ...string) {
	h.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "causalstore-system", Name: name,
		Labels: map[string]string{plan.LabelName: plan.ManagedBy}},
		Spec: corev1.PodSpec{NodeName: "node-us-a",
			Containers: []corev1.Container{{Name: "operator", Image: "causalstore:v1",
				Args: append([]string{"operator"}, args...)}}}}
	h.create(p)
	p.Status.Phase, p.Status.Conditions = corev1.PodRunning,
		[]corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	if err := h.k.Status().Update(h.Context(), p); err != nil {
		h.Fatal(err)
	}
}

func (h *testCluster) testConsole(t *testing.T) {
	if err := h.k.Delete(t.Context(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "causalstore-system", Name: "causalstore-1"}},
		client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	h.expectError("no pod of an operator is in this cluster; run: kubectl causal doctor orders --namespace shop",
		"console", "orders", "--no-browser")
	h.addOperatorPod("operator-mars", corev1.ConditionTrue, "--region=mars")
	h.expectError(
		`no operator in this cluster can show the store: causalstore-system/operator-mars runs region "mars", which is none of the store's`, "console", "orders", "--no-browser")
	h.addOperatorPod("operator-off", corev1.ConditionTrue, "--region=us", "--console-address=0")
	h.expectError("it serves no page: its flag --console-address is 0", "console", "orders", "--no-browser")
	h.addOperatorPod("operator-starting", corev1.ConditionFalse, "--region=us")
	h.expectError("operator-starting is not ready", "console", "orders", "--no-browser")
	h.addOperatorPod("operator-us", corev1.ConditionTrue, "--region=us")
	// no kubelet answers
	h.expectError("forward a port to pod causalstore-system/operator-us: ", "console", "orders", "--no-browser")
	h.expectError("namespace nowhere has no CausalStore", "console", "--namespace", "nowhere")
	h.expectError("no pod of an operator is in namespace default", "console", "orders",
		"--operator-namespace", "default")

	reader := h.connectAs(t, "shop-reader", rbacv1.PolicyRule{APIGroups: []string{"causalstore.io"},
		Resources: []string{"causalstores"}, Verbs: []string{"get", "list"}})
	if _, err := reader.findOperators(t.Context(), h.store, ""); err == nil ||
		!strings.Contains(err.Error(), "name that by --operator-namespace") {
		t.Errorf("without the right to list pods: %v", err)
	}
	if _, err := reader.forward(t.Context(), operatorPod{"us", "causalstore-system", "operator-us",
		8082}); err == nil ||
		!strings.Contains(err.Error(), "on resource pods/portforward") {
		t.Errorf("without the right to forward ports: %v", err)
	}
	h.addOperatorPod("operator-eu", corev1.ConditionTrue, "--region=eu", "--console-address=127.0.0.1:9000")
	h.testOpenConsole(t)
}

// region is an operator's server of the page.
type regionServer struct {
	*httptest.Server
	port string
}

// serveOperator serves the page of a region as the operator does. No part answers it.
func (h *testCluster) serveOperator(t *testing.T, region string) regionServer {
	t.Helper()
	s, err := storepage.NewServer(storepage.Options{Address: contract.OperatorConsole, Region: region,
		Client: h.k.Client, Uncached: h.k.Client, Now: time.Now,
		HTTP: &http.Client{
			Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
				return nil, io.EOF
			}},
		}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return regionServer{server, strings.TrimPrefix(server.URL, "http://127.0.0.1:")}
}

// serveForwards serves the API, and forwards ports of pods, by pod and port, over SPDY as a kubelet does.
func (h *testCluster) serveForwards(t *testing.T, to map[string]string) string {
	t.Helper()
	transport, err := rest.TransportFor(h.k.config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(h.k.config.Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	forwarded := regexp.MustCompile(`/pods/([a-z-]+)/portforward$`)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m := forwarded.FindStringSubmatch(r.URL.Path)
		switch {
		case m == nil:
			proxy.ServeHTTP(w, r)
		case strings.EqualFold(r.Header.Get("Upgrade"), "websocket"):
			http.Error(w, "an older API server, which speaks SPDY only", http.StatusBadRequest)
		default:
			forwardStreams(w, r, func(port string) string { return to[m[1]+":"+port] })
		}
	}))
	t.Cleanup(server.CloseClientConnections)
	return server.URL
}

func forwardStreams(w http.ResponseWriter, r *http.Request, target func(port string) string) {
	if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
		return
	}
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, replied <-chan struct{}) error {
		go func() {
			<-replied
			defer s.Close()
			if s.Headers().Get(corev1.StreamType) != corev1.StreamTypeData {
				return
			}
			c, err := net.Dial("tcp", "127.0.0.1:"+target(s.Headers().Get(corev1.PortHeader)))
			if err != nil {
				return
			}
			defer c.Close()
			go func() { _, _ = io.Copy(c, s) }()
			_, _ = io.Copy(s, c)
		}()
		return nil
	})
	if conn != nil {
		<-conn.CloseChan()
	}
}

// output is what a command writes while it runs.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

var pageAddress = regexp.MustCompile(`is at (http://127\.0\.0\.1:\d+/) until`)

// testOpenConsole opens the page of two operators, of which one goes away.
func (h *testCluster) testOpenConsole(t *testing.T) {
	us, eu := h.serveOperator(t, "us"), h.serveOperator(t, "eu")
	all := api.NewConfig()
	server := h.serveForwards(t, map[string]string{"operator-us:8082": us.port, "operator-eu:9000": eu.port})
	for name, server := range map[string]string{"both": server, "away": "http://127.0.0.1:1"} {
		all.Clusters[name], all.AuthInfos[name] = &api.Cluster{Server: server}, &api.AuthInfo{}
		all.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*all, kubeconfig); err != nil {
		t.Fatal(err)
	}
	run := func(ctx context.Context, out io.Writer, more ...string) error {
		cmd := NewCommand()
		cmd.SetArgs(append([]string{"console", "orders", "--kubeconfig", kubeconfig, "--namespace", "shop",
			"--no-browser", "--context", "both"}, more...))
		cmd.SetOut(out)
		cmd.SetErr(out)
		cmd.SilenceUsage = true
		return cmd.ExecuteContext(ctx)
	}
	used, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	port := fmt.Sprint(used.Addr().(*net.TCPAddr).Port)
	if err := run(t.Context(), io.Discard, "--port", port); err == nil ||
		!strings.Contains(err.Error(), "--port "+port+" cannot be used: ") {
		t.Errorf("a port in use: %v", err)
	}

	ctx, interrupt := context.WithCancel(t.Context())
	out, ended := &output{}, make(chan error, 1)
	go func() { ended <- run(ctx, out, "--context", "away") }()
	var address string
	for deadline := time.Now().Add(time.Minute); address == ""; time.Sleep(10 * time.Millisecond) {
		if m := pageAddress.FindStringSubmatch(out.String()); m != nil {
			address = m[1]
		}
		select {
		case err := <-ended:
			t.Fatalf("the command has ended: %v\n%s", err, out)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("no address: %s", out)
		}
	}
	if !strings.Contains(out.String(), "context away is not shown: ") {
		t.Errorf("the output: %s", out)
	}
	var l console.Layout
	h.getJSON(t, address+"console/layout", &l)
	if len(l.DataCenters) != 3 || l.DataCenters[2].Region != "eu" || l.Title != "store shop/orders" {
		t.Errorf("the layout: %+v", l)
	}
	snapshot := func() (s console.Snapshot) {
		h.getJSON(t, address+"console/snapshot", &s)
		return s
	}
	for _, dc := range snapshot().DataCenters {
		if dc.Elsewhere != "" || dc.Name != "paris" && (len(dc.Parts) == 0 || dc.Parts[0].State != console.PartHung) {
			t.Errorf("%s: %+v", dc.Name, dc)
		}
	}
	eu.CloseClientConnections()
	eu.Close()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		s := snapshot()
		if strings.Contains(s.DataCenters[2].Elsewhere, "region") {
			if !slices.ContainsFunc(s.Problems, func(p console.Problem) bool {
				return strings.Contains(p.Text, "No facts: operator causalstore-system/operator-eu")
			}) {
				t.Errorf("problems: %+v", s.Problems)
			}
			if s.DataCenters[0].Elsewhere != "" {
				t.Errorf("virginia is not shown any more: %s", s.DataCenters[0].Elsewhere)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("paris is still shown: %+v", s.DataCenters[2])
		}
	}
	interrupt()
	if err := <-ended; err != nil {
		t.Errorf("after an interrupt: %v", err)
	}
}

func (h *testCluster) getJSON(t *testing.T, address string, into any) {
	t.Helper()
	answer, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %s (%v)", address, answer.Status, b, err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatalf("%s: %v: %.200s", address, err, b)
	}
}
