package v1alpha1_test

import (
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"
)

// maxCRD is the largest object that `kubectl apply` can handle, in bytes: it stores a copy in an annotation.
const maxCRD = 262144

const crdFile = "causalstore.io_causalstores.yaml"

// TestTheCRDIsSmallEnoughForKubectlApply: kubectl keeps what it applies as JSON in an annotation.
func TestTheCRDIsSmallEnoughForKubectlApply(t *testing.T) {
	applied, err := yaml.YAMLToJSON([]byte(read(t, filepath.Join("..", "..", "config", "crd", "bases", crdFile))))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(applied); n > maxCRD/2 {
		t.Errorf("the CRD has %d bytes, more than half of the %d that kubectl apply can handle", n, maxCRD)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
