package v1alpha1_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// TestTheSchemaOffersOnlyWhatIsServed: kubectl explain lists the values of a field, and people believe it.
func TestTheSchemaOffersOnlyWhatIsServed(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "config", "crd", "bases", "causalstore.io_causalstores.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	crd := apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(b, &crd); err != nil {
		t.Fatal(err)
	}
	var offered []string
	var walk func(path []string, s *apiextensionsv1.JSONSchemaProps)
	walk = func(path []string, s *apiextensionsv1.JSONSchemaProps) {
		for name, p := range s.Properties {
			walk(append(slices.Clone(path), name), &p)
		}
		for _, value := range s.Enum {
			manifest := baseManifest(t, "offered")
			setFields(t, manifest, strings.Join(path, ".")+": "+string(value.Raw))
			offered = append(offered, strings.Join(path, ".")+"="+string(value.Raw))
			for _, problem := range typed(t, manifest).Validate() {
				if strings.Contains(problem, "not supported") {
					t.Errorf("the schema offers %s=%s: %s", strings.Join(path, "."), value.Raw, problem)
				}
			}
		}
	}
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	walk(nil, &spec)
	for _, known := range []string{`storage.engine="Redis"`, `consistency.default="Causal"`} {
		if !slices.Contains(offered, known) {
			t.Errorf("the schema does not offer %s; it has %s", known, offered)
		}
	}
	for field, words := range map[string][]string{"session.reads": namesOf(causal.SessionLevels()),
		"binding": namesOf(causal.Bindings())} {
		var got []string
		for _, o := range offered {
			if word, ok := strings.CutPrefix(o, field+"="); ok {
				got = append(got, strings.Trim(word, `"`))
			}
		}
		if !slices.Equal(got, words) {
			t.Errorf("the schema offers %s for %s, and the data plane knows %s", got, field, words)
		}
	}
}

func namesOf[T fmt.Stringer](values []T) (names []string) {
	for _, v := range values {
		names = append(names, v.String())
	}
	return names
}
