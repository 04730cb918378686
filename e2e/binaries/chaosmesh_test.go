package binaries

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheClockCodeIsCompiledAndAFailureNamesTheFile(t *testing.T) {
	dir := t.TempDir()
	compiler := filepath.Join(dir, "cc")
	script := "#!/bin/sh\n" + `while [ $# -gt 0 ]; do case "$1" in -o) out=$2;; *.c) in=$1;; esac; shift; done
if grep -q wrong "$in"; then echo "expected a semicolon"; exit 1; fi
cp "$in" "$out"
`
	if err := os.WriteFile(compiler, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	sources := filepath.Join(dir, "sources")
	if err := compileClocks(t.Context(), compiler, sources); err == nil ||
		!strings.Contains(err.Error(), "has no C code") {
		t.Errorf("a folder without C code: %v", err)
	}
	if err := os.Mkdir(sources, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(sources, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("one.c", "right")
	write("two.c", "right")
	if err := compileClocks(t.Context(), compiler, sources); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one.o", "two.o"} {
		if !exists(filepath.Join(sources, name)) {
			t.Errorf("there is no %s", name)
		}
	}
	write("two.c", "wrong")
	if err := compileClocks(t.Context(), compiler, sources); err == nil || !strings.Contains(err.Error(), "two.c") ||
		!strings.Contains(err.Error(), "semicolon") {
		t.Errorf("wrong code: %v", err)
	}
}

// Without a compiler the daemon is built as it is: experiments with clocks do not work, and all others do.
func TestWithoutACompilerTheDaemonIsBuiltWithoutClocks(t *testing.T) {
	t.Setenv("CC", filepath.Join(t.TempDir(), "missing"))
	source, err := sourceFolder()
	if err != nil {
		t.Fatal(err)
	}
	scratch, err := sourceWithClocks(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(scratch)
	want, err := os.ReadFile(filepath.Join(source, "chaosmesh", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(scratch, "chaosmesh", "go.mod")); err != nil ||
		string(got) != string(want) {
		t.Errorf("go.mod differs from the pinned one (%v)", err)
	}
	if exists(filepath.Join(scratch, "module")) {
		t.Error("the module was copied without need")
	}
}
