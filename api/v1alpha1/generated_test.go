package v1alpha1_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// maxCRD is the largest object that `kubectl apply` can handle, in bytes: it stores a copy in an annotation.
const maxCRD = 262144

const crdFile = "causalstore.io_causalstores.yaml"

// TestGeneratedFilesAreUpToDate runs the generators into a temporary directory.
func TestGeneratedFilesAreUpToDate(t *testing.T) {
	dir := t.TempDir()
	runGo(t, "tool", "controller-gen", "object", "crd:allowDangerousTypes=true", "paths=.", "output:dir="+dir)
	runGo(t, "tool", "controller-gen", "rbac:roleName=causalstore-operator", "paths=../../controllers/...", "output:rbac:dir="+dir)
	runGo(t, "run", "./internal/reference", filepath.Join(dir, crdFile), filepath.Join(dir, "reference.md"))
	for generated, file := range map[string]string{
		crdFile:                    filepath.Join("..", "..", "config", "crd", "bases", crdFile),
		"zz_generated.deepcopy.go": "zz_generated.deepcopy.go",
		"role.yaml":                filepath.Join("..", "..", "config", "rbac", "role.yaml"),
		"reference.md":             filepath.Join("..", "..", "docs", "reference.md"),
	} {
		if d := cmp.Diff(read(t, filepath.Join(dir, generated)), read(t, file)); d != "" {
			t.Errorf("%s is out of date (-want +got); run make generate:\n%s", file, d)
		}
	}
}

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

// runGo runs the go command.
func runGo(t *testing.T, args ...string) {
	t.Helper()
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("the go command is not in PATH, so the generators cannot run")
	}
	if out, err := exec.CommandContext(t.Context(), goTool, args...).CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", args, err, out)
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
