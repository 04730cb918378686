package v1alpha1_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// maxCRD is the greatest size that `kubectl apply` can handle: it keeps a copy in an annotation.
const maxCRD = 262144

func TestGeneratedFilesAreUpToDateAndTheCRDIsSmall(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("the go command is not in PATH, so controller-gen cannot be run")
	}
	made := t.TempDir()
	generate := exec.CommandContext(t.Context(), goTool, "tool", "controller-gen", "object", "crd", "paths=.", "output:dir="+made)
	if said, err := generate.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	const crd = "causalstore.io_causalstores.yaml"
	for name, kept := range map[string]string{
		crd:                        filepath.Join("..", "..", "config", "crd", "bases", crd),
		"zz_generated.deepcopy.go": "zz_generated.deepcopy.go",
	} {
		want, got := read(t, filepath.Join(made, name)), read(t, kept)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s is out of date (-want +got); run make generate:\n%s", kept, d)
		}
		if name == crd && len(got) > maxCRD/2 {
			t.Errorf("the CRD has %d bytes; kubectl apply can handle %d", len(got), maxCRD)
		}
	}
}

func read(t *testing.T, path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
