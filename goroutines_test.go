package main_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// singleThreaded are the folders whose code and tests run one goroutine. Their tests run without the race detector
// (PLAIN in the Makefile), which takes five times as long and could find nothing.
var singleThreaded = []string{"sidecar/causal", "lab/sim/groups"}

// startsGoroutine returns where a file starts one, if it does. source is as for parser.ParseFile.
func startsGoroutine(t *testing.T, name string, source any) (at []token.Position) {
	t.Helper()
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, name, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			at = append(at, files.Position(n.Pos()))
		case *ast.SelectorExpr: // of a sync.WaitGroup or an errgroup; of a testing.T
			if n.Sel.Name == "Go" || n.Sel.Name == "Parallel" {
				at = append(at, files.Position(n.Pos()))
			}
		}
		return true
	})
	return at
}

func TestWhatIsTestedWithoutTheRaceDetectorStartsNoGoroutine(t *testing.T) {
	for _, folder := range singleThreaded {
		parsed := 0
		err := filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(name, ".go") {
				parsed++
				for _, at := range startsGoroutine(t, name, nil) {
					t.Errorf(
						"%s starts a goroutine; test its package with the race detector: remove it from PLAIN in the "+
							"Makefile and from here", at)
				}
			}
			return err
		})
		if err != nil || parsed == 0 {
			t.Errorf("%s: %d files, %v", folder, parsed, err)
		}
	}
	for source, want := range map[string]int{"go f()": 1, "var w sync.WaitGroup; w.Go(f)": 1, "t.Parallel()": 1,
		"f()": 0} {
		if got := startsGoroutine(t, "example.go", "package p\nfunc _() { "+source+" }"); len(got) != want {
			t.Errorf("%s: found at %v", source, got)
		}
	}
}
