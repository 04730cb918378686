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

// TestTheAPIServerRejectsInvalidManifestsWithTheMessagesOfValidate runs testdata/admission against a real API server.
// Each case is the base manifest with some fields set, one per line, as "path: value"; a path without a value removes
// the field.
//
//	create   creates the manifest
//	update   creates the base, and then updates it to the manifest. Fields above a line with --- are those of the base; those below "status" are
//	         what the operator says
//
// Where a CEL rule of the CRD rejects it, Validate, ValidateChange and ValidateExclusions must return the same message.
func TestTheAPIServerRejectsInvalidManifestsWithTheMessagesOfValidate(t *testing.T) {
	config := apiserver.ForTest(t)
	apiserver.InstallCRDs(t, filepath.Join("..", "..", "config", "crd", "bases"))
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
		manifest := baseManifest(t, name)
		before, input, staged := strings.Cut(d.Input, "---\n")
		if !staged {
			before, input = "", d.Input
		}
		if d.Cmd == "create" {
			setFields(t, manifest, d.Input)
		}
		ofStatus := setBase(t, manifest, before)
		created, err := api.Create(t.Context(), manifest, metav1.CreateOptions{FieldValidation: "Strict"})
		if d.Cmd == "create" {
			if err == nil {
				manifest = created // with defaults
			}
			return compareMessages(t, err, typed(t, manifest).Validate())
		}
		if err != nil {
			t.Fatalf("%s: create the base: %v", d.Pos, err)
		}
		if len(ofStatus) > 0 {
			created.Object["status"] = ofStatus
			if created, err = api.UpdateStatus(t.Context(), created,
				metav1.UpdateOptions{FieldValidation: "Strict"}); err != nil {
				t.Fatalf("%s: set the status of the base: %v", d.Pos, err)
			}
		}
		old := typed(t, created)
		setFields(t, created, input)
		changed := typed(t, created)
		_, err = api.Update(t.Context(), created, metav1.UpdateOptions{FieldValidation: "Strict"})
		return compareMessages(t, err, slices.Concat(changed.Validate(), changed.Spec.ValidateChange(&old.Spec),
			changed.ValidateExclusions(&old.Spec)))
	})
}

// setBase sets fields of the base, and returns those of its status.
func setBase(t *testing.T, u *unstructured.Unstructured, lines string) map[string]any {
	t.Helper()
	status := map[string]any{}
	for line := range strings.Lines(lines) {
		path, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		name, ok := strings.CutPrefix(path, "status.")
		if !ok {
			setFields(t, u, line)
			continue
		}
		var v any
		if err := yaml.Unmarshal([]byte(value), &v); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		status[name] = v
	}
	return status
}

// compareMessages returns the API server's answer, and the messages that only it or only Go has.
func compareMessages(t *testing.T, err error, inGo []string) string {
	t.Helper()
	var status apierrors.APIStatus
	switch {
	case err == nil && len(inGo) > 0:
		t.Errorf("the API server accepts what Validate rejects: %s", inGo)
		fallthrough
	case err == nil:
		return "accepted\n"
	case apierrors.IsBadRequest(err):
		return "rejected: " + err.Error() + "\n"
	case !errors.As(err, &status) || status.Status().Details == nil:
		t.Fatal(err)
	}
	var messages []string
	for _, c := range status.Status().Details.Causes {
		message := c.Message
		if i := strings.Index(message, ": Invalid value: "); i >= 0 {
			message = message[i+2:]
		}
		message = strings.TrimPrefix(message, "Invalid value: ")
		messages = append(messages, message)
	}
	slices.Sort(messages)
	return "rejected: " + strings.Join(slices.Compact(messages), "\nrejected: ") + "\n" + difference(messages, inGo)
}

// difference returns the messages of one side that the other lacks. Go may append the data center or ring in
// parentheses.
func difference(inSchema, inGo []string) string {
	var b strings.Builder
	for i, m := range inGo {
		if at := strings.LastIndex(m, " ("); at >= 0 && strings.HasSuffix(m, ")") {
			inGo[i] = m[:at]
		}
	}
	for _, m := range inGo {
		if !slices.ContainsFunc(inSchema, func(s string) bool { return strings.HasSuffix(s, m) }) {
			fmt.Fprintf(&b, "only Validate: %s\n", m)
		}
	}
	for _, s := range inSchema {
		if !slices.ContainsFunc(inGo, func(m string) bool { return strings.HasSuffix(s, m) }) {
			fmt.Fprintf(&b, "only the schema: %s\n", s)
		}
	}
	return b.String()
}

// baseManifest returns testdata/base.yaml under another name.
func baseManifest(t *testing.T, name string) *unstructured.Unstructured {
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

// typed converts a manifest to the Go type. The base sets every default, so the result is what the API server would
// make of it.
func typed(t *testing.T, u *unstructured.Unstructured) *v1alpha1.CausalStore {
	c := &v1alpha1.CausalStore{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, c); err != nil {
		t.Logf("the manifest cannot be converted, so no Go code sees it: %v", err)
		return typed(t, baseManifest(t, "base"))
	}
	return c
}

// setFields sets fields. A path is relative to spec; numbers in it are indices, and an index equal to the length
// appends.
func setFields(t *testing.T, u *unstructured.Unstructured, lines string) {
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
			t.Fatalf("%q is not an index of a list of %d", path[0], len(in))
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
