package plan_test

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	_ "github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// observed returns the input of a plan for a new store.
func observed(t *testing.T, file, region string) plan.Observed {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(filepath.Join("testdata", "authority.pem"))
	if err != nil {
		t.Fatal(err)
	}
	in := plan.Observed{Store: &v1alpha1.CausalStore{}, Region: region, Image: "causalstore:operator",
		EdgeImage: "envoy:operator",
		Trust: plan.Trust{Domains: map[string]string{"local": "local.1", "us-east": "us-east.1",
			"eu-west": "eu-west.1"},
			Bundles: map[string]string{"local.1": "authorities of local", "us-east.1": string(authority),
				"eu-west.1": string(authority)}},
		Keys: plan.Keys{Storage: "a-password-of-tests"}}
	if err := yaml.UnmarshalStrict(b, in.Store); err != nil {
		t.Fatal(err)
	}
	if wrong := in.Store.Validate(); len(wrong) > 0 {
		t.Fatal(wrong)
	}
	return in
}

func planned(t *testing.T, in plan.Observed) plan.Plan {
	t.Helper()
	p, err := plan.Make(in)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// With -rewrite the golden files are written instead.
func TestPlansMatchTheGoldenFiles(t *testing.T) {
	for _, c := range []struct{ file, region string }{{"one.yaml", "local"}, {"regions.yaml", "us-east"},
		{"single-zone.yaml", "local"}} {
		t.Run(c.file, func(t *testing.T) {
			var out bytes.Buffer
			in := observed(t, c.file, c.region)
			p := planned(t, in)
			for _, o := range p.Apply {
				write(t, &out, o)
			}
			certificates, err := plan.Certificates(in, p.Record)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range certificates {
				write(t, &out, s.Secret)
				for _, name := range slices.Sorted(maps.Keys(s.Identities)) {
					fmt.Fprintf(&out, "# %s: %s\n", name, s.Identities[name])
				}
			}
			golden := filepath.Join("testdata", c.file+".golden")
			if flag.Lookup("rewrite").Value.String() == "true" { // the flag of datadriven
				if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), out.String()); d != "" {
				t.Errorf(
					"the plan differs from the golden file (-want +got); run with -rewrite if this is intended:\n%s", d)
			}
		})
	}
}

// write writes an object as it is applied, without the annotation with the copy of its pod template. Of the files of an
// edge, which package edge has golden files for, it writes the names.
func write(t *testing.T, out *bytes.Buffer, o client.Object) {
	t.Helper()
	u, err := plan.Manifest(o, scheme.Scheme)
	if err != nil {
		t.Fatal(err)
	}
	unstructured.RemoveNestedField(u.Object, "metadata", "annotations", "causalstore.io/template")
	if m, ok := o.(*corev1.ConfigMap); ok && o.GetLabels()[plan.LabelComponent] == plan.ComponentEdge {
		names := map[string]any{}
		for name := range m.Data {
			names[name] = "(of package edge)"
		}
		u.Object["data"] = names
	}
	b, err := yaml.Marshal(u.Object)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(out, "---\n%s", b)
}

// named returns the object of that name in a plan.
func named[T client.Object](t *testing.T, p plan.Plan, name string) T {
	t.Helper()
	for _, o := range p.Apply {
		if o, ok := o.(T); ok && o.GetName() == name {
			return o
		}
	}
	t.Fatalf("the plan has no %T %s", *new(T), name)
	panic("not reached")
}
