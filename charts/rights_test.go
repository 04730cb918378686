package charts_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/command"
	"github.com/causalstore/causalstore/e2e/apiserver"
)

// template renders the chart.
func template(t *testing.T, set string) string {
	t.Helper()
	out, err := helm(t, "template", "causalstore", "causalstore", "--namespace", "causalstore-system", "--kube-version",
		kubeVersion,
		"--set", "region=local,"+set)
	if err != nil {
		t.Fatal(out)
	}
	return out
}

// readable are the resources that an operator of some namespaces may read in the whole cluster.
var readable = []string{"nodes", "namespaces", "persistentvolumes", "leases", "priorityclasses", "storageclasses"}

func TestAnOperatorOfSomeNamespacesHasNoRightsInOthers(t *testing.T) {
	text := template(t, "watchNamespaces={shop,web}")
	each(t, text, "ClusterRole", func(r *rbacv1.ClusterRole) {
		for _, rule := range r.Rules {
			for _, resource := range rule.Resources {
				reads := !slices.ContainsFunc(rule.Verbs, func(v string) bool {
					return !slices.Contains([]string{"get", "list", "watch"}, v)
				})
				ofTheChart := rule.APIGroups[0] == "causalstore.io" && r.AggregationRule == nil &&
					strings.Contains(r.Name, "causalstore-") || resource == "mutatingwebhookconfigurations" &&
					len(rule.ResourceNames) == 1
				if (!slices.Contains(readable, resource) || !reads) && !ofTheChart {
					t.Errorf("ClusterRole %s allows %v of %s", r.Name, rule.Verbs, resource)
				}
			}
		}
	})
	var all []rbacv1.PolicyRule
	found := map[string]int{}
	each(t, text, "Role", func(r *rbacv1.Role) {
		if r.Namespace != "causalstore-system" {
			found[r.Namespace], all = len(r.Rules), r.Rules
		}
	})
	if len(found) != 2 || found["shop"] == 0 || found["shop"] != found["web"] {
		t.Errorf("rules by namespace: %v", found)
	}
	// Together the roles allow what the generated one does.
	generated := &rbacv1.ClusterRole{}
	b, err := os.ReadFile(filepath.Join("causalstore", "files", "role.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(b, generated); err != nil {
		t.Fatal(err)
	}
	for _, rule := range generated.Rules {
		inCluster := slices.Contains(readable, rule.Resources[0])
		for _, resource := range rule.Resources {
			if slices.Contains(readable, resource) != inCluster {
				t.Errorf("the generated rule %v has resources of both kinds, which the chart cannot tell apart", rule)
			}
		}
		if !inCluster {
			all = slices.DeleteFunc(all, func(r rbacv1.PolicyRule) bool { return fmt.Sprint(r) == fmt.Sprint(rule) })
		}
	}
	if len(all) > 0 {
		t.Errorf("the Roles allow more than the generated role: %v", all)
	}
}

// A webhook of an operator that may not read a namespace would refuse pods there where sidecars are required.
func TestTheWebhooksOfAnOperatorOfSomeNamespacesAreCalledForThoseOnly(t *testing.T) {
	want := metav1.LabelSelectorRequirement{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn,
		Values: []string{"shop", "web"}}
	seen := 0
	each(t, template(t, "watchNamespaces={shop,web}"), "MutatingWebhookConfiguration",
		func(c *admissionv1.MutatingWebhookConfiguration) {
			for _, w := range c.Webhooks {
				seen++
				if !slices.ContainsFunc(w.NamespaceSelector.MatchExpressions,
					func(r metav1.LabelSelectorRequirement) bool { return reflect.DeepEqual(r, want) }) {
					t.Errorf("%s is called in other namespaces: %v", w.Name, w.NamespaceSelector)
				}
			}
		})
	if seen != 3 {
		t.Errorf("%d webhooks, want 3", seen)
	}
}

// install installs a release, without the CRD, until uninstall is called, and returns a client with the rights of its
// ServiceAccount, and one of an administrator.
func install(t *testing.T, release, namespace, set string) (operator, admin client.Client, uninstall func()) {
	t.Helper()
	config := apiserver.ForTest(t)
	t.Setenv("KUBECONFIG", apiserver.Kubeconfig(t))
	if out, err := helm(t, "install", release, "causalstore", "--create-namespace", "--namespace", namespace, "--set",
		"crds.install=false,"+set); err != nil {
		t.Fatalf("helm install %s: %s", release, out)
	}
	uninstall = func() {
		if out, err := helm(t, "uninstall", release, "--namespace", namespace); err != nil {
			t.Errorf("helm uninstall %s: %s", release, out)
		}
	}
	scheme, err := command.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	as := rest.CopyConfig(config)
	as.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":" + release,
		Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	for c, config := range map[*client.Client]*rest.Config{&operator: as, &admin: config} {
		if *c, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
			t.Fatal(err)
		}
	}
	return operator, admin, uninstall
}

// installCRD installs the CRD until remove is called: Helm refuses to install over one that it does not own.
func installCRD(t *testing.T) (remove func()) {
	t.Helper()
	dir := filepath.Join("..", "config", "crd", "bases")
	apiserver.InstallCRDs(t, dir)
	return func() { apiserver.RemoveCRDs(t, dir) }
}

// eventually waits until f returns no error: the API server needs a moment for new roles, resources and policies.
func eventually(t *testing.T, what string, f func(context.Context) error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = f(t.Context()); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

func TestTheRightsAndLimitsOfAReleaseOnARealAPIServer(t *testing.T) {
	config := apiserver.ForTest(t)
	defer installCRD(t)()
	scheme, err := command.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"limited", "unwatched"} {
		if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	operator, admin, uninstall := install(t, "causalstore", "limited-system",
		"region=local,watchNamespaces={limited},limits.images={registry.example.com/,redis:},limits.nodeLabels={pool},limits.tolerations={dedicated},limits.priorityClasses={important},limits.labels={team,example.com/},limits.annotations={example.com/}")
	defer uninstall()
	eventually(t, "the operator reads a Secret where it watches", func(ctx context.Context) error {
		return client.IgnoreNotFound(operator.Get(ctx, client.ObjectKey{Namespace: "limited", Name: "any"},
			&corev1.Secret{}))
	})
	if err := operator.Get(t.Context(), client.ObjectKey{Namespace: "unwatched", Name: "any"},
		&corev1.Secret{}); client.IgnoreNotFound(err) == nil {
		t.Error("the operator may read Secrets of a namespace that it does not watch")
	}
	if err := operator.List(t.Context(), &corev1.NodeList{}); err != nil {
		t.Errorf("the operator may not list nodes: %v", err)
	}
	// The webhook for bindings reads the pods of apps.
	eventually(t, "the operator reads a pod where it watches", func(ctx context.Context) error {
		return client.IgnoreNotFound(operator.Get(ctx, client.ObjectKey{Namespace: "limited", Name: "any"},
			&corev1.Pod{}))
	})
	if err := operator.Get(t.Context(), client.ObjectKey{Namespace: "unwatched", Name: "any"},
		&corev1.Pod{}); client.IgnoreNotFound(err) == nil {
		t.Error("the operator may read pods of a namespace that it does not watch")
	}
	store := func(change func(*v1alpha1.CausalStore)) *v1alpha1.CausalStore {
		s := &v1alpha1.CausalStore{}
		if err := yaml.UnmarshalStrict([]byte(`
spec:
  storage: {engine: Redis, image: "redis:7.4"}
  dataCenters: [{name: here, region: local, zones: {frontend: [a], backend: [b]}}]
  rings: [{name: only, dataCenters: [here]}]`), s); err != nil {
			t.Fatal(err)
		}
		s.Namespace, s.GenerateName = "limited", "s-"
		change(s)
		return s
	}
	for want, change := range map[string]func(*v1alpha1.CausalStore){
		"spec.image: docker.io/evil/causalstore:v1 is not allowed; this operator allows " +
			"registry.example.com/, redis:": func(s *v1alpha1.CausalStore) {
			s.Spec.Image = "docker.io/evil/causalstore:v1"
		},
		"spec.storage.image: registry.example.com.evil.org/redis:7 is not allowed": func(s *v1alpha1.CausalStore) {
			s.Spec.Storage.Image = "registry.example.com.evil.org/redis:7"
		},
		"spec.zoneLabel: node-role.kubernetes.io/control-plane is not allowed": func(s *v1alpha1.CausalStore) {
			s.Spec.ZoneLabel = "node-role.kubernetes.io/control-plane"
		},
		"nodeSelector: a label is not allowed": func(s *v1alpha1.CausalStore) {
			s.Spec.DataCenters[0].Pods.NodeSelector = v1alpha1.NodeSelector{"other": "x"}
		},
		"nodeAffinity: a label is not allowed": func(s *v1alpha1.CausalStore) {
			s.Spec.Pods.NodeAffinity = []v1alpha1.NodeRequirement{{Key: "other", Operator: corev1.NodeSelectorOpExists}}
		},
		"topologySpreadConstraints: a label is not allowed": func(s *v1alpha1.CausalStore) {
			s.Spec.Pods.TopologySpreadConstraints = []v1alpha1.SpreadConstraint{{TopologyKey: "other"}}
		},
		"tolerations: a taint is not allowed": func(s *v1alpha1.CausalStore) {
			s.Spec.DataCenters[0].Pods.Tolerations = []v1alpha1.Toleration{{Operator: corev1.TolerationOpExists}}
		},
		"priorityClassName: the class is not allowed": func(s *v1alpha1.CausalStore) {
			s.Spec.Pods.PriorityClassName = "system-node-critical"
		},
		"labels: a key is not allowed": func(s *v1alpha1.CausalStore) {
			s.Spec.DataCenters[0].Pods.Labels = v1alpha1.Labels{"app": "payments"}
		},
		"annotations: a key is not allowed": func(s *v1alpha1.CausalStore) {
			s.Spec.Pods.Annotations = v1alpha1.Annotations{"example.com": "x"}
		},
		"serviceAccount.annotations: a key is not allowed": func(s *v1alpha1.CausalStore) {
			s.Spec.ServiceAccount.Annotations = v1alpha1.Annotations{"eks.amazonaws.com/role-arn": "x"}
		},
		"etcd.image: the image is not allowed": func(s *v1alpha1.CausalStore) {
			s.Spec.DataCenters[0].Etcd.Image = "evil/etcd:v1"
		},
		"edge.service.annotations: a key is not allowed": func(s *v1alpha1.CausalStore) {
			s.Spec.DataCenters[0].Edge = &v1alpha1.Edge{Address: "edge.example.com:443",
				Service: v1alpha1.EdgeService{Annotations: v1alpha1.Annotations{"example.org/public": "x"}}}
		},
	} {
		eventually(t, "refusal with "+want, func(ctx context.Context) error {
			s := store(change)
			err := admin.Create(ctx, s)
			if err == nil {
				return errors.Join(errors.New("the store was accepted"), admin.Delete(ctx, s))
			}
			if !strings.Contains(err.Error(), want) {
				return err
			}
			return nil
		})
		// The operator says the same where the policy is missing.
		limits := v1alpha1.Limits{Images: []string{"registry.example.com/", "redis:"}, NodeLabels: []string{"pool"},
			Tolerations:     []string{"dedicated"},
			PriorityClasses: []string{"important"}, Labels: []string{"team", "example.com/"},
			Annotations: []string{"example.com/"}}
		s := store(change)
		if s.Spec.ZoneLabel == "" {
			s.Spec.ZoneLabel = corev1.LabelTopologyZone // the default
		}
		got := limits.Check(&s.Spec, "local")
		field, _, _ := strings.Cut(want, ":")
		if len(got) != 1 || !strings.HasPrefix(got[0], field) ||
			!strings.Contains(got[0], " is not allowed; this operator allows ") {
			t.Errorf("the operator says %q where the policy says %q", got, want)
		}
		if got := limits.Check(&store(func(s *v1alpha1.CausalStore) {
			s.Spec.ZoneLabel = corev1.LabelTopologyZone
		}).Spec, "local"); len(got) > 0 {
			t.Errorf("the operator refuses a good store: %q", got)
		}
	}
	good := store(func(s *v1alpha1.CausalStore) {
		s.Spec.Image = "registry.example.com/causalstore:v1"
		s.Spec.Pods = v1alpha1.PodSettings{PriorityClassName: "important",
			Labels:                    v1alpha1.Labels{"team": "x", "example.com/team": "y"},
			TopologySpreadConstraints: []v1alpha1.SpreadConstraint{{TopologyKey: corev1.LabelHostname}}}
		s.Spec.DataCenters[0].Pods = v1alpha1.PodSettings{NodeSelector: v1alpha1.NodeSelector{"pool": "x"},
			Annotations: v1alpha1.Annotations{"example.com/note": "x"},
			Tolerations: []v1alpha1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}}
	})
	elsewhere := store(func(s *v1alpha1.CausalStore) {
		s.Spec.Image, s.Spec.DataCenters[0].Region = "any/image", "other"
	})
	for what, s := range map[string]*v1alpha1.CausalStore{"a store within the limits": good,
		"a store of another region": elsewhere} {
		if err := admin.Create(t.Context(), s); err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if err := admin.Delete(t.Context(), s); err != nil {
			t.Error(err)
		}
	}
}

func TestTwoReleasesOfOneNameAndTwoRegionsDoNotShareObjects(t *testing.T) {
	defer installCRD(t)()
	_, admin, uninstall := install(t, "causalstore", "east-system", "region=east")
	defer uninstall()
	_, _, uninstall = install(t, "causalstore", "west-system", "region=west")
	defer uninstall()
	for _, name := range []string{"east-system-causalstore", "west-system-causalstore"} {
		if err := admin.Get(t.Context(), client.ObjectKey{Name: name}, &rbacv1.ClusterRole{}); err != nil {
			t.Error(err)
		}
	}
}
