package debian

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestAProgramIsAddedWithItsLinkerAndLibraries(t *testing.T) {
	if _, err := os.Stat("/etc/debian_version"); err != nil {
		t.Skip("needs a Debian system")
	}
	c := &closure{root: "/", seen: map[string]bool{}}
	if err := c.add("/bin/sh"); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"/bin/sh", "ld-linux", "libc.so"} {
		if !slices.ContainsFunc(c.names, func(name string) bool { return strings.Contains(name, part) }) {
			t.Errorf("no %s in %v", part, c.names)
		}
	}
	before := len(c.names)
	if err := c.add("/bin/sh"); err != nil || len(c.names) != before {
		t.Errorf("adding it again gives %v (%v)", c.names, err)
	}
}

func TestErrorsNameTheMissingFile(t *testing.T) {
	c := &closure{root: t.TempDir(), seen: map[string]bool{}}
	if _, err := c.findLibrary("libnone.so.1"); err == nil ||
		!strings.Contains(err.Error(), "no package contains libnone.so.1") {
		t.Errorf("missing library: %v", err)
	}
	if err := c.add("/bin/none"); err == nil || !strings.Contains(err.Error(), "/bin/none") {
		t.Errorf("missing program: %v", err)
	}
}

func TestLinksAreResolvedBelowTheRoot(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"lib/a": "b", "lib/b": "/lib/c", "lib/loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "lib", "c"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c := &closure{root: root}
	if got := c.resolveLinks("/lib/a"); got != "/lib/c" {
		t.Errorf("/lib/a resolves to %s, want /lib/c", got)
	}
	c.resolveLinks("/lib/loop") // terminates
}

// fakeAptGet replaces apt-get by a script that, as on a new machine, finds no package before the first update.
func fakeAptGet(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	script := `#!/bin/sh
case "$*" in
*update*) touch ` + dir + `/lists ;;
*" install "*)
  [ -e ` + dir + `/lists ] || { echo "E: Unable to locate package redis-server" >&2; exit 100; }
  echo "NOTE: This is only a simulation!"
  echo "Inst libc6 (2.36 Debian:12 [amd64])"
  echo "Inst libperl5.36 (5.36 Debian:12 [amd64])"
  echo "Inst adduser (3.1 Debian:12 [all])"
  echo "Inst zlib1g (1.2 Debian:12 [amd64])"
  echo "Inst redis-server (7.0 Debian:12 [amd64])"
  echo "Conf libc6 (2.36 Debian:12 [amd64])" ;;
esac
`
	if err := os.WriteFile(filepath.Join(dir, "apt-get"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func TestAPackageBringsTheLibrariesThatAnEmptyMachineWouldInstall(t *testing.T) {
	fakeAptGet(t)
	got, err := withLibraries(t.Context(), t.TempDir(), []string{"redis-server"})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"redis-server", "libc6", "zlib1g"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
