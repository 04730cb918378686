package v1alpha1

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestEveryConditionSaysWhatItIsInAHealthyStore: what shows problems goes by this list, and a condition that is not in
// it would never be shown.
func TestEveryConditionSaysWhatItIsInAHealthyStore(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "conditions.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var declared []string
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(s.Names[0].Name, "Condition") {
			name, err := strconv.Unquote(s.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			declared = append(declared, name)
		}
		return true
	})
	listed := ConditionTypes()
	slices.Sort(declared)
	slices.Sort(listed)
	if len(declared) < 10 || !slices.Equal(declared, listed) {
		t.Errorf("declared %v, listed %v", declared, listed)
	}
}
