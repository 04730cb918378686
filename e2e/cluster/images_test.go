//go:build linux

package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/causalstore/causalstore/e2e/binaries"
)

// TestTheImageOfEnvoyRunsWithoutRootAndHasWhatItNeeds runs Envoy in the files of its image alone.
func TestTheImageOfEnvoyRunsWithoutRootAndHasWhatItNeeds(t *testing.T) {
	if os.Getenv(binaries.EnvEnvoy) == "" {
		t.Skipf("%s names no Envoy; set it to what `go run ./e2e/cluster envoy` prints, which downloads it (37 MB)",
			binaries.EnvEnvoy)
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		t.Skip("needs root, to enter the files of an image, and apt-get, for the libraries of Debian")
	}
	archive := filepath.Join(t.TempDir(), "envoy.tar")
	if err := writeEnvoyImage(t.Context(), archive, "envoy:1"); err != nil {
		t.Fatal(err)
	}
	if out := runImage(t, archive, "envoy", "/usr/local/bin/envoy"); !strings.Contains(out, "/1.40.0/") {
		t.Error(out)
	}
}

// TestTheImageOfEtcdRunsWithoutRootAndHasWhatItNeeds runs etcd in the files of its image alone. The operator needs 3.6
// or newer.
func TestTheImageOfEtcdRunsWithoutRootAndHasWhatItNeeds(t *testing.T) {
	if _, err := binaries.Find(t.Context(), "etcd"); err != nil {
		t.Skip(err)
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		t.Skip("needs root, to enter the files of an image, and apt-get, for the libraries of Debian")
	}
	archive := filepath.Join(t.TempDir(), "etcd.tar")
	if err := writeEtcdImage(t.Context(), archive, "etcd:1"); err != nil {
		t.Fatal(err)
	}
	out := runImage(t, archive, "etcd", "/usr/local/bin/etcd")
	var minor int
	if _, err := fmt.Sscanf(out, "etcd Version: 3.%d.", &minor); err != nil || minor < 6 {
		t.Errorf("want etcd 3.6 or newer (%v):\n%s", err, out)
	}
}

// runImage checks that an image of one layer runs a program without root, and returns the version that the program
// prints, in the files of the image alone.
func runImage(t *testing.T, archive, entrypoint, program string) string {
	t.Helper()
	root := t.TempDir()
	image, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if c := config.Config; len(c.Entrypoint) != 1 || c.Entrypoint[0] != entrypoint || c.User != nonRoot {
		t.Errorf("it runs %q as %q, want %s as %s", c.Entrypoint, c.User, entrypoint, nonRoot)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers (%v), want 1", len(layers), err)
	}
	files, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	extract(t, files, root)
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "--version")
	cmd.Dir, cmd.Env = "/", []string{pathEnv}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root,
		Credential: &syscall.Credential{Uid: nonRootID, Gid: nonRootID}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// extract unpacks a layer of folders and files.
func extract(t *testing.T, layer io.Reader, root string) {
	t.Helper()
	for r := tar.NewReader(layer); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(root, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			var f *os.File
			if f, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY, os.FileMode(h.Mode)); err == nil {
				_, err = io.Copy(f, r)
				err = errors.Join(err, f.Close())
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
