package kubectl

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

var rewrite = flag.Bool("rewrite", false, "write the output to the golden files")

// golden compares output with a golden file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
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
		t.Errorf("the output differs (-want +got); if that is intended, run with -rewrite:\n%s", d)
	}
}

// fixture is a healthy store: the objects that the operator plans for it, and a ready pod for each replica of its
// StatefulSets.
type fixture struct {
	store  *v1alpha1.CausalStore
	maps   []corev1.ConfigMap
	parts  []corev1.Pod
	zoneOf map[string]string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return newFixtureOf(t, "us")
}

// newFixtureOf returns the store in the cluster of a region.
func newFixtureOf(t *testing.T, region string) *fixture {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "store.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	w := &fixture{store: &v1alpha1.CausalStore{}, zoneOf: map[string]string{}}
	if err := yaml.UnmarshalStrict(b, w.store); err != nil {
		t.Fatal(err)
	}
	if problems := w.store.Validate(); len(problems) > 0 {
		t.Fatal(problems)
	}
	p, err := plan.Make(plan.Observed{Store: w.store, Region: region, Image: "causalstore:v1",
		Keys: plan.Keys{Storage: "password"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range p.Apply {
		switch o := o.(type) {
		case *corev1.ConfigMap:
			w.maps = append(w.maps, *o)
		case *appsv1.StatefulSet:
			for i := range *o.Spec.Replicas {
				w.addPod(o, i)
			}
		}
	}
	return w
}

// addPod adds a pod of a StatefulSet, on a node of an allowed zone.
func (w *fixture) addPod(s *appsv1.StatefulSet, i int32) {
	zone := s.Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0].Values[0]
	p := corev1.Pod{Spec: s.Spec.Template.Spec}
	p.Name, p.Namespace, p.Labels = fmt.Sprintf("%s-%d", s.Name, i), s.Namespace, maps.Clone(s.Spec.Template.Labels)
	p.Labels[appsv1.PodIndexLabel] = fmt.Sprint(i)
	p.Spec.NodeName = "node-" + zone
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	w.zoneOf[p.Spec.NodeName] = zone
	w.parts = append(w.parts, p)
}

// pod returns a pod, for modification.
func (w *fixture) pod(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	for i := range w.parts {
		if w.parts[i].Name == name {
			return &w.parts[i]
		}
	}
	t.Fatalf("there is no pod %s", name)
	return nil
}

func (w *fixture) configuration(t *testing.T) *plan.PublishedTopology {
	t.Helper()
	configuration, err := plan.ReadPublishedTopology(w.maps)
	if err != nil || configuration == nil {
		t.Fatalf("%v, %v", configuration, err)
	}
	return configuration
}
