package causalstore_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/command"
	"github.com/causalstore/causalstore/controllers/eventnote"
	"github.com/causalstore/causalstore/controllers/trust"
	"github.com/causalstore/causalstore/e2e/apiserver"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	// Most tests wait for an operator that looks again after a while. -parallel sets another number.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	apiserver.Main(m)
}

// cluster is a namespace of a real API server that enforces the level "restricted" of the Pod Security Standards. The
// type workloads simulates nodes, StatefulSets and pods.
type cluster struct {
	t         *testing.T
	config    *rest.Config
	client    client.Client
	namespace string
	workloads *workloads
	parts     *parts
	// prober is what operators ask; nil for none.
	prober causalstore.Prober
	// wrap, if set, makes the client of operators from that of their manager.
	wrap func(client.Client) client.Client
	// user is whom operators are, if not the one with the rights of the manifests; it may use the namespace only.
	user string
	// edgeImage is the image of edges that operators have.
	edgeImage string
	// etcdImage is that of etcds, and limits are what stores may choose.
	etcdImage string
	limits    v1alpha1.Limits
	// identity of operators, which is the namespace of their lease.
	identity string
	clock    clock
	// log takes what operators log; discarded by default.
	log logr.Logger
	// issuer of the certificates, and the trust domain of its CA, if operators have no authority of their own.
	issuer, trustDomain string
}

// clock is the clock of operators, which a test may set forward.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// keeper returns what keeps the authority of an operator, in the namespace of the test.
func (k *cluster) keeper(m ctrl.Manager, region string) *trust.Keeper {
	keeper := &trust.Keeper{Client: m.GetClient(), Uncached: m.GetAPIReader(), Namespace: k.namespace,
		Name: "authority-" + region, Region: region, TrustDomain: k.trustDomain, Now: k.clock.now}
	if k.issuer != "" {
		keeper.Requests = &trust.Requests{Client: keeper.Client, Uncached: keeper.Uncached, Namespace: k.namespace,
			Name: keeper.Name, Issuer: trust.Issuer{Name: k.issuer, Group: trust.IssuerGroup}}
	}
	return keeper
}

const operatorUser = "system:serviceaccount:causalstore-system:causalstore-operator"

var namespaces atomic.Int32

func newCluster(t *testing.T) *cluster {
	t.Helper()
	t.Parallel()
	config := apiserver.ForTest(t)
	scheme, err := command.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	apiserver.InstallCRDs(t, filepath.Join("..", "..", "config", "crd", "bases"))
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	k := &cluster{log: logr.Discard(), t: t, config: config, client: c,
		namespace: fmt.Sprintf("test-%d", namespaces.Add(1))}
	k.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: k.namespace, Labels: map[string]string{
		"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": "latest"}}})
	k.create(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "example.com/disks",
		AllowVolumeExpansion: ptr(true)})
	for _, zone := range strings.Fields("zone-a zone-b zone-c zone-d zone-e zone-f us-east-1a us-east-1b us-east-1c") {
		k.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + zone,
			Labels: map[string]string{corev1.LabelTopologyZone: zone}}})
	}
	k.grantOperator()
	k.workloads, k.parts = simulateWorkloads(k), newParts()
	return k
}

// create creates an object, unless it exists.
func (k *cluster) create(o client.Object) {
	k.t.Helper()
	if err := k.client.Create(k.t.Context(), o); err != nil && !apierrors.IsAlreadyExists(err) {
		k.t.Fatal(err)
	}
}

// grantOperator gives the operator exactly the rights that it is shipped with.
func (k *cluster) grantOperator() {
	b, err := os.ReadFile(filepath.Join("..", "..", "config", "rbac", "role.yaml"))
	if err != nil {
		k.t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(b, role); err != nil {
		k.t.Fatal(err)
	}
	k.create(role)
	k.create(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: operatorUser}}})
}

// operator runs an operator until stop is called, or the test ends.
func (k *cluster) operator(region, image string) (stop func()) {
	k.t.Helper()
	config := rest.CopyConfig(k.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: cmp.Or(k.user, operatorUser)}
	options := causalstore.CacheOptions(k.namespace)
	m, err := ctrl.NewManager(config, ctrl.Options{Scheme: k.client.Scheme(), Cache: options, Logger: k.log,
		Metrics:    server.Options{BindAddress: "0"},
		Controller: ctrlconfig.Controller{SkipNameValidation: ptr(true)}})
	if err != nil {
		k.t.Fatal(err)
	}
	r := &causalstore.Reconciler{Client: m.GetClient(), Uncached: m.GetAPIReader(), Scheme: m.GetScheme(),
		Events:     eventnote.Recorder{EventRecorder: m.GetEventRecorder(plan.ManagedBy)},
		Trust:      k.keeper(m, region),
		Namespaces: []string{k.namespace}, Operator: k.identity, Lease: "operator." + region, Region: region,
		Image: image, EdgeImage: k.edgeImage, EtcdImage: k.etcdImage, Limits: k.limits, Random: rand.Reader,
		Now: k.clock.now, Prober: k.prober}
	if k.wrap != nil {
		r.Client = k.wrap(r.Client)
	}
	if err := errors.Join(m.Add(r.Trust), r.SetupWithManager(m)); err != nil {
		k.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	var once atomic.Bool
	stop = func() {
		if !once.Swap(true) {
			cancel()
			if err := <-ended; err != nil {
				k.t.Errorf("the operator ended: %v", err)
			}
		}
	}
	k.t.Cleanup(stop)
	return stop
}

// sample creates the store of a sample file.
func (k *cluster) sample(file string, change func(*v1alpha1.CausalStore)) *v1alpha1.CausalStore {
	k.t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "config", "samples", file))
	if err != nil {
		k.t.Fatal(err)
	}
	s := &v1alpha1.CausalStore{}
	if err := yaml.UnmarshalStrict(b, s); err != nil {
		k.t.Fatal(err)
	}
	s.Namespace = k.namespace
	if change != nil {
		change(s)
	}
	k.create(s)
	return s
}

// update changes the spec of a store.
func (k *cluster) update(name string, change func(*v1alpha1.CausalStore)) {
	k.t.Helper()
	k.await("update of "+name, func() (bool, string) {
		s := k.store(name)
		change(s)
		err := k.client.Update(k.t.Context(), s)
		if err != nil && !apierrors.IsConflict(err) {
			k.t.Fatal(err)
		}
		return err == nil, fmt.Sprint(err)
	})
}

func (k *cluster) store(name string) *v1alpha1.CausalStore {
	k.t.Helper()
	s := &v1alpha1.CausalStore{}
	k.get(name, s)
	return s
}

func (k *cluster) get(name string, o client.Object) {
	k.t.Helper()
	if err := k.client.Get(k.t.Context(), client.ObjectKey{Namespace: k.namespace, Name: name}, o); err != nil {
		k.t.Fatal(err)
	}
}

// exists reports whether an object exists.
func (k *cluster) exists(name string, o client.Object) bool {
	k.t.Helper()
	err := k.client.Get(k.t.Context(), client.ObjectKey{Namespace: k.namespace, Name: name}, o)
	if client.IgnoreNotFound(err) != nil {
		k.t.Fatal(err)
	}
	return err == nil
}

// awaitCondition waits until a condition of a store has a status and reason for the newest spec.
func (k *cluster) awaitCondition(store, condition string, is metav1.ConditionStatus, reason string) metav1.Condition {
	k.t.Helper()
	var c metav1.Condition
	k.await(fmt.Sprintf("%s %s %s", condition, is, reason), func() (bool, string) {
		s := k.store(store)
		found := meta.FindStatusCondition(s.Status.Conditions, condition)
		if found == nil || s.Status.ObservedGeneration != s.Generation {
			return false, "not observed yet"
		}
		c = *found
		return c.Status == is && c.Reason == reason, fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
	})
	return c
}

// awaitTimeout bounds every wait. Most take milliseconds; on a machine that also runs clusters and compiles, three
// minutes were seen.
const awaitTimeout = 6 * time.Minute

// await waits until done returns true. The longer it has waited, the less often it looks: each look costs the API
// server as much as a small step of the operator.
func (k *cluster) await(what string, done func() (bool, string)) {
	k.t.Helper()
	for began := time.Now(); ; {
		ok, is := done()
		if ok {
			return
		}
		waited := time.Since(began)
		if waited > awaitTimeout {
			k.t.Fatalf("timed out waiting for %s; now: %s", what, is)
		}
		time.Sleep(min(max(waited/8, 10*time.Millisecond), 250*time.Millisecond))
	}
}

func ptr[T any](v T) *T { return &v }
