package image_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMakeImageBuildsAnArchiveIfDockerReachesNoDaemon runs `make image` with stand-ins for docker and go, which write
// what they are asked.
func TestMakeImageBuildsAnArchiveIfDockerReachesNoDaemon(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("make is not installed")
	}
	for about, c := range map[string]struct {
		docker string // a script; without one docker is not installed
		want   string
	}{
		"a daemon that answers": {"exit 0", "docker build -t causalstore:dev "},
		"a client without a daemon": {
			`[ "$1" = --version ] || { echo "Cannot connect to the Docker daemon" >&2; exit 1; }`,
			"go run ./e2e/cluster image-causalstore bin/causalstore.tar causalstore:dev"},
		"no docker": {"", "go run ./e2e/cluster image-causalstore bin/causalstore.tar causalstore:dev"},
	} {
		t.Run(about, func(t *testing.T) {
			dir := t.TempDir()
			script := func(name, text string) string {
				path := filepath.Join(dir, name)
				if err := os.WriteFile(path, []byte("#!/bin/sh\necho "+name+" \"$@\"\n"+text+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
				return path
			}
			docker := filepath.Join(dir, "docker")
			if c.docker != "" {
				docker = script("docker", c.docker)
			}
			makefile, err := filepath.Abs(filepath.Join("..", "..", "Makefile"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.ReadFile(makefile); err != nil { // so that the test runs again when it changes
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "make", "--file", makefile, "image", "DOCKER="+docker,
				"GO="+script("go", ""), "BUILDVCS=", "IMAGE=causalstore:dev")
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), c.want) {
				t.Errorf("%v; want a line with %q:\n%s", err, c.want, out)
			}
			if archive := strings.Contains(string(out),
				"wrote causalstore:dev to bin/causalstore.tar"); archive == (about == "a daemon that answers") {
				t.Errorf("what it says of an archive is wrong:\n%s", out)
			}
		})
	}
}
