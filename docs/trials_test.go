package docs_test

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	testsOfPackage = regexp.MustCompile("`([a-z0-9/]+)`\\s+((?:(?:Test|Benchmark)\\w+(?:,\\s)?)+)")
	testName       = regexp.MustCompile(`(?:Test|Benchmark)[A-Z]\w+`)
)

// TestEveryTestOfTheTrialsExists checks the names of tests, which are given after their package.
func TestEveryTestOfTheTrialsExists(t *testing.T) {
	r := loadRepository(t)
	text := r.files["docs/trials.md"]
	checked := 0
	for _, m := range testsOfPackage.FindAllStringSubmatch(text, -1) {
		for _, name := range testName.FindAllString(m[2], -1) {
			if checked++; !r.hasTest(m[1], name) {
				t.Errorf("package %s has no test %s", m[1], name)
			}
		}
	}
	if named := len(testName.FindAllString(text, -1)); checked < 50 || named > checked+1 { // and the example
		t.Errorf("found only %d of %d names of tests after the name of a package", checked, named)
	}
	step := regexp.MustCompile(`step "([^"]+)"`).FindStringSubmatch(text)
	if step == nil || !strings.Contains(r.files["e2e/store/journey_test.go"], `"`+step[1]) {
		t.Errorf("the journey has no step %q", step)
	}
}

func (r *repository) hasTest(dir, name string) bool {
	for file, text := range r.files {
		if path.Dir(file) == dir && strings.HasSuffix(file, "_test.go") && strings.Contains(text, "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
