package kube

import (
	"path/filepath"
	"testing"
)

// BuildProgram builds the program of this checkout, for as long as the test runs, and returns its path.
func BuildProgram(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "causalstore")
	if err := Show(t.Context(), "go", "build", "-buildvcs=false", "-o", program, "."); err != nil {
		t.Fatal(err)
	}
	return program
}
