package causalstore_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

// TestEverySampleIsAcceptedAndBecomesReady: by the API server with the rules of the CRD, and with the operator of each
// of its regions.
func TestEverySampleIsAcceptedAndBecomesReady(t *testing.T) {
	dir := filepath.Join("..", "..", "config", "samples")
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var listed struct{ Resources []string }
	if err := yaml.Unmarshal(b, &listed); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		if name == "kustomization.yaml" {
			continue
		}
		if !slices.Contains(listed.Resources, name) {
			t.Errorf("kustomization.yaml does not list %s", name)
		}
		t.Run(strings.TrimSuffix(name, ".yaml"), func(t *testing.T) {
			k := newClusterWithEtcd(t)
			k.edgeImage = "envoy:v1"
			s := k.sample(name, func(s *v1alpha1.CausalStore) {
				for _, dc := range s.Spec.DataCenters {
					for _, zone := range slices.Concat(dc.Zones.Frontend, dc.Zones.Backend) {
						k.create(
							&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + zone,
								Labels: map[string]string{corev1.LabelTopologyZone: zone}}})
					}
				}
			})
			k.operator(s.Spec.DataCenters[0].Region, "causalstore:v1")
			k.awaitCondition(s.Name, v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
			if c := k.awaitTopology(s.Name); c.Status != yes {
				t.Errorf("%+v", c)
			}
		})
	}
}

// awaitTopology waits until the operator has judged the spec of a store.
func (k *cluster) awaitTopology(store string) (c metav1.Condition) {
	k.await("a verdict on the spec", func() (bool, string) {
		for _, c = range k.store(store).Status.Conditions {
			if c.Type == v1alpha1.ConditionTopologyValid {
				return true, ""
			}
		}
		return false, "there is none"
	})
	return c
}
