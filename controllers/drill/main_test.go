package drill

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/drill/record"
	"github.com/causalstore/causalstore/e2e/apiserver"
	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/lab/canary"
	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/topology"
)

var rewrite = flag.Bool("rewrite", false, "write the output to the golden files")

func TestMain(m *testing.M) { apiserver.Main(m) }

func golden(t *testing.T, file, got string) {
	t.Helper()
	file = filepath.Join("testdata", file)
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s differs (-want +got); if that is intended, run with -rewrite:\n%s", file, d)
	}
}

// fixtureStore is a store of three data centers in two rings.
func fixtureStore(t *testing.T) *v1alpha1.CausalStore {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "store.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s := &v1alpha1.CausalStore{}
	if err := yaml.UnmarshalStrict(b, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// fixturePods are pods of the store: in each data center two coordinators, a cache and two shards on hosts of their
// zones, and an edge.
func fixturePods(s *v1alpha1.CausalStore) (pods []*corev1.Pod) {
	add := func(dc, component, name, zone string) {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name + "-" + dc + "-" + name,
			Labels: plan.Labels(s.Name)}}
		p.Labels[plan.LabelDataCenter], p.Labels[plan.LabelComponent] = dc, component
		p.Spec = corev1.PodSpec{NodeName: "node-" + zone,
			Containers: []corev1.Container{{Name: "part", Image: "causalstore:v1"}}}
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		pods = append(pods, p)
	}
	for _, dc := range s.Spec.DataCenters {
		add(dc.Name, plan.ComponentCoordinator, "cc-0", dc.Zones.Frontend[0])
		add(dc.Name, plan.ComponentCoordinator, "cc-1", dc.Zones.Frontend[0])
		add(dc.Name, plan.ComponentCache, "cache-0", dc.Zones.Frontend[0])
		add(dc.Name, plan.ComponentShard, "shard-0-0", dc.Zones.Backend[0])
		add(dc.Name, plan.ComponentShard, "shard-1-0", dc.Zones.Backend[0])
		add(dc.Name, plan.ComponentEdge, "edge-x1", dc.Zones.Frontend[0])
	}
	return pods
}

// fixtureLandscape is what drills choose from, without a cluster.
func fixtureLandscape(t *testing.T) *Landscape {
	t.Helper()
	l := &Landscape{Store: fixtureStore(t), ZonesKnown: true}
	for _, p := range fixturePods(l.Store) {
		l.Parts = append(l.Parts, NewPod(l.Store, p, strings.TrimPrefix(p.Spec.NodeName, "node-")))
	}
	l.Operators = []Pod{{Namespace: "causalstore-system", Name: "causalstore-0", Component: ComponentOperator,
		Ready: true}}
	sortPods(l.Parts)
	return l
}

// testBed is a store in a real API server, where no pod runs, and a deployment of the same data centers in this process
// that canaries connect to. The test plays Chaos Mesh: experiments in the API server hurt the deployment.
type testBed struct {
	*testing.T
	client     client.Client
	store      *v1alpha1.CausalStore
	deployment *local.Deployment
	canaries   localCanaries
	// sidecars are the data centers in which a canary has a sidecar.
	sidecars []string
	// stuck keeps the finalizers of experiments until they are forced.
	stuck bool
	// slowToStop is how long pods go on after the experiment that stops them says that it is injected; for ever if it
	// is negative.
	slowToStop time.Duration
	// inject does what an experiment says, recover ends it.
	inject, recover func(context.Context, *unstructured.Unstructured) error
}

func newTestBed(t *testing.T, tune local.Tune) *testBed {
	t.Helper()
	apiserver.InstallCRDs(t, filepath.Join("..", "..", "config", "crd", "bases"))
	apiserver.InstallCRDs(t, filepath.Join("testdata", "crds"))
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(apiserver.ForTest(t), client.Options{Scheme: s})
	if err != nil {
		t.Fatal(err)
	}
	b := &testBed{T: t, client: c, store: fixtureStore(t)}
	b.store.Namespace = strings.ToLower(strings.Trim(filepath.Base(strings.ReplaceAll(t.Name(), "_", "")), "-"))
	b.store.Namespace = b.store.Namespace[:min(len(b.store.Namespace), 50)]
	status := b.store.Status
	b.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.store.Namespace}}, b.store)
	b.store.Status = status
	if err := c.Status().Update(t.Context(), b.store); err != nil {
		t.Fatal(err)
	}
	for _, zone := range []string{"a", "b", "c", "d", "e", "f"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + zone,
			Labels: map[string]string{"topology.kubernetes.io/zone": zone}}}
		if err := client.IgnoreAlreadyExists(c.Create(t.Context(), n)); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range fixturePods(b.store) {
		status := p.Status
		b.create(p)
		p.Status = status
		if err := c.Status().Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	var dcs []topology.DataCenter
	for _, dc := range b.store.Spec.DataCenters {
		dcs = append(dcs, topology.DataCenter{Name: dc.Name, Coordinators: 1, Shards: 1, Caches: 1})
	}
	topo, err := topology.New(1, dcs, []topology.Ring{{Name: "one", DCs: []topology.DC{0, 1}},
		{Name: "two", DCs: []topology.DC{2}}}, [][]float64{{0, 4, 8}, {4, 0, 8}, {8, 8, 0}})
	if err != nil {
		t.Fatal(err)
	}
	b.deployment, err = local.Start(t.Context(), local.Options{Topology: topo, Engine: "embedded", DataDir: t.TempDir(),
		Host: "127.0.0.1", WAN: true, Cache: true, Scope: "connection", Tune: tune})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.deployment.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

func (b *testBed) create(all ...client.Object) {
	b.Helper()
	for _, o := range all {
		if err := b.client.Create(b.Context(), o); err != nil {
			b.Fatal(err)
		}
	}
}

// playChaosMesh injects and recovers experiments until the test ends.
func (b *testBed) playChaosMesh(kind string) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for sleep(ctx, 20*time.Millisecond) {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(chaosAPI.WithKind(kind + "List"))
			if err := b.client.List(ctx, list, client.InNamespace(b.store.Namespace)); err != nil {
				continue // the test is ending
			}
			for i := range list.Items {
				if err := b.reconcile(ctx, &list.Items[i]); client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
					// it may have gone since
					b.Errorf("chaos: %v", err)
				}
			}
		}
	}()
	b.Cleanup(func() { cancel(); <-ended })
}

func (b *testBed) reconcile(ctx context.Context, o *unstructured.Unstructured) error {
	const finalizer = "chaos-mesh/records"
	switch {
	case o.GetDeletionTimestamp().IsZero() && !chaosCondition(o, "AllInjected"):
		o.SetFinalizers([]string{finalizer})
		_ = unstructured.SetNestedSlice(o.Object, []any{map[string]any{"type": "AllInjected", "status": "True"}},
			"status", "conditions")
		if err := b.client.Update(ctx, o); err != nil {
			return err
		}
		b.setReady(ctx, o, corev1.ConditionFalse, b.slowToStop)
		return b.inject(ctx, o)
	case !o.GetDeletionTimestamp().IsZero() && len(o.GetFinalizers()) > 0 &&
		(!b.stuck || o.GetAnnotations()[forceFinalizer] == "forced"):
		if err := b.recover(ctx, o); err != nil {
			return err
		}
		b.setReady(ctx, o, corev1.ConditionTrue, 0)
		o.SetFinalizers(nil)
		return client.IgnoreNotFound(b.client.Update(ctx, o))
	}
	return nil
}

// setReady makes the pods of an experiment that stops pods ready, or after a while not ready, as their kubelets would.
func (b *testBed) setReady(ctx context.Context, o *unstructured.Unstructured, status corev1.ConditionStatus,
	after time.Duration) {
	if o.GetKind() != KindPod || after < 0 || !sleep(ctx, after) {
		return
	}
	names, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "selector", "pods", b.store.Namespace)
	for _, name := range names {
		p := &corev1.Pod{}
		if strings.Contains(name, "-drill-") {
			continue // a canary, which is in this process
		}
		if err := b.client.Get(ctx, client.ObjectKey{Namespace: b.store.Namespace, Name: name}, p); err != nil {
			b.Errorf("pod %s: %v", name, err)
			continue
		}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
		if err := b.client.Status().Update(ctx, p); err != nil {
			b.Errorf("pod %s: %v", name, err)
		}
	}
}

// localCanaries are canaries in this process, reached over HTTP as those in pods are.
type localCanaries struct {
	*testing.T
	deployment *local.Deployment
	// broken are canaries that do not start.
	broken map[CanaryID]error

	mu       sync.Mutex
	run      *record.Run
	owner    *metav1.OwnerReference
	servers  map[CanaryID]*httptest.Server
	canaries map[CanaryID]*canary.Canary
}

func (c *localCanaries) Start(_ context.Context, r *record.Run, _ Settings, owner *metav1.OwnerReference,
	all []CanaryID) (map[CanaryID]error, error) {
	c.run, c.owner, c.servers, c.canaries = r, owner, map[CanaryID]*httptest.Server{}, map[CanaryID]*canary.Canary{}
	for _, id := range all {
		if c.broken[id] == nil {
			c.start(id)
		}
	}
	return c.broken, nil
}

// start starts a canary, which may have been stopped before.
func (c *localCanaries) start(id CanaryID) {
	i := slices.IndexFunc(c.deployment.Endpoints(), func(e local.Endpoint) bool { return e.Name == id.DataCenter })
	k, err := canary.Start(context.Background(), canary.Config{DataCenter: id.DataCenter,
		Name: id.DataCenter + "/" + string(id.Through), Addr: c.deployment.Endpoints()[i].RESP,
		Prefix: "drill:" + c.run.ID, Secret: []byte("secret"), Sessions: 4, Keys: 8, Rate: 100,
		Timeout: 2 * time.Second, TTL: time.Hour, Seed: 1})
	if err != nil {
		c.Error(err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.canaries[id], c.servers[id] = k, httptest.NewServer(k.Handler("token"))
}

// kill stops a canary, and forgets what it has not reported.
func (c *localCanaries) kill(id CanaryID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers[id].Close()
	c.canaries[id].Stop()
	delete(c.canaries, id)
}

func (c *localCanaries) find(id CanaryID) (*canary.Canary, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.canaries[id]; k != nil {
		return k, nil
	}
	return nil, errors.New("no answer")
}

func (c *localCanaries) UIDs() map[string]string { return nil }

func (c *localCanaries) Report(_ context.Context, id CanaryID, from canary.Position) (canary.Report, error) {
	k, err := c.find(id)
	if err != nil {
		return canary.Report{}, err
	}
	return k.Report(from), nil
}

func (c *localCanaries) Stop(_ context.Context, id CanaryID) error {
	k, err := c.find(id)
	if err == nil {
		k.Stop()
	}
	return err
}

func (c *localCanaries) ReadFinally(_ context.Context, id CanaryID, round int) (history.History, error) {
	k, err := c.find(id)
	if err != nil {
		return nil, err
	}
	lines, err := k.ReadFinally(round)
	if err != nil {
		return nil, err
	}
	return history.ReadAll(strings.NewReader(lines))
}

func (c *localCanaries) DeleteKeys(_ context.Context, id CanaryID) error {
	k, err := c.find(id)
	if err != nil {
		return err
	}
	return k.Delete()
}

func (c *localCanaries) Remove(context.Context) error {
	for id, s := range c.servers {
		s.Close()
		if k := c.canaries[id]; k != nil {
			k.Stop()
		}
	}
	return nil
}

// shortly are settings for tests: the times of a run, but shorter.
func shortly() Settings {
	s := DefaultSettings()
	s.Baseline, s.Injection, s.After, s.Poll = 1500*time.Millisecond, 2*time.Second, 300*time.Millisecond,
		100*time.Millisecond
	return s
}

// runDrill runs a drill as the command does.
func (b *testBed) runDrill(name string, choice Choice, settings Settings) (*record.Run, string, error) {
	b.Helper()
	d, err := Find(name)
	if err != nil {
		b.Fatal(err)
	}
	l, err := Look(b.Context(), b.client, b.store)
	if err != nil {
		b.Fatal(err)
	}
	for _, dc := range b.sidecars {
		id := CanaryID{dc, record.Sidecar}
		l.Canaries = append(l.Canaries, Pod{Namespace: b.store.Namespace, Name: podName(b.store.Name, "abcd", id),
			DataCenter: dc, Component: ComponentCanary, Side: Front, Ready: true})
	}
	p, err := LookAhead(b.Context(), b.client, l, d, choice, nil)
	if err != nil {
		b.Fatal(err)
	}
	var out strings.Builder
	p.Describe(&out, settings)
	b.canaries.T, b.canaries.deployment = b.T, b.deployment
	x := &Runner{Client: b.client, Canaries: &b.canaries, Settings: settings, Out: &out, Version: "test"}
	r, err := x.Run(b.Context(), p)
	b.Log(out.String())
	return r, out.String(), err
}

// promise returns a promise of a run by the begin of its text.
func promise(r *record.Run, text string) record.Promise {
	i := slices.IndexFunc(r.Promises, func(p record.Promise) bool { return strings.HasPrefix(p.Text, text) })
	if i < 0 {
		return record.Promise{Observed: fmt.Sprintf("no promise %q", text)}
	}
	return r.Promises[i]
}
