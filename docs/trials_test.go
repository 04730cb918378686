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
	journeyStep    = regexp.MustCompile(`step "([^"]+)"`)
)

// TestEveryTestThatIsNamedAsEvidenceExists checks the names of tests, which are given after their package.
func TestEveryTestThatIsNamedAsEvidenceExists(t *testing.T) {
	r := loadRepository(t)
	for document, of := range map[string]struct{ least, examples int }{"docs/trials.md": {50, 1},
		"SECURITY.md": {20, 0}} {
		text := r.files[document]
		checked := 0
		for _, m := range testsOfPackage.FindAllStringSubmatch(text, -1) {
			for _, name := range testName.FindAllString(m[2], -1) {
				if checked++; !r.hasTest(m[1], name) {
					t.Errorf("%s: package %s has no test %s", document, m[1], name)
				}
			}
		}
		if named := len(testName.FindAllString(text, -1)); checked < of.least || named > checked+of.examples {
			t.Errorf("%s: found only %d of %d names of tests after the name of a package", document, checked, named)
		}
		for _, step := range journeyStep.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(r.files["e2e/store/journey_test.go"], `"`+step[1]) {
				t.Errorf("%s: the journey has no step %q", document, step[1])
			}
		}
	}
	if !journeyStep.MatchString(r.files["docs/trials.md"]) {
		t.Error("found no step of the journey")
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
