package storepage

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/console"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/inject"
	"github.com/causalstore/causalstore/controllers/partmetrics"
	"github.com/causalstore/causalstore/lab/ports"
	sidecarprocess "github.com/causalstore/causalstore/sidecar/process"
	"github.com/causalstore/causalstore/topology"
)

// objects is a client.Reader of some objects.
type objects struct {
	mu  sync.Mutex
	all []client.Object
}

func (o *objects) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, is := range o.all {
		if s, ok := is.(*v1alpha1.CausalStore); ok && client.ObjectKeyFromObject(s) == key {
			s.DeepCopyInto(into.(*v1alpha1.CausalStore))
			return nil
		}
	}
	return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("causalstores").GroupResource(), key.Name)
}

func (o *objects) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var by client.ListOptions
	by.ApplyOptions(options)
	var found []runtime.Object
	for _, is := range o.all {
		_, isPod := is.(*corev1.Pod)
		_, wantsPods := into.(*corev1.PodList)
		_, isSet := is.(*appsv1.StatefulSet)
		_, wantsSets := into.(*appsv1.StatefulSetList)
		_, isStore := is.(*v1alpha1.CausalStore)
		_, wantsStores := into.(*v1alpha1.CausalStoreList)
		if (isPod && wantsPods || isSet && wantsSets || isStore && wantsStores) &&
			(by.Namespace == "" || by.Namespace == is.GetNamespace()) &&
			(by.LabelSelector == nil || by.LabelSelector.Matches(labelsOf(is))) {
			found = append(found, is.DeepCopyObject())
		}
	}
	return meta.SetList(into, found)
}

type labelSet map[string]string

func labelsOf(o client.Object) labelSet { return o.GetLabels() }

func (l labelSet) Has(k string) bool   { _, ok := l[k]; return ok }
func (l labelSet) Get(k string) string { return l[k] }
func (l labelSet) Lookup(k string) (string, bool) {
	v, ok := l[k]
	return v, ok
}

// rig is a store in this process: real parts of data centers a and b, in pods that a reader of objects knows. Data
// center c is in another region.
type rig struct {
	testing.TB
	objects
	store *v1alpha1.CausalStore
	// http has the addresses of the parts, by the host:port that their pods have.
	mu   sync.Mutex
	http map[string]string
	stop map[string]func()
}

func newRig(t testing.TB) *rig {
	r := &rig{TB: t, http: map[string]string{}, stop: map[string]func(){}}
	dc := func(name, region string) v1alpha1.DataCenter { return v1alpha1.DataCenter{Name: name, Region: region} }
	latitude, longitude := 38.9, -77.4
	r.store = &v1alpha1.CausalStore{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"},
		Spec: v1alpha1.CausalStoreSpec{
			DataCenters: []v1alpha1.DataCenter{dc("a", "us"), dc("b", "us"), dc("c", "eu")},
			Rings: []v1alpha1.Ring{{Name: "west", DataCenters: []string{"a"}},
				{Name: "east", DataCenters: []string{"b", "c"}}}}}
	r.store.Spec.DataCenters[0].Latitude, r.store.Spec.DataCenters[0].Longitude = &latitude, &longitude
	r.store.Status.HeartbeatTime = &metav1.Time{Time: time.Now()}
	r.store.Status.Topology.Epoch = 7
	r.all = append(r.all, r.store)
	addresses := map[string]string{}
	for _, of := range []string{"a", "b"} {
		for _, part := range []string{"cc", "shard", "cache"} {
			addresses[of+part] = ports.ForTest(t)
		}
	}
	host := 0
	for _, of := range []string{"a", "b"} {
		text := fmt.Sprintf(
			`{dataCenter: %s, topology: {epoch: 7, dataCenters: [{name: a}, {name: b}], rings: [{name: west, dataCenters: [a]}, {name: east, dataCenters: [b]}]},
storage: {engine: embedded, embedded: {dir: DIR}}, addresses: {a: {coordinators: [%q], middlemen: [%q], caches: [%q]}, b: {coordinators: [%q], middlemen: [%q], caches: [%q]}}}`,
			of, addresses["acc"], addresses["ashard"], addresses["acache"], addresses["bcc"], addresses["bshard"],
			addresses["bcache"])
		for component, part := range map[string]topology.Part{plan.ComponentCoordinator: topology.Coordinator,
			plan.ComponentShard: topology.Middleman, plan.ComponentCache: topology.Cache} {
			host++
			ip := fmt.Sprintf("10.0.0.%d", host)
			name := map[string]string{plan.ComponentCoordinator: "cc", plan.ComponentShard: "shard-0",
				plan.ComponentCache: "cache"}[component]
			labels := plan.Labels("orders")
			labels[plan.LabelRegion], labels[plan.LabelDataCenter], labels[plan.LabelComponent] = "us", of, component
			if component == plan.ComponentShard {
				labels[plan.LabelShard] = "0"
			}
			replicas := int32(1)
			set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop",
				Name: "orders-" + of + "-" + name, Labels: labels}, Spec: appsv1.StatefulSetSpec{Replicas: &replicas}}
			pod := newPod("shop", set.Name+"-0", ip, labels)
			if component == plan.ComponentCoordinator && of == "a" {
				pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: plan.FrontContainer})
				r.run(text, topology.Sidecar, "127.0.0.1:0", net.JoinHostPort(ip, fmt.Sprint(plan.PortFrontHTTP)))
			}
			r.all = append(r.all, set, pod)
			listen := addresses[of+strings.TrimSuffix(name, "-0")]
			r.run(text, part, listen, net.JoinHostPort(ip, fmt.Sprint(plan.PortHTTP)))
		}
	}
	return r
}

func newPod(namespace, name, ip string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels,
		UID: types.UID(name)},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
}

// redisOf is where the front of data center a listens.
func (r *rig) redisOf(httpOf string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.http["redis of "+httpOf]
}

// run runs a part in this process, whose pod has another address.
func (r *rig) run(text string, part topology.Part, grpc, podAddress string) {
	r.Helper()
	dir := r.TempDir()
	path := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "DIR", r.TempDir())),
		0o600); err != nil {
		r.Fatal(err)
	}
	http, redis := ports.ForTest(r), ports.ForTest(r)
	source := sidecarprocess.Source{Path: path, Override: func(c *contract.Config) {
		c.DataDir = dir
		c.Listen = contract.Listen{GRPC: grpc, HTTP: http, Redis: redis}
	}}
	set, err := source.Load(part)
	if err != nil {
		r.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- sidecarprocess.Run(ctx, sidecarprocess.Options{Settings: set, Source: source,
			Logger: slog.New(slog.DiscardHandler), Level: &slog.LevelVar{}, DrainTimeout: time.Millisecond})
	}()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			r.Errorf("%s: %v", part, err)
		}
	})
	r.Cleanup(stop)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.http[podAddress], r.http["redis of "+podAddress], r.stop[podAddress] = http, redis, stop
}

// client leads connections to pods to the parts in this process.
func (r *rig) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			r.mu.Lock()
			to, ok := r.http[address]
			r.mu.Unlock()
			if !ok {
				return nil, fmt.Errorf("no pod has %s", address)
			}
			return (&net.Dialer{}).DialContext(ctx, network, to)
		}}}
}

func (r *rig) server() *Server {
	r.Helper()
	s, err := NewServer(Options{Address: contract.OperatorConsole, Region: "us", Client: &r.objects,
		Uncached: &r.objects, HTTP: r.client(), Now: time.Now})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(s.close)
	return s
}

func (r *rig) page() *Store {
	return &Store{name: client.ObjectKeyFromObject(r.store), region: "us", stores: &r.objects, uncached: &r.objects,
		reader: &reader{client: r.client()}, now: time.Now}
}

// until takes snapshots until one is as wanted.
func (r *rig) until(s *Store, what string, is func(*console.Snapshot) bool) *console.Snapshot {
	r.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		got := s.Take(r.Context())
		if is(&got) {
			return &got
		}
		if time.Now().After(deadline) {
			r.Fatalf("no snapshot is such that %s; the last one: %+v", what, got)
		}
	}
}

func states(dc *console.DataCenter) string {
	var all []string
	for _, p := range dc.Parts {
		all = append(all, fmt.Sprintf("%s %s", p.Name, p.State))
	}
	return strings.Join(all, ", ")
}

func TestTheOperatorShowsWhatRealPartsReport(t *testing.T) {
	r := newRig(t)
	s := r.page()
	got := r.until(s, "all parts serve and know the network", func(s *console.Snapshot) bool {
		a := &s.DataCenters[0]
		return a.CutAgeMs != nil && a.SVLagMs != nil && a.RingLagMs["east"] != nil && a.Sessions != nil &&
			s.Links[0].RoundTripMs != nil && s.DataCenters[1].InFlight != nil && s.DataCenters[1].CacheBytes != nil &&
			len(s.Problems) == 0
	})
	a, b, c := &got.DataCenters[0], &got.DataCenters[1], &got.DataCenters[2]
	for _, dc := range []*console.DataCenter{a, b} {
		if want := "coordinator 0 serving, middleman 0 serving, cache 0 serving"; states(dc) != want ||
			dc.Parts[0].Version == "" {
			t.Errorf("parts of %s: %s, version %q; want %s", dc.Name, states(dc), dc.Parts[0].Version, want)
		}
	}
	if got.Epoch != 7 || *a.BufferLimitBytes == 0 || b.Sessions != nil || !strings.Contains(c.Elsewhere, "region eu") ||
		len(c.Parts) != 0 {
		t.Errorf("epoch %d, buffer limit %d, sessions of b %v, c: %+v", got.Epoch, *a.BufferLimitBytes, b.Sessions, c)
	}
	if l, err := s.Layout(t.Context()); err != nil || *l.DataCenters[0].Latitude != 38.9 ||
		l.DataCenters[2].Ring != "east" || l.Faults || l.NoClient == "" {
		t.Errorf("the layout: %+v (%v)", l, err)
	}

	front := net.JoinHostPort("10.0.0.1", fmt.Sprint(plan.PortFrontHTTP))
	for address := range r.http {
		if strings.HasSuffix(address, fmt.Sprintf(":%d", plan.PortFrontHTTP)) && !strings.HasPrefix(address, "redis") {
			front = address
		}
	}
	conn, err := net.Dial("tcp", r.redisOf(front))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n")
	answer := make([]byte, 5)
	if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "+OK\r\n" {
		t.Fatalf("SET: %q (%v)", answer, err)
	}
	got = r.until(s, "the write is counted", func(s *console.Snapshot) bool {
		n := s.DataCenters[0].Counters
		return n != nil && n.Writes == 1
	})
	if n := got.DataCenters[0].Connections; n == nil || *n != 1 {
		t.Errorf("connections: %v", n)
	}

	for i := range r.all {
		if p, ok := r.all[i].(*corev1.Pod); ok && p.Name == "orders-b-cache-0" {
			r.stop[net.JoinHostPort(p.Status.PodIP, fmt.Sprint(plan.PortHTTP))]()
			got = r.until(s, "the cache does not answer", func(s *console.Snapshot) bool {
				return s.DataCenters[1].Parts[2].State == console.PartHung
			})
			if got.DataCenters[1].CacheBytes != nil || len(got.Problems) != 1 || got.Problems[0].DataCenter != "b" ||
				got.Problems[0].Runbook != "CausalStorePartDown" {
				t.Errorf("problems: %+v; cached: %v", got.Problems, got.DataCenters[1].CacheBytes)
			}
			r.objects.mu.Lock()
			r.all = append(r.all[:i], r.all[i+1:]...)
			r.objects.mu.Unlock()
			break
		}
	}
	got = r.until(s, "the cache is gone", func(s *console.Snapshot) bool {
		return s.DataCenters[1].Parts[2].State == console.PartDown
	})
	if !strings.Contains(got.Problems[0].Text, "Cache 0 of b is down") {
		t.Errorf("problems: %+v", got.Problems)
	}

	t.Run("over HTTP, of stores that exist, and for pages of its own only", func(t *testing.T) {
		server := r.server()
		for _, c := range []struct {
			method, host, path string
			status             int
			want               string
		}{
			{"GET", "127.0.0.1:1", "/", 200, `<a href="/stores/shop/orders/">shop/orders</a>`},
			{"GET", "127.0.0.1:1", "/stores/shop/orders/", 200, "console.js"},
			{"GET", "localhost:1", "/stores/shop/orders/console/snapshot", 200, `"coordinator 0"`},
			{"GET", "127.0.0.1:1", "/stores/shop/orders/console/layout", 200, `"latitude":38.9`},
			{"GET", "127.0.0.1:1", "/stores/shop/carts/", 404, "namespace shop has no CausalStore carts"},
			{"GET", "evil.example:1", "/stores/shop/orders/console/snapshot", 403, "Host"},
			{"POST", "127.0.0.1:1", "/stores/shop/orders/fault", 405, ""},
			{"POST", "127.0.0.1:1", "/stores/shop/orders/console/trace", 405, ""},
			{"GET", "127.0.0.1:1", "/stores/shop/orders/console/key?key=k", 404, ""},
		} {
			q := httptest.NewRequestWithContext(t.Context(), c.method, c.path, nil)
			q.Host = c.host
			w := httptest.NewRecorder()
			server.ServeHTTP(w, q)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("%s %s at %s: %d, %.300s; want %d, %q", c.method, c.path, c.host, w.Code, w.Body,
					c.status, c.want)
			}
		}
	})
}

func TestTheOperatorServesThePageToItsOwnPodOnly(t *testing.T) {
	for address, ok := range map[string]bool{"127.0.0.1:8082": true, "[::1]:8082": true, ":8082": false,
		"0.0.0.0:8082": false, "10.0.0.1:8082": false, "localhost": false} {
		if err := CheckAddress(address); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestSidecarsOfAppsCountUnlessThereAreTooMany(t *testing.T) {
	answers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w,
			"# TYPE causalstore_sidecar_sessions gauge\ncausalstore_sidecar_sessions 3\n# TYPE "+
				"causalstore_sidecar_bound_sessions gauge\ncausalstore_sidecar_bound_sessions 1\n")
	}))
	defer answers.Close()
	r := &rig{TB: t, http: map[string]string{"10.1.0.1:7480": strings.TrimPrefix(answers.URL, "http://")},
		store: &v1alpha1.CausalStore{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"},
			Spec: v1alpha1.CausalStoreSpec{DataCenters: []v1alpha1.DataCenter{{Name: "a", Region: "us"},
				{Name: "b", Region: "eu"}}}}}
	r.all = append(r.all, r.store)
	app := func(name, ip, of string) {
		p := newPod("web", name, ip, map[string]string{inject.LabelStore: "orders"})
		p.Annotations = map[string]string{inject.AnnotationInjected: of}
		r.all = append(r.all, p)
	}
	app("web-0", "10.1.0.1", "shop/orders/a")
	app("web-1", "10.1.0.2", "shop/orders/a")
	app("other-store", "10.1.0.3", "web/orders/a")
	app("other-region", "10.1.0.3", "shop/orders/b")
	got := r.page().Take(t.Context())
	a := &got.DataCenters[0]
	if a.Sessions == nil || *a.Sessions != 3 || *a.Bound != 1 || a.Listed != nil {
		t.Errorf("%+v", a)
	}
	if len(got.Problems) != 1 || !strings.Contains(got.Problems[0].Text,
		"1 of the 2 fronts and sidecars of a do not answer the operator, such as that of pod web/web-1") {
		t.Errorf("problems: %+v", got.Problems)
	}
	for i := range MaxSidecars {
		app(fmt.Sprintf("more-%d", i), "10.1.0.1", "shop/orders/a")
	}
	got = r.page().Take(t.Context())
	if got.DataCenters[0].Sessions != nil || len(got.Problems) != 1 ||
		!strings.Contains(got.Problems[0].Text, "More than 100 apps") {
		t.Errorf("of too many sidecars: %+v", got)
	}
}

func TestCountersDoNotFallWhenProcessesComeAndGo(t *testing.T) {
	var c counters
	answer := func(uid string, puts int, err error) reading {
		f, _ := parse(fmt.Sprintf("# TYPE causalstore_sidecar_puts_total counter\ncausalstore_sidecar_puts_total %d\n",
			puts))
		return reading{process{&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}}, 1, "a", true}, f, err}
	}
	for i, step := range []struct {
		all  []reading
		want uint64
	}{
		{[]reading{answer("x", 100, nil)}, 0},
		{[]reading{answer("x", 110, nil), answer("y", 5000, nil)}, 10},
		{[]reading{answer("x", 110, io.EOF), answer("y", 5001, nil)}, 11},
		{[]reading{answer("x", 3, nil), answer("y", 5001, nil)}, 11},
		{[]reading{answer("x", 4, nil), answer("y", 2, nil)}, 14},
		{[]reading{answer("x", 6, nil)}, 16},
	} {
		if got := c.add(step.all).operations["a"].Writes; got != step.want {
			t.Errorf("step %d: %d writes; want %d", i, got, step.want)
		}
	}
}

func parse(text string) (partmetrics.Families, error) {
	return partmetrics.Parse(strings.NewReader(text))
}
