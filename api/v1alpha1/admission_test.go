package v1alpha1_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/e2e/apiserver"
)

func TestMain(m *testing.M) { apiserver.Main(m) }

var stores = v1alpha1.GroupVersion.WithResource("causalstores")

// TestTheAPIServerSaysWhatIsWrongWithAManifest plays testdata/admission against the real API server. Each case is the base
// manifest with some fields set, one a line, as "path: value"; without a value a field is removed.
//
//	create   makes it
//	update   makes the base, and then changes it
//
// What Validate and ValidateChange say must be the same, where a rule of the CRD was broken.
func TestTheAPIServerSaysWhatIsWrongWithAManifest(t *testing.T) {
	config := apiserver.ForTest(t)
	if err := apiserver.InstallCRDs(t.Context(), config, filepath.Join("..", "..", "config", "crd", "bases")); err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	api := client.Resource(stores).Namespace("default")
	next := 0
	datadriven.RunTest(t, filepath.Join("testdata", "admission"), func(t *testing.T, d *datadriven.TestData) string {
		next++
		name := fmt.Sprintf("case-%d", next)
		d.MaybeScanArgs(t, "name", &name)
		create := base(t, name)
		if d.Cmd == "create" {
			set(t, create, d.Input)
		}
		made, err := api.Create(t.Context(), create, metav1.CreateOptions{FieldValidation: "Strict"})
		if d.Cmd == "create" {
			if err == nil {
				create = made // with its defaults
			}
			return agree(t, err, typed(t, create).Validate())
		}
		if err != nil {
			t.Fatalf("%s: make the base: %v", d.Pos, err)
		}
		old := typed(t, made)
		set(t, made, d.Input)
		changed := typed(t, made)
		_, err = api.Update(t.Context(), made, metav1.UpdateOptions{FieldValidation: "Strict"})
		return agree(t, err, append(changed.Validate(), changed.Spec.ValidateChange(&old.Spec)...))
	})
}

// agree returns what the API server has said. Of what a rule says, Go must have said the same, and nothing more.
func agree(t *testing.T, err error, inGo []string) string {
	t.Helper()
	var status apierrors.APIStatus
	switch {
	case err == nil && len(inGo) > 0:
		t.Errorf("the API server took what Validate refuses: %s", inGo)
		fallthrough
	case err == nil:
		return "accepted\n"
	case apierrors.IsBadRequest(err):
		return "refused: " + err.Error() + "\n"
	case !errors.As(err, &status) || status.Status().Details == nil:
		t.Fatal(err)
	}
	var said []string
	for _, c := range status.Status().Details.Causes {
		message := c.Message
		if i := strings.Index(message, ": Invalid value: "); i >= 0 {
			message = message[i+2:]
		}
		message = strings.TrimPrefix(message, "Invalid value: ")
		said = append(said, message)
	}
	slices.Sort(said)
	return "refused: " + strings.Join(slices.Compact(said), "\nrefused: ") + "\n" + difference(said, inGo)
}

// difference: Go may add in brackets which data centre or ring is meant.
func difference(said, inGo []string) string {
	var b strings.Builder
	for i, m := range inGo {
		if at := strings.LastIndex(m, " ("); at >= 0 && strings.HasSuffix(m, ")") {
			inGo[i] = m[:at]
		}
	}
	for _, m := range inGo {
		if !slices.ContainsFunc(said, func(s string) bool { return strings.HasSuffix(s, m) }) {
			fmt.Fprintf(&b, "only Validate: %s\n", m)
		}
	}
	for _, s := range said {
		if !slices.ContainsFunc(inGo, func(m string) bool { return strings.HasSuffix(s, m) }) {
			fmt.Fprintf(&b, "only the schema: %s\n", s)
		}
	}
	return b.String()
}

func base(t *testing.T, name string) *unstructured.Unstructured {
	b, err := os.ReadFile(filepath.Join("testdata", "base.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(b, &u.Object); err != nil {
		t.Fatal(err)
	}
	u.SetName(name)
	return u
}

// typed is what Go code sees of a manifest. What the API server would default is given by it already, in the base.
func typed(t *testing.T, u *unstructured.Unstructured) *v1alpha1.CausalStore {
	c := &v1alpha1.CausalStore{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, c); err != nil {
		t.Logf("no Go code will see this: %v", err)
		return base0(t)
	}
	return c
}

// base0 is the base as Go sees it.
func base0(t *testing.T) *v1alpha1.CausalStore { return typed(t, base(t, "base")) }

// set changes fields. A path is relative to spec; numbers in it are indices, and the one behind the end appends.
func set(t *testing.T, u *unstructured.Unstructured, lines string) {
	for line := range strings.Lines(lines) {
		path, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		var v any
		if err := yaml.Unmarshal([]byte(value), &v); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		u.Object["spec"] = put(t, u.Object["spec"], strings.Split(path, "."), v)
	}
}

func put(t *testing.T, in any, path []string, v any) any {
	if len(path) == 0 {
		return v
	}
	switch in := in.(type) {
	case map[string]any:
		if in[path[0]] = put(t, in[path[0]], path[1:], v); in[path[0]] == nil {
			delete(in, path[0])
		}
		return in
	case []any:
		i, err := strconv.Atoi(path[0])
		if err != nil || i > len(in) {
			t.Fatalf("%q is no index of a list of %d", path[0], len(in))
		}
		if i == len(in) {
			in = append(in, nil)
		}
		if in[i] = put(t, in[i], path[1:], v); in[i] == nil {
			in = slices.Delete(in, i, i+1)
		}
		return in
	}
	return put(t, map[string]any{}, path, v)
}
