package version_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/version"
)

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile("../" + file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestEverythingThatIsBuiltHasTheVersionOfTheFile: the chart, whose default image has that tag, and the labels and
// programs of images.
func TestEverythingThatIsBuiltHasTheVersionOfTheFile(t *testing.T) {
	if !regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9a-z.]+)?$`).MatchString(version.Number()) {
		t.Errorf("%q is no semantic version", version.Number())
	}
	for _, chart := range []string{"charts/causalstore", "charts/causalstore-drills"} {
		var c struct{ AppVersion, Version string }
		if err := yaml.Unmarshal([]byte(read(t, chart+"/Chart.yaml")), &c); err != nil {
			t.Fatal(err)
		}
		if c.AppVersion != version.Number() || c.Version != strings.TrimSuffix(version.Number(), "-dev") {
			t.Errorf("%s has version %s and appVersion %s; the file version/VERSION says %s", chart, c.Version,
				c.AppVersion, version.Number())
		}
	}
	for file, wants := range map[string][]string{
		"Makefile": {"VERSION  = $(shell cat version/VERSION)", "--build-arg VERSION=$(VERSION)",
			"--build-arg REVISION=$(REVISION)"},
		"Dockerfile": {"-X github.com/causalstore/causalstore/version.revision=${REVISION}",
			`org.opencontainers.image.version="${VERSION}"`,
			`org.opencontainers.image.revision="${REVISION}"`},
	} {
		for _, want := range wants {
			if !strings.Contains(read(t, file), want) {
				t.Errorf("%s lacks %q", file, want)
			}
		}
	}
	if !strings.HasPrefix(version.Exact(), version.Number()) ||
		!strings.HasPrefix(version.Describe(), version.Number()+", revision ") {
		t.Errorf("%q, %q", version.Exact(), version.Describe())
	}
}
