package v1alpha1_test

import (
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestEveryRuleOfTheCRDIsBrokenOnceInTheSuite: a rule that no case breaks might as well not be there.
func TestEveryRuleOfTheCRDIsBrokenOnceInTheSuite(t *testing.T) {
	suite := read(t, filepath.Join("testdata", "admission"))
	var crd any
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join("..", "..", "config", "crd", "bases",
		"causalstore.io_causalstores.yaml"))), &crd); err != nil {
		t.Fatal(err)
	}
	n := 0
	rules(crd, func(rule map[string]any) {
		n++
		says, _ := rule["message"].(string)
		if e, ok := rule["messageExpression"].(string); ok {
			says = strings.SplitN(e, "'", 3)[1] // the words before the first value
		}
		if says == "" || !strings.Contains(suite, says) {
			t.Errorf("no case breaks rule %v (%q)", rule["rule"], says)
		}
	})
	if n < 20 {
		t.Errorf("%d rules were found; there are more", n)
	}
}

// rules calls f for every validation rule, at any depth.
func rules(in any, f func(map[string]any)) {
	switch in := in.(type) {
	case map[string]any:
		if all, ok := in["x-kubernetes-validations"].([]any); ok {
			for _, r := range all {
				f(r.(map[string]any))
			}
		}
		for _, v := range in {
			rules(v, f)
		}
	case []any:
		for _, v := range in {
			rules(v, f)
		}
	}
}
