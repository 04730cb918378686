package v1alpha1_test

import (
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestEveryRuleOfTheCRDIsViolatedByACase: a rule that no case violates might as well not exist.
func TestEveryRuleOfTheCRDIsViolatedByACase(t *testing.T) {
	suite := read(t, filepath.Join("testdata", "admission"))
	var crd any
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join("..", "..", "config", "crd", "bases",
		"causalstore.io_causalstores.yaml"))), &crd); err != nil {
		t.Fatal(err)
	}
	n := 0
	forEachRule(crd, func(rule map[string]any) {
		n++
		message, _ := rule["message"].(string)
		if e, ok := rule["messageExpression"].(string); ok {
			message = strings.SplitN(e, "'", 3)[1] // the text before the first value
		}
		if message == "" || !strings.Contains(suite, message) {
			t.Errorf("no case violates rule %v (%q)", rule["rule"], message)
		}
	})
	if n < 20 {
		t.Errorf("found only %d rules", n)
	}
}

// forEachRule calls f for every validation rule, at any depth.
func forEachRule(in any, f func(map[string]any)) {
	switch in := in.(type) {
	case map[string]any:
		if all, ok := in["x-kubernetes-validations"].([]any); ok {
			for _, r := range all {
				f(r.(map[string]any))
			}
		}
		for _, v := range in {
			forEachRule(v, f)
		}
	case []any:
		for _, v := range in {
			forEachRule(v, f)
		}
	}
}
